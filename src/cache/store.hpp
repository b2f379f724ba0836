#pragma once
// A folder of artefacts by the digest of what they depend on, shared by any number of processes.
//
//   FOLDER/program/3f/3f9c...   FOLDER/object/a0/a0b1...   FOLDER/tuning/07/0722...
//
// Entries are written by an atomic rename, readable only by their owner, without locks. Above the
// size limit the entries that were not used for the longest time are removed. Only files that gex
// wrote are read or removed: store_folder.hpp says how it knows them.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "cache/atomic_file.hpp"
#include "program/artefact.hpp"

namespace gex {

inline constexpr std::int64_t kDefaultStoreBytes = std::int64_t{2} << 30;

struct StoreEntry {
  std::string path;
  std::string kind, key;  // as in the path
  std::int64_t bytes = 0;
  std::int64_t used = 0;  // nanoseconds since 1970
};

class Store {
 public:
  // `max_bytes`: 0 means GEX_CACHE_MAX_BYTES, or 2 GiB.
  explicit Store(std::string folder, std::int64_t max_bytes = 0);
  // GEX_CACHE_DIR, else TORCH_NPU_COMPILE_CACHE_DIR; null if neither is set.
  static std::shared_ptr<Store> from_environment();
  static std::shared_ptr<Store> at(const std::string& folder);  // one instance per folder
  // $XDG_CACHE_HOME/gex or ~/.cache/gex.
  static std::string default_folder();

  const std::string& folder() const { return folder_; }

  // Nothing if there is none, or if it can't be used (then it is removed with a warning).
  std::optional<program::Artefact> load(const std::string& kind, const Digest& key);
  // Sets the fields `kind` and `key`. Warns once if the folder can't be written.
  void save(const std::string& kind, const Digest& key, program::Artefact artefact);
  // Removes an entry that was loaded but turned out to be unusable.
  void discard(const std::string& kind, const Digest& key, const std::string& why);

  std::vector<StoreEntry> entries() const;  // least recently used first
  std::int64_t clear();                     // returns the number of removed entries
  // Why this entry can't be used; empty if it can.
  std::string problem_of(const StoreEntry& entry) const;
  // For people; empty if the entry can't be read.
  std::string label_of(const StoreEntry& entry) const;
  // Evicts the least recently used entries until the rest is within the limit.
  void trim();

 private:
  std::string path_of(const std::string& kind, const Digest& key) const;
  // The folder of this entry; nothing if it does not exist or (with one warning) can't be used.
  std::optional<FileHandle> shard(const std::string& kind, const std::string& key) const;
  std::optional<std::string> read(const StoreEntry& entry) const;
  bool remove(const StoreEntry& entry) const;
  void warn_once(const std::string& message) const;

  std::string folder_;
  std::int64_t max_bytes_;
  // Size of all entries, as far as this process knows; -1: not counted yet.
  std::atomic<std::int64_t> bytes_counted_{-1};
  mutable std::mutex warned_mutex_;
  mutable std::set<std::string> warned_;
};

// Build id of this libgex; entries of other builds are never used.
const std::string& engine_build();

}  // namespace gex
