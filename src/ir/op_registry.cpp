#include <algorithm>
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/suggest.hpp"
#include "ir/builtin_ops.hpp"
#include "ir/op_def.hpp"
#include "ir/text/text.hpp"

namespace gex {
namespace {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<const OpDef>, TextHash, std::equal_to<>> ops;
  std::unordered_set<const OpDef*> builtin;
  std::atomic<void (*)()> loader{nullptr};
  std::atomic<bool> loaded{false};
  std::mutex loading;
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed: ops are used until the process ends
  return *instance;
}

// The loader itself registers and looks up ops; those calls must not wait for it.
thread_local bool inside_loader = false;

void load_builtin_ops() {
  Registry& r = registry();
  if (r.loaded.load(std::memory_order_acquire) || inside_loader) return;
  std::lock_guard lock(r.loading);
  auto* load = r.loader.load();
  if (load == nullptr || r.loaded.load()) return;
  struct Scope {
    Scope() { inside_loader = true; }
    ~Scope() { inside_loader = false; }
  } scope;
  load();
  r.loaded.store(true, std::memory_order_release);
}

bool is_reserved(std::string_view name) {
  return name == "return" || name == "graph" || name == "regions" || name == "none";
}

void check_definition(const OpDef& def) {
  auto refuse = [&](const auto&... why) {
    fail(ErrorCode::invalid_argument, "op '", def.name, "' can't be registered: ", why...);
  };
  if (!is_identifier(def.name) || is_reserved(def.name))
    refuse(
        "a name consists of letters, digits, '_' and '.', and is not a keyword of the text form");
  if (!def.infer) refuse("it has no shape rule; set OpDef::infer");
  if (def.body && def.expand) refuse("it has both a body and an expansion; keep one");
  for (std::size_t i = 0; i + 1 < def.inputs.size(); ++i)
    if (def.inputs[i].arity == InputSpec::Arity::variadic)
      refuse("input '", def.inputs[i].name, "' is variadic but not the last input");
  for (std::size_t i = 0; i < def.attrs.size(); ++i) {
    if (!is_identifier(def.attrs[i].name))
      refuse("attribute name '", def.attrs[i].name, "' is not an identifier");
    for (std::size_t j = 0; j < i; ++j)
      if (def.attrs[i].name == def.attrs[j].name)
        refuse("attribute '", def.attrs[i].name, "' is declared twice");
  }
}

}  // namespace

const OpDef* find_op(std::string_view name) {
  load_builtin_ops();
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  auto it = r.ops.find(name);
  return it == r.ops.end() ? nullptr : it->second.get();
}

const OpDef& op(std::string_view name) {
  if (const OpDef* found = find_op(name)) return *found;
  std::vector<std::string_view> names;
  for (const OpDef* def : all_ops()) names.push_back(def->name);
  fail(ErrorCode::not_found, "unknown op '", name, "'", suggestion(name, names));
}

const OpDef& register_op(OpDef def) {
  check_definition(def);
  load_builtin_ops();  // so that a user op can't take a built-in name
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  std::string name = def.name;
  auto [it, is_new] = r.ops.try_emplace(name);
  if (!is_new)
    fail(ErrorCode::invalid_argument, "op '", name, "' is already registered; use another name");
  it->second = std::make_unique<const OpDef>(std::move(def));
  if (inside_loader) r.builtin.insert(it->second.get());
  return *it->second;
}

std::vector<const OpDef*> all_ops() {
  load_builtin_ops();
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  std::vector<const OpDef*> out;
  for (const auto& [name, def] : r.ops) out.push_back(def.get());
  std::sort(out.begin(), out.end(),
            [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return out;
}

bool is_builtin(const OpDef& op) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  return r.builtin.contains(&op);
}

void set_builtin_ops_loader(void (*load)()) {
  GEX_CHECK(registry().loader.exchange(load) == nullptr, "the loader of built-in ops is set once");
}

}  // namespace gex
