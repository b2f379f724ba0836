#pragma once
// A file mapped into memory: pages are read on access and can be dropped again.

#include <string_view>

#include "cache/atomic_file.hpp"

namespace gex {

class MappedFile {
 public:
  // UserError(io_error). The file must not be truncated meanwhile: gex replaces its files by
  // rename, which does not affect the mapping.
  explicit MappedFile(const FileHandle& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace gex
