#include "cache/store.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>

#include "base/build_id.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/memory_size.hpp"
#include "cache/store_folder.hpp"

namespace gex {

namespace fs = std::filesystem;

namespace {

// A trim leaves some room, so that not every save trims again.
constexpr std::int64_t kTrimmedPercent = 90;
// Files that a killed writer left behind.
constexpr std::int64_t kAbandonedSeconds = 3600;
constexpr mode_t kEntryMode = 0600;
constexpr const char* kKinds[] = {"program", "object", "tuning"};

std::string shard_of(const std::string& key) { return key.substr(0, 2); }

// UserError; nothing if there is no such file.
std::optional<std::string> read_entry(int folder, const std::string& key, bool touch) {
  const std::optional<FileHandle> file = open_regular_file(folder, key, Links::refuse);
  if (!file) return std::nullopt;
  check_owner_and_mode(file->get(), Trust::own);
  std::string bytes = read_bytes(*file, size_of(*file));
  if (touch) ::futimens(file->get(), nullptr);  // on failure the entry only looks older
  return bytes;
}

std::int64_t limit_from_environment() {
  const char* text = std::getenv("GEX_CACHE_MAX_BYTES");
  if (text == nullptr || *text == '\0') return kDefaultStoreBytes;
  const std::optional<std::int64_t> value = parse_bytes(text);
  if (!value || *value <= 0)
    fail(ErrorCode::invalid_argument,
         "GEX_CACHE_MAX_BYTES must be a number of bytes above 0, as 500000000, 500M or 2G, not \"",
         text, "\"");
  return *value;
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
  return str(folder_, "/", kind, "/", shard_of(name), "/", name);
}

void Store::warn_once(const std::string& message) const {
  {
    const std::lock_guard lock(warned_mutex_);
    if (!warned_.insert(message).second) return;
  }
  log(LogArea::cache, LogLevel::warning, message);
}

std::optional<FileHandle> Store::shard(const std::string& kind, const std::string& key) const {
  try {
    const std::optional<StoreFolder> folder = StoreFolder::open(folder_, kind, Missing::leave);
    return folder ? folder->shard(shard_of(key), Missing::leave) : std::nullopt;
  } catch (const UserError& error) {
    warn_once(str(error.what(), "; nothing is cached there"));
    return std::nullopt;
  }
}

std::optional<program::Artefact> Store::load(const std::string& kind, const Digest& key) {
  const std::optional<FileHandle> folder = shard(kind, key.hex());
  if (!folder) return std::nullopt;
  try {
    const std::optional<std::string> bytes = read_entry(folder->get(), key.hex(), true);
    if (!bytes) return std::nullopt;
    program::Artefact artefact = program::read_artefact(*bytes);
    if (artefact.kind != kind || artefact.key != key.hex())
      fail(ErrorCode::parse_error, "its content does not match its key");
    if (artefact.build != engine_build())
      fail(ErrorCode::parse_error, "it was written by another build of gex");
    log(LogArea::cache, LogLevel::info, "used ", path_of(kind, key));
    return artefact;
  } catch (const UserError& error) {
    discard(kind, key, error.what());
    return std::nullopt;
  }
}

void Store::discard(const std::string& kind, const Digest& key, const std::string& why) {
  log(LogArea::cache, LogLevel::warning, path_of(kind, key), " is discarded and recomputed: ", why);
  if (const std::optional<FileHandle> folder = shard(kind, key.hex()))
    remove_own_file(folder->get(), key.hex());
}

void Store::save(const std::string& kind, const Digest& key, program::Artefact artefact) {
  artefact.kind = kind;
  artefact.key = key.hex();
  artefact.build = engine_build();
  const std::string bytes = program::write(artefact);
  try {
    const std::optional<StoreFolder> folder = StoreFolder::open(folder_, kind, Missing::make);
    const std::optional<FileHandle> shard =
        folder ? folder->shard(shard_of(artefact.key), Missing::make) : std::nullopt;
    if (!shard) return;  // another process is removing the folder
    AtomicFile file(shard->get(), artefact.key, kEntryMode);
    file.write(bytes);
    file.commit(AtomicFile::Durable::no);
    log(LogArea::cache, LogLevel::info, "wrote ", bytes.size(), " bytes to ", path_of(kind, key));
  } catch (const UserError& error) {
    warn_once(str(folder_, " can't be written, nothing is cached there: ", error.what()));
    return;
  }
  const std::int64_t counted = bytes_counted_.load();
  std::int64_t total = static_cast<std::int64_t>(bytes.size());
  if (counted < 0) {
    total = 0;
    for (const StoreEntry& entry : entries()) total += entry.bytes;
    bytes_counted_ = total;
  } else {
    total += bytes_counted_.fetch_add(total);
  }
  if (total > max_bytes_) trim();
}

std::vector<StoreEntry> Store::entries() const {
  std::vector<StoreEntry> out;
  for (const char* kind : kKinds) {
    try {
      const std::optional<StoreFolder> folder = StoreFolder::open(folder_, kind, Missing::leave);
      if (!folder) continue;
      folder->each([&](const StoreFolder::Item& item) {
        if (item.temporary) {
          if (::time(nullptr) - item.info.st_mtim.tv_sec > kAbandonedSeconds)
            remove_own_file(item.folder, item.name);
          return;
        }
        constexpr std::int64_t kNanoseconds = 1'000'000'000;
        out.push_back({str(folder_, "/", kind, "/", item.shard, "/", item.name), kind, item.name,
                       item.info.st_size,
                       item.info.st_mtim.tv_sec * kNanoseconds + item.info.st_mtim.tv_nsec});
      });
    } catch (const UserError& error) {
      warn_once(str(error.what(), "; nothing is cached there"));
    }
  }
  std::ranges::stable_sort(out, {}, &StoreEntry::used);
  return out;
}

bool Store::remove(const StoreEntry& entry) const {
  const std::optional<FileHandle> folder = shard(entry.kind, entry.key);
  return folder && remove_own_file(folder->get(), entry.key);
}

std::int64_t Store::clear() {
  std::int64_t removed = 0;
  for (const StoreEntry& entry : entries()) removed += remove(entry);
  bytes_counted_ = -1;
  return removed;
}

std::optional<std::string> Store::read(const StoreEntry& entry) const {
  const std::optional<FileHandle> folder = shard(entry.kind, entry.key);
  return folder ? read_entry(folder->get(), entry.key, false) : std::nullopt;
}

std::string Store::problem_of(const StoreEntry& entry) const {
  try {
    const std::optional<std::string> bytes = read(entry);
    if (!bytes) return "it no longer exists";
    const program::Artefact artefact = program::read_artefact(*bytes);
    if (artefact.kind != entry.kind || artefact.key != entry.key)
      return "its content does not match its key";
    return artefact.build == engine_build() ? "" : "it was written by another build of gex";
  } catch (const UserError& error) {
    return error.what();
  }
}

std::string Store::label_of(const StoreEntry& entry) const {
  try {
    const std::optional<std::string> bytes = read(entry);
    return bytes ? program::read_artefact(*bytes).label : "";
  } catch (const UserError&) {
    return "";  // problem_of() gives the reason
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
      if (remove(entry)) total -= entry.bytes;
    }
  }
  bytes_counted_ = total;
}

}  // namespace gex
