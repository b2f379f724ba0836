#include "passes/engine/user_passes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>

#include "base/suggest.hpp"
#include "passes/engine/plugins.hpp"
#include "passes/pipeline.hpp"

namespace gex::passes {
namespace {

struct StageName {
  std::string_view name;
  Stage stage;
};

constexpr std::array<StageName, 7> kStages = {{
    {"early", Stage::early},
    {"middle", Stage::middle},
    {"late", Stage::late},
    {"BEFORE_INFER_SHAPE", Stage::early},
    {"AFTER_INFER_SHAPE", Stage::early},
    {"AFTER_BUILTIN_FUSION_PASS", Stage::middle},
    {"AFTER_ORIGIN_GRAPH_OPTIMIZE", Stage::late},
}};

struct Registry {
  std::mutex mutex;
  PassSnapshot passes = std::make_shared<const std::vector<Pass>>();
  std::uint64_t version = 0;
};

Registry& registry() {
  static Registry registry;
  return registry;
}

bool has_name(const std::vector<Pass>& passes, std::string_view name) {
  return std::ranges::any_of(passes, [&](const Pass& pass) { return pass.name == name; });
}

}  // namespace

Stage stage_of(std::string_view name) {
  std::vector<std::string_view> names;
  for (const StageName& known : kStages) {
    if (known.name == name) return known.stage;
    names.push_back(known.name);
  }
  fail(ErrorCode::not_found, "unknown stage \"", name, "\"", suggestion(name, names),
       " Stages: early, middle, late");
}

std::string_view name_of(Stage stage) { return kStages[static_cast<std::size_t>(stage)].name; }

void register_user_pass(Pass pass) {
  if (pass.name.empty() || !pass.run)
    fail(ErrorCode::invalid_argument, "a pass needs a name and a function");
  if (pass.name.find_first_of(";:,\" \n") != std::string::npos)
    fail(ErrorCode::invalid_argument, "\"", pass.name,
         "\" can't name a pass: no spaces, quotes, commas, colons or semicolons");
  if (has_name(builtin_passes(), pass.name))
    fail(ErrorCode::invalid_argument, "a built-in pass is named \"", pass.name,
         "\"; choose another name");
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (has_name(*r.passes, pass.name))
    fail(ErrorCode::invalid_argument, "a pass named \"", pass.name, "\" already exists");
  auto grown = std::make_shared<std::vector<Pass>>(*r.passes);
  grown->push_back(std::move(pass));
  r.passes = std::move(grown);
  ++r.version;
}

void unregister_user_pass(std::string_view name) {
  Registry& r = registry();
  PassSnapshot old;  // destroying its functions may run foreign code: not under the lock
  std::lock_guard lock(r.mutex);
  if (!has_name(*r.passes, name)) {
    std::vector<std::string_view> names;
    for (const Pass& pass : *r.passes) names.push_back(pass.name);
    fail(ErrorCode::not_found, "unknown user pass \"", name, "\"", suggestion(name, names));
  }
  auto rest = std::make_shared<std::vector<Pass>>();
  for (const Pass& pass : *r.passes)
    if (pass.name != name) rest->push_back(pass);
  old = std::move(r.passes);
  r.passes = std::move(rest);
  ++r.version;
}

PassSnapshot user_passes() {
  load_environment_plugins();
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return r.passes;
}

std::uint64_t user_passes_version() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return r.version;
}

}  // namespace gex::passes
