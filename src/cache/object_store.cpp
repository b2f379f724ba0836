#include "cache/object_store.hpp"

#include "cache/store.hpp"

namespace gex {

namespace {
constexpr const char* kObject = "object";
}

std::optional<std::string> ObjectStore::load(const std::string& key) {
  std::optional<program::Artefact> artefact = store_->load(kObject, digest_of(key));
  if (!artefact) return std::nullopt;
  if (artefact->sections.size() != 1) {
    discard(key, "it contains no object");
    return std::nullopt;
  }
  return std::move(artefact->sections[0].bytes);
}

void ObjectStore::save(const std::string& key, const std::string& label, std::string object) {
  program::Artefact artefact;
  artefact.label = label;
  artefact.sections.push_back({kObject, std::move(object)});
  store_->save(kObject, digest_of(key), std::move(artefact));
}

void ObjectStore::discard(const std::string& key, const std::string& why) {
  store_->discard(kObject, digest_of(key), why);
}

}  // namespace gex
