#include "report/sass.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

namespace gex::report {
namespace {

std::string found(const std::string& tool) {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PATH")) {
    std::istringstream list(path);
    for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder);
  }
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(std::string(home) + "/bin");
  folders.emplace_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders)
    if (std::string file = folder + "/" + tool; access(file.c_str(), X_OK) == 0) return file;
  return {};
}

// The beginning of a command that prints the image whose name follows.
const std::string& command() {
  static const std::string text = [] {
    for (const auto& [tool, option] : {std::pair{"nvdisasm", "-c"}, {"cuobjdump", "-sass"}})
      if (const std::string file = found(tool); !file.empty()) return "'" + file + "' " + option;
    return std::string();
  }();
  return text;
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    const int file = mkstemp(name_);
    if (file < 0) return;
    written_ = write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    close(file);
  }
  ~TemporaryFile() { unlink(name_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const char* name() const { return written_ ? name_ : nullptr; }

 private:
  char name_[32] = "/tmp/gex_image_XXXXXX";
  bool written_ = false;
};

}  // namespace

std::string sass_of(const std::string& image) {
  if (command().empty()) return {};
  const TemporaryFile file(image);
  if (file.name() == nullptr) return {};
  const std::string line = command() + " " + file.name() + " 2>/dev/null";
  FILE* const output = popen(line.c_str(), "r");
  if (output == nullptr) return {};
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t bytes = fread(part.data(), 1, part.size(), output))
    text.append(part.data(), bytes);
  return pclose(output) == 0 ? text : std::string();
}

}  // namespace gex::report
