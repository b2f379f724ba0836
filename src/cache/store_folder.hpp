#pragma once
// The folders of a Store: which of them are its own, and which files in them.
//
//   ROOT/KIND/CACHEDIR.TAG      made by gex: only then anything under KIND is read or removed
//   ROOT/KIND/3f/3f9c...        an entry: two digits of the key, then all 64
//
// ROOT is what the user named and may hold anything else. Nothing below it is reached through a
// symbolic link, belongs to another user, or may be written by others.

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>

#include "cache/atomic_file.hpp"

namespace gex {

enum class Missing { leave, make };

class StoreFolder {
 public:
  // Nothing if it does not exist. UserError: it can't be used or created.
  static std::optional<StoreFolder> open(const std::string& root, const std::string& kind,
                                         Missing missing);

  // The folder of entries whose keys start with these two digits.
  std::optional<FileHandle> shard(const std::string& digits, Missing missing) const;

  // Visits every entry and every temporary file of an entry.
  struct Item {
    int folder;
    std::string shard, name;
    bool temporary;
    struct stat info;
  };
  void each(const std::function<void(const Item&)>& visit) const;

 private:
  explicit StoreFolder(FileHandle kind) : kind_(std::move(kind)) {}
  FileHandle kind_;
};

// Removes a regular file of this user that is empty or starts with the artefact magic.
bool remove_own_file(int folder, const std::string& name);

}  // namespace gex
