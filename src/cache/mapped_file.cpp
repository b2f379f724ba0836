#include "cache/mapped_file.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace gex {

MappedFile::MappedFile(const FileHandle& file) : size_(static_cast<std::size_t>(size_of(file))) {
  if (size_ == 0) return;
  data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data_ == MAP_FAILED)
    fail(ErrorCode::io_error, "it can't be mapped into memory: ", std::strerror(errno));
}

MappedFile::~MappedFile() {
  if (size_ != 0) ::munmap(data_, size_);
}

}  // namespace gex
