#pragma once
// Random Programs over several streams, for tests of what may run at the same time.

#include <random>
#include <string>
#include <vector>

namespace gex::runtime::testing {

inline constexpr int kElements = 512;
inline constexpr int kTemps = 12;

// Steps that read what earlier ones wrote, some of them overwriting it, on random streams. All have
// so many operands, or 1 to 3.
inline std::string random_program(std::mt19937& random, int steps, int operands = 0) {
  const std::string size = std::to_string(kElements), bytes = std::to_string(kElements * 4);
  std::string text = "program \"random\"\nstreams 5\ninput 0 \"x\" f32 [" + size + "] -> %0\n";
  text += "output 0 \"y\" fresh f32 [" + size + "] -> %1\n";
  text += "buffer %0 \"x\" input 0 f32 [" + size + "] bytes [" + bytes + "]\n";
  text += "buffer %1 \"y\" output 0 f32 [" + size + "] bytes [" + bytes + "]\n";
  for (int i = 0; i < kTemps; ++i)
    text += "buffer %" + std::to_string(2 + i) + " \"t\" temp f32 [" + size + "] bytes [" + bytes +
            "]\n";
  text += "code 0 \"mix\"\nmain 0\nsegment 0 \"main\"\n";
  std::vector<int> written = {0};
  const auto launch = [&](int to, int stream) {
    const int reads = operands > 0 ? operands : 1 + static_cast<int>(random() % 3);
    text += "  launch \"mix\" code 0";
    for (int k = 0; k < reads; ++k)
      text += " read %" + std::to_string(written[random() % written.size()]);
    text += " write %" + std::to_string(to) + " dims [" + std::to_string(reads) + "] grid [" +
            size + "] work [400000] stream " + std::to_string(stream) + "\n";
  };
  for (int i = 0; i < steps; ++i) {
    const int to = 2 + static_cast<int>(random() % kTemps);
    launch(to, static_cast<int>(random() % 5));
    written.push_back(to);
    if (i % 10 == 9) written = {0, to};  // values that are never read again free their memory
  }
  launch(1, 0);
  return text;
}

}  // namespace gex::runtime::testing
