#pragma once
// Why a file can't be read, and what to do about it.

#include <string>

namespace gex {

// The text of an errno with advice: "No such file or directory; check the name: relative paths
// start at '/home/me'".
std::string file_problem(const std::string& path, int error);

// Devices such as /dev/zero, which may have no end.
bool is_device(const std::string& path);

}  // namespace gex
