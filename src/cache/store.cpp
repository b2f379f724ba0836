#include "cache/store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <utility>

#include "base/build_id.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace gex {

namespace fs = std::filesystem;

namespace {

// After a trim some room is left, so that not every save trims again.
constexpr std::int64_t kTrimmedPercent = 90;
// Files that a killed writer left behind.
constexpr std::int64_t kAbandonedSeconds = 3600;
constexpr std::string_view kTemporary = ".writing.";

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

std::string why(int error) { return std::strerror(error); }

// UserError; nothing if there is no such file.
std::optional<std::string> read_file(const std::string& path, bool touch) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail(ErrorCode::io_error, "it can't be opened: ", why(errno));
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) fail(ErrorCode::io_error, why(errno));
  if (!S_ISREG(info.st_mode)) fail(ErrorCode::io_error, "it is no plain file");
  if (info.st_uid != ::geteuid()) fail(ErrorCode::io_error, "it belongs to another user");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail(ErrorCode::io_error,
         "others may write it: only files that their owner alone may write "
         "are used");
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::io_error, "it can't be read: ", why(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  if (touch) ::futimens(file.get(), nullptr);  // else it only looks older than it is
  return bytes;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Nothing, or why not.
std::string write_file(const std::string& path, std::string_view bytes) {
  static std::atomic<std::int64_t> number{0};
  const std::string temporary = str(path, kTemporary, ::getpid(), ".", number++);
  int error = 0;
  {
    const File file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return why(errno);
    if (!write_all(file.get(), bytes)) error = errno;
  }
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return "";
  ::unlink(temporary.c_str());
  return why(error);
}

std::int64_t limit_from_environment() {
  const char* text = std::getenv("GEX_CACHE_MAX_BYTES");
  if (text == nullptr || *text == '\0') return kDefaultStoreBytes;
  std::int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value <= 0)
    fail(ErrorCode::invalid_argument,
         "GEX_CACHE_MAX_BYTES must be a number of bytes above 0, not \"", text, "\"");
  return value;
}

const char* set_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

const std::string& engine_build() {
  static const std::string id = build_id_at(reinterpret_cast<const void*>(&engine_build));
  return id;
}

Store::Store(std::string folder, std::int64_t max_bytes)
    : folder_(fs::absolute(folder).lexically_normal().string()),
      max_bytes_(max_bytes > 0 ? max_bytes : limit_from_environment()) {}

std::shared_ptr<Store> Store::at(const std::string& folder) {
  static std::mutex mutex;
  static auto* stores = new std::map<std::string, std::shared_ptr<Store>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Store>& store = (*stores)[fs::absolute(folder).lexically_normal().string()];
  if (store == nullptr) store = std::make_shared<Store>(folder);
  return store;
}

std::shared_ptr<Store> Store::from_environment() {
  for (const char* name : {"GEX_CACHE_DIR", "TORCH_NPU_COMPILE_CACHE_DIR"})
    if (const char* folder = set_variable(name)) return at(folder);
  return nullptr;
}

std::string Store::default_folder() {
  if (const char* folder = set_variable("XDG_CACHE_HOME")) return str(folder, "/gex");
  if (const char* home = set_variable("HOME")) return str(home, "/.cache/gex");
  fail(ErrorCode::not_found, "neither XDG_CACHE_HOME nor HOME is set: name a folder");
}

std::string Store::path_of(const std::string& kind, const Digest& key) const {
  const std::string name = key.hex();
  return str(folder_, "/", kind, "/", name.substr(0, 2), "/", name);
}

std::optional<program::Artefact> Store::load(const std::string& kind, const Digest& key) {
  const std::string path = path_of(kind, key);
  try {
    const std::optional<std::string> bytes = read_file(path, true);
    if (!bytes) return std::nullopt;
    program::Artefact artefact = program::read_artefact(*bytes);
    if (artefact.kind != kind || artefact.key != key.hex())
      fail(ErrorCode::parse_error, "it holds something else than its name says");
    if (artefact.build != engine_build())
      fail(ErrorCode::parse_error, "another build of gex wrote it");
    return artefact;
  } catch (const UserError& error) {
    discard(kind, key, error.what());
    return std::nullopt;
  }
}

void Store::discard(const std::string& kind, const Digest& key, const std::string& why) {
  const std::string path = path_of(kind, key);
  log(LogLevel::warning, "cache: ", path, " is not used and made anew: ", why);
  ::unlink(path.c_str());
}

void Store::save(const std::string& kind, const Digest& key, program::Artefact artefact) {
  artefact.kind = kind;
  artefact.key = key.hex();
  artefact.build = engine_build();
  const std::string path = path_of(kind, key);
  const std::string bytes = program::write(artefact);
  std::error_code failed;
  const fs::path parent = fs::path(path).parent_path();
  if (!fs::exists(folder_, failed)) {
    fs::create_directories(folder_, failed);
    if (!failed) fs::permissions(folder_, fs::perms::owner_all, failed);
  }
  if (!failed) fs::create_directories(parent, failed);
  const std::string problem = failed ? failed.message() : write_file(path, bytes);
  std::unique_lock lock(mutex_);
  if (!problem.empty()) {
    if (!std::exchange(warned_, true))
      log(LogLevel::warning, "cache: ", path,
          " can't be written, nothing is kept there: ", problem);
    return;
  }
  if (bytes_ < 0) {
    bytes_ = 0;
    for (const StoreEntry& entry : entries()) bytes_ += entry.bytes;
  } else {
    bytes_ += static_cast<std::int64_t>(bytes.size());
  }
  const bool too_much = bytes_ > max_bytes_;
  lock.unlock();
  if (too_much) trim();
}

std::vector<StoreEntry> Store::entries() const {
  std::vector<StoreEntry> out;
  std::error_code failed;
  for (const char* kind : {"program", "object", "tuning"}) {
    const fs::path of_kind = fs::path(folder_) / kind;
    for (fs::recursive_directory_iterator it(of_kind, failed), end; !failed && it != end;
         it.increment(failed)) {
      struct stat info{};
      const std::string path = it->path().string();
      if (::lstat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) continue;
      const std::string name = it->path().filename().string();
      if (name.find(kTemporary) != std::string::npos) {
        if (::time(nullptr) - info.st_mtim.tv_sec > kAbandonedSeconds) ::unlink(path.c_str());
        continue;
      }
      constexpr std::int64_t kNanoseconds = 1'000'000'000;
      out.push_back({path, kind, name, info.st_size,
                     info.st_mtim.tv_sec * kNanoseconds + info.st_mtim.tv_nsec});
    }
  }
  std::ranges::stable_sort(out, {}, &StoreEntry::used);
  return out;
}

std::int64_t Store::clear() {
  std::int64_t removed = 0;
  for (const StoreEntry& entry : entries()) removed += ::unlink(entry.path.c_str()) == 0;
  const std::lock_guard lock(mutex_);
  bytes_ = -1;
  return removed;
}

std::string Store::problem_of(const StoreEntry& entry) const {
  try {
    const std::optional<std::string> bytes = read_file(entry.path, false);
    if (!bytes) return "it is gone";
    const program::Artefact artefact = program::read_artefact(*bytes);
    if (artefact.kind != entry.kind || artefact.key != entry.key)
      return "it holds something else than its name says";
    return artefact.build == engine_build() ? "" : "another build of gex wrote it";
  } catch (const UserError& error) {
    return error.what();
  }
}

std::string Store::label_of(const StoreEntry& entry) const {
  try {
    const std::optional<std::string> bytes = read_file(entry.path, false);
    return bytes ? program::read_artefact(*bytes).label : "";
  } catch (const UserError&) {
    return "";  // problem_of says why
  }
}

void Store::trim() {
  std::int64_t total = 0;
  const std::vector<StoreEntry> all = entries();
  for (const StoreEntry& entry : all) total += entry.bytes;
  if (total > max_bytes_) {
    const std::int64_t wanted = max_bytes_ / 100 * kTrimmedPercent;
    for (const StoreEntry& entry : all) {
      if (total <= wanted) break;
      ::unlink(entry.path.c_str());
      total -= entry.bytes;
    }
  }
  const std::lock_guard lock(mutex_);
  bytes_ = total;
}

}  // namespace gex
