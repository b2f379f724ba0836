#include "cache/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/error.hpp"

namespace gex {

namespace {

constexpr std::string_view kTemporary = ".writing.";
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

[[noreturn]] void fail_errno(const char* what, int error) {
  fail(ErrorCode::io_error, what, ": ", std::strerror(error));
}

// Unique among processes, including those of other machines that share the folder.
std::string unique_suffix() {
  static const std::uint64_t process = [] {
    std::random_device random;
    return (std::uint64_t{random()} << 32) | random();
  }();
  static std::atomic<std::uint64_t> number{0};
  return str(::getpid(), ".", process, ".", number++);
}

const char* kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

}  // namespace

void FileHandle::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void check_owner_and_mode(int descriptor, Trust trust) {
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) fail_errno("it can't be examined", errno);
  const bool by_root = trust == Trust::own_or_root && info.st_uid == 0;
  if (info.st_uid != ::geteuid() && !by_root)
    fail(ErrorCode::io_error, "it is owned by another user (", info.st_uid, ")");
  if ((info.st_mode & kOthersMayWrite) != 0)
    fail(ErrorCode::io_error,
         "other users may write to it; remove their write permission (chmod go-w)");
}

std::optional<FileHandle> open_regular_file(int folder, const std::string& name, Links links) {
  // O_NONBLOCK: opening a pipe without a writer would block. Regular files ignore it.
  int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  if (links == Links::refuse) flags |= O_NOFOLLOW;
  FileHandle file(::openat(folder, name.c_str(), flags));
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    if (errno == ELOOP) fail(ErrorCode::io_error, "it is a symbolic link");
    fail_errno("it can't be opened", errno);
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) fail_errno("it can't be examined", errno);
  if (!S_ISREG(info.st_mode))
    fail(ErrorCode::io_error, "it is ", kind_of(info.st_mode), ", not a regular file");
  return file;
}

std::int64_t size_of(const FileHandle& file) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) fail_errno("it can't be examined", errno);
  return info.st_size;
}

std::string read_bytes(const FileHandle& file, std::int64_t limit) {
  std::string bytes(static_cast<std::size_t>(std::min(limit, size_of(file))), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("it can't be read", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string AtomicFile::temporary_prefix(std::string_view name) { return str(name, kTemporary); }

AtomicFile::AtomicFile(int folder, std::string name, mode_t mode)
    : folder_(folder),
      name_(std::move(name)),
      temporary_(temporary_prefix(name_) + unique_suffix()),
      file_(::openat(folder, temporary_.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)) {
  if (!file_) fail_errno("a file can't be created in its folder", errno);
}

AtomicFile::~AtomicFile() {
  if (file_) ::unlinkat(folder_, temporary_.c_str(), 0);
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno("writing failed", errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit(Durable durable) {
  if (durable == Durable::yes && ::fsync(file_.get()) != 0) fail_errno("writing failed", errno);
  if (::renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0)
    fail_errno("it can't be renamed to its final name", errno);
  file_ = FileHandle();
  // The directory entry has to reach the disk too. Some file systems can't sync a folder.
  if (durable == Durable::yes && ::fsync(folder_) != 0 && errno != EINVAL)
    fail_errno("its folder can't be written", errno);
}

namespace {

template <class Work>
void naming(const std::string& path, const Work& work) {
  try {
    work();
  } catch (const UserError& error) {
    fail(error.code(), "'", path, "' can't be written: ", error.what());
  }
}

}  // namespace

UserFileWriter::UserFileWriter(const std::string& path) : path_(path) {
  naming(path_, [&] {
    const std::filesystem::path whole(path);
    const std::string name = whole.filename().string();
    if (name.empty() || name == "." || name == "..")
      fail(ErrorCode::invalid_argument, "it names a folder, not a file");
    const std::string parent = whole.has_parent_path() ? whole.parent_path().string() : ".";
    folder_ = FileHandle(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) fail_errno("its folder can't be opened", errno);
    struct stat info{};
    if (::fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(info.st_mode))
      fail(ErrorCode::io_error, "it is ", kind_of(info.st_mode), ", not a regular file");
    // Never writable by others, whatever the umask: such a file would not be loaded.
    file_.emplace(folder_.get(), name, 0644);
  });
}

void UserFileWriter::write(std::string_view bytes) {
  naming(path_, [&] { file_->write(bytes); });
}

void UserFileWriter::commit() {
  naming(path_, [&] { file_->commit(AtomicFile::Durable::yes); });
}

}  // namespace gex
