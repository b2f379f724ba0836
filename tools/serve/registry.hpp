#pragma once
// The models of a server by name and version. A replaced model lives until the requests that run on
// it are answered.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/batcher.hpp"

namespace gex::serve {

struct ServedModel {
  std::string name, version, path;
  std::shared_ptr<const deploy::Model> model;
  std::unique_ptr<Batcher> batcher;
};
using ServedPtr = std::shared_ptr<ServedModel>;

// Where the versions of one model come from.
struct ModelSource {
  std::string name;                             // empty: the name in the file
  std::map<std::string, std::string> versions;  // version -> path
};

// FILE.gexe, NAME=FILE.gexe, or a folder of them: FOLDER/NAME/VERSION/model.gexe or FOLDER/*.gexe.
std::vector<ModelSource> sources_of(const std::string& text);

class Registry {
 public:
  // `places`: see sources_of.
  Registry(std::vector<std::string> places, deploy::LoadOptions load, BatchOptions batch);

  // Null if there is none. Without a version: the highest.
  ServedPtr find(const std::string& name, const std::string& version) const;
  std::vector<std::string> versions(const std::string& name) const;
  std::vector<ServedPtr> all() const;
  // Looks which versions the model's folder has now, loads them and then replaces the model, or
  // adds it if it is new. On a UserError the old one stays.
  void reload(const std::string& name);
  // All models; those whose files are gone are unloaded. The UserError lists the models that stay
  // as they were.
  void reload_all();
  void unload(const std::string& name);

 private:
  using Versions = std::map<std::string, ServedPtr>;
  Versions loaded(const ModelSource& source) const;
  std::vector<ModelSource> sources()
      const;  // that exist now, by the names that they are served under
  void replace(const ModelSource& source);

  std::vector<std::string> places_;
  std::map<std::string, std::string> names_;  // of files without a name of the user's, by path
  deploy::LoadOptions load_;
  BatchOptions batch_;
  mutable std::mutex mutex_;
  std::map<std::string, Versions> models_;
};

}  // namespace gex::serve
