#pragma once
// Files that appear whole or not at all, and files that are read only after it is known what they
// are. Every function throws UserError(io_error) with the system's reason; callers add the path.

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

// Who may have written a file that is to be read.
enum class Trust {
  own,          // this user alone
  own_or_root,  // or the administrator, who installs files for others
};

// The file or folder belongs to whom `trust` says and nobody else may write it.
void check_owner_and_mode(int descriptor, Trust trust);

// Nothing if there is no such file. Pipes, devices and folders are refused and never waited for.
// `folder`: a descriptor that `name` is relative to, or AT_FDCWD.
enum class Links { refuse, follow };
std::optional<FileHandle> open_regular_file(int folder, const std::string& name, Links links);
std::int64_t size_of(const FileHandle& file);
// At most `limit` bytes from the start.
std::string read_bytes(const FileHandle& file, std::int64_t limit);

// Written under a temporary name of its own in the same folder; commit() gives it its name. Without
// commit() nothing is left behind.
class AtomicFile {
 public:
  AtomicFile(int folder, std::string name, mode_t mode);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  enum class Durable { no, yes };  // yes: also after a power failure
  void commit(Durable durable);

  // What the temporary names of `name` start with.
  static std::string temporary_prefix(std::string_view name);

 private:
  int folder_;
  std::string name_, temporary_;
  FileHandle file_;
};

// Writes a file of the user's: it replaces a regular file only, at `path` itself (no link is
// followed), and is on the disk when this returns. The messages name the path.
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
