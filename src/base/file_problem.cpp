#include "base/file_problem.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace gex {

std::string file_problem(const std::string& path, int error) {
  namespace fs = std::filesystem;
  const std::string reason = std::strerror(error);
  std::error_code ignored;
  switch (error) {
    case ENOENT:
      if (path.empty()) return reason + "; the name is empty";
      if (const fs::path folder = fs::path(path).parent_path();
          !folder.empty() && !fs::exists(folder, ignored))
        return reason + "; its folder '" + folder.string() + "' does not exist";
      if (fs::path(path).is_absolute()) return reason + "; check the name";
      return reason + "; check the name: relative paths start at '" +
             fs::current_path(ignored).string() + "'";
    case EACCES:
      return reason + "; allow this user to access it (chmod), and to enter its folders";
    case EISDIR:
      return reason + "; name a file in it";
    default:
      return reason;
  }
}

bool is_device(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  return fs::is_character_file(path, ignored) || fs::is_block_file(path, ignored);
}

}  // namespace gex
