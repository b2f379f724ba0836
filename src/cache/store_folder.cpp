#include "cache/store_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "program/artefact.hpp"

namespace gex {

namespace {

constexpr mode_t kFolderMode = 0700, kFileMode = 0600;
constexpr std::size_t kShardDigits = 2, kKeyDigits = 64;
// The name and first line are a convention that backup programs know.
constexpr const char* kTag = "CACHEDIR.TAG";
constexpr std::string_view kTagText =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# gex created this folder and may remove files in it.\n";

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f'); });
}

bool is_entry(std::string_view name, std::string_view shard) {
  return name.size() == kKeyDigits && name.starts_with(shard) && is_hex(name);
}

bool is_temporary(std::string_view name, std::string_view shard) {
  return name.size() > kKeyDigits && is_entry(name.substr(0, kKeyDigits), shard) &&
         name.starts_with(AtomicFile::temporary_prefix(name.substr(0, kKeyDigits)));
}

// Nothing if it does not exist.
std::optional<FileHandle> open_folder(int parent, const std::string& name, Missing missing,
                                      int flags) {
  if (missing == Missing::make && ::mkdirat(parent, name.c_str(), kFolderMode) != 0 &&
      errno != EEXIST)
    fail(ErrorCode::io_error, std::strerror(errno));
  FileHandle folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
  if (folder) return folder;
  if (errno == ENOENT) return std::nullopt;
  // With O_NOFOLLOW a symbolic link is reported as "not a directory".
  if (errno == ENOTDIR || errno == ELOOP)
    fail(ErrorCode::io_error, "it is a file or a symbolic link, not a folder");
  fail(ErrorCode::io_error, std::strerror(errno));
}

template <class Work>
auto naming(const std::string& path, const Work& work) {
  try {
    return work();
  } catch (const UserError& error) {
    fail(error.code(), "folder ", path, " can't be used: ", error.what());
  }
}

// Checks that other users can't replace what is in the folder. A sticky folder such as /tmp is
// fine: only the owner of a file may rename it there.
void check_root(int descriptor) {
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) fail(ErrorCode::io_error, std::strerror(errno));
  if ((info.st_mode & S_ISVTX) != 0 && (info.st_uid == 0 || info.st_uid == ::geteuid())) return;
  check_owner_and_mode(descriptor, Trust::own_or_root);
}

std::vector<std::string> names_in(int folder) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(copy >= 0 ? ::fdopendir(copy) : nullptr,
                                                    &::closedir);
  if (listing == nullptr) {
    const int error = errno;
    if (copy >= 0) ::close(copy);
    fail(ErrorCode::io_error, "it can't be listed: ", std::strerror(error));
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

bool is_tagged(int folder) {
  const std::optional<FileHandle> tag = open_regular_file(folder, kTag, Links::refuse);
  if (!tag) return false;
  check_owner_and_mode(tag->get(), Trust::own);
  return read_bytes(*tag, kTagText.size() + 1) == kTagText;
}

// A folder that is new or empty is tagged before anything is written to it.
void tag_if_empty(int folder) {
  const std::string temporary = AtomicFile::temporary_prefix(kTag);
  for (const std::string& name : names_in(folder))
    // Another process may be doing the same.
    if (name != kTag && !name.starts_with(temporary))
      fail(ErrorCode::io_error,
           "it contains files and was not created by gex; choose another folder, or move it away");
  AtomicFile tag(folder, kTag, kFileMode);
  tag.write(kTagText);
  tag.commit(AtomicFile::Durable::no);
}

}  // namespace

std::optional<StoreFolder> StoreFolder::open(const std::string& root, const std::string& kind,
                                             Missing missing) {
  std::optional<FileHandle> top = naming(root, [&] {
    if (missing == Missing::make) {
      std::error_code failed;
      std::filesystem::create_directories(std::filesystem::path(root).parent_path(), failed);
      if (failed) fail(ErrorCode::io_error, failed.message());
    }
    std::optional<FileHandle> opened = open_folder(AT_FDCWD, root, missing, 0);
    if (opened) check_root(opened->get());
    return opened;
  });
  if (!top) return std::nullopt;
  return naming(root + "/" + kind, [&]() -> std::optional<StoreFolder> {
    std::optional<FileHandle> folder = open_folder(top->get(), kind, missing, O_NOFOLLOW);
    if (!folder) return std::nullopt;
    check_owner_and_mode(folder->get(), Trust::own);
    if (!is_tagged(folder->get())) {
      // Reading from an empty folder finds nothing; it is tagged at the first write.
      if (missing == Missing::leave && names_in(folder->get()).empty()) return std::nullopt;
      tag_if_empty(folder->get());
    }
    return StoreFolder(std::move(*folder));
  });
}

std::optional<FileHandle> StoreFolder::shard(const std::string& digits, Missing missing) const {
  return naming(digits, [&] {
    std::optional<FileHandle> folder = open_folder(kind_.get(), digits, missing, O_NOFOLLOW);
    if (folder) check_owner_and_mode(folder->get(), Trust::own);
    return folder;
  });
}

void StoreFolder::each(const std::function<void(const Item&)>& visit) const {
  for (const std::string& digits : names_in(kind_.get())) {
    if (digits.size() != kShardDigits || !is_hex(digits)) continue;
    const std::optional<FileHandle> folder = shard(digits, Missing::leave);
    if (!folder) continue;
    for (const std::string& name : names_in(folder->get())) {
      Item item{folder->get(), digits, name, is_temporary(name, digits), {}};
      if (!item.temporary && !is_entry(name, digits)) continue;
      if (::fstatat(item.folder, name.c_str(), &item.info, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISREG(item.info.st_mode))
        visit(item);
    }
  }
}

bool remove_own_file(int folder, const std::string& name) {
  try {
    const std::optional<FileHandle> file = open_regular_file(folder, name, Links::refuse);
    if (!file) return false;
    check_owner_and_mode(file->get(), Trust::own);
    const std::string start = read_bytes(*file, program::kArtefactMagic.size());
    if (!program::kArtefactMagic.starts_with(start)) return false;
  } catch (const UserError&) {
    return false;  // not a file of gex
  }
  return ::unlinkat(folder, name.c_str(), 0) == 0;
}

}  // namespace gex
