#include "serve/registry.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"

namespace gex::serve {
namespace {

namespace fs = std::filesystem;

// "10" is above "9".
bool lower_version(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

std::vector<ModelSource> sources_of(const std::string& text) {
  const auto equals = text.find('=');
  const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
  const fs::path path = equals == std::string::npos ? text : text.substr(equals + 1);
  std::error_code error;
  if (!fs::is_directory(path, error)) return {{name, {{"1", path.string()}}}};
  std::vector<ModelSource> sources;
  for (const fs::path& entry : sorted_entries(path)) {
    if (entry.extension() == ".gexe")
      sources.push_back({entry.stem().string(), {{"1", entry.string()}}});
    if (!fs::is_directory(entry, error)) continue;
    ModelSource source{entry.filename().string(), {}};
    for (const fs::path& version : sorted_entries(entry))
      if (fs::exists(version / "model.gexe", error))
        source.versions[version.filename().string()] = (version / "model.gexe").string();
    if (!source.versions.empty()) sources.push_back(std::move(source));
  }
  if (sources.empty())
    fail(ErrorCode::io_error, "the folder ", path.string(),
         " holds no model: expected NAME.gexe or NAME/VERSION/model.gexe");
  return sources;
}

Registry::Registry(std::vector<std::string> places, deploy::LoadOptions load, BatchOptions batch)
    : places_(std::move(places)), load_(std::move(load)), batch_(batch) {
  for (const ModelSource& source : sources()) {
    Versions versions = loaded(source);
    const ServedPtr first = versions.begin()->second;
    if (source.name.empty()) names_[first->path] = first->name;
    if (!models_.emplace(first->name, std::move(versions)).second)
      fail(ErrorCode::invalid_argument, "two models are called '", first->name,
           "'; give one another name: NAME=FILE.gexe");
  }
}

std::vector<ModelSource> Registry::sources() const {
  std::vector<ModelSource> all;
  for (const std::string& place : places_)
    for (ModelSource& source : sources_of(place)) {
      if (const auto name = names_.find(source.versions.begin()->second);
          source.name.empty() && name != names_.end())
        source.name = name->second;
      all.push_back(std::move(source));
    }
  return all;
}

Registry::Versions Registry::loaded(const ModelSource& source) const {
  Versions versions;
  for (const auto& [version, path] : source.versions) {
    auto served = std::make_shared<ServedModel>();
    served->model = deploy::load_model(path, load_);
    served->name = source.name.empty() ? served->model->metadata.name : source.name;
    served->version = version;
    served->path = path;
    served->batcher = std::make_unique<Batcher>(served->model, batch_);
    versions[version] = std::move(served);
  }
  return versions;
}

ServedPtr Registry::find(const std::string& name, const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end() || model->second.empty()) return nullptr;
  if (version.empty())
    return std::max_element(
               model->second.begin(), model->second.end(),
               [](const auto& a, const auto& b) { return lower_version(a.first, b.first); })
        ->second;
  const auto at = model->second.find(version);
  return at == model->second.end() ? nullptr : at->second;
}

std::vector<std::string> Registry::versions(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  if (const auto model = models_.find(name); model != models_.end())
    for (const auto& [version, served] : model->second) found.push_back(version);
  std::sort(found.begin(), found.end(), lower_version);
  return found;
}

std::vector<ServedPtr> Registry::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServedPtr> found;
  for (const auto& [name, versions] : models_)
    for (const auto& [version, served] : versions) found.push_back(served);
  return found;
}

void Registry::replace(const ModelSource& source) {
  Versions versions = loaded(source);
  const std::lock_guard lock(mutex_);
  models_[source.name].swap(versions);
  // The old one is destroyed here, outside the lock, unless requests still use it.
}

void Registry::reload(const std::string& name) {
  for (const ModelSource& source : sources())
    if (source.name == name) return replace(source);
  fail(ErrorCode::not_found, "there is no model '", name, "'");
}

void Registry::reload_all() {
  const std::vector<ModelSource> found = sources();
  std::string problems;
  for (const ModelSource& source : found) try {
      replace(source);
    } catch (const UserError& error) {
      problems += str(problems.empty() ? "" : "; ", source.name, ": ", error.what());
    }
  for (const ServedPtr& served : all())
    if (std::none_of(found.begin(), found.end(),
                     [&](const ModelSource& source) { return source.name == served->name; }))
      unload(served->name);
  if (!problems.empty()) throw UserError(ErrorCode::io_error, problems);
}

void Registry::unload(const std::string& name) {
  Versions versions;
  const std::lock_guard lock(mutex_);
  const auto at = models_.find(name);
  if (at == models_.end()) fail(ErrorCode::not_found, "there is no model '", name, "'");
  versions.swap(at->second);
  models_.erase(at);
}

}  // namespace gex::serve
