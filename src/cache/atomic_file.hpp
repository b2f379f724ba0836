#pragma once
// Files that are written atomically, and files that are read only after checking their type and
// owner. Every function throws UserError(io_error) with the system's reason; callers add the path.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gex {

class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  ~FileHandle() { close(); }
  FileHandle(FileHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  void close();
  int descriptor_ = -1;
};

// Whose files may be read.
enum class Trust {
  own,          // only this user's
  own_or_root,  // or root's, who installs files for others
};

// Checks that the file or folder has an owner that `trust` allows and that nobody else may write
// it.
void check_owner_and_mode(int descriptor, Trust trust);

// Nothing if there is no such file. Pipes, devices and folders are refused without blocking.
// `folder`: a descriptor that `name` is relative to, or AT_FDCWD.
enum class Links { refuse, follow };
std::optional<FileHandle> open_regular_file(int folder, const std::string& name, Links links);
std::int64_t size_of(const FileHandle& file);
// At most `limit` bytes from the start.
std::string read_bytes(const FileHandle& file, std::int64_t limit);

// Written under a unique temporary name in the same folder; commit() renames it. Without commit()
// the temporary file is removed.
class AtomicFile {
 public:
  AtomicFile(int folder, std::string name, mode_t mode);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  enum class Durable { no, yes };  // yes: survives a power failure
  void commit(Durable durable);

  // Prefix of the temporary names of `name`.
  static std::string temporary_prefix(std::string_view name);

 private:
  int folder_;
  std::string name_, temporary_;
  FileHandle file_;
};

// Writes a file named by the user: replaces only a regular file at `path` itself (links are not
// followed), and has reached the disk when commit() returns. Error messages name the path.
class UserFileWriter {
 public:
  explicit UserFileWriter(const std::string& path);
  void write(std::string_view bytes);
  void commit();

 private:
  std::string path_;
  FileHandle folder_;
  std::optional<AtomicFile> file_;
};

}  // namespace gex
