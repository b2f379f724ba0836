#pragma once
// Compiled kernels (relocatable objects, cubins) kept between processes, by the text of everything
// they depend on. Thread-safe.

#include <memory>
#include <optional>
#include <string>

namespace gex {

class Store;

class ObjectStore {
 public:
  explicit ObjectStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  std::optional<std::string> load(const std::string& key);
  void save(const std::string& key, const std::string& label, std::string object);
  void discard(const std::string& key, const std::string& why);

 private:
  std::shared_ptr<Store> store_;
};

}  // namespace gex
