#pragma once
// Damaged texts: valid ones with typos, disk errors or malicious changes.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gex::test {

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> corpus) : corpus_(std::move(corpus)) {}

  // Some text of the corpus with one to four changes; the same for the same seed.
  std::string text(std::uint64_t seed);

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  void change(std::string& text);
  void change_number(std::string& text);
  void swap_words(std::string& text);
  void nest(std::string& text);

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

}  // namespace gex::test
