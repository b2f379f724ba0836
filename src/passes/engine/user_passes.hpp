#pragma once
// User passes: registered through the C interface, by Python, or by the shared libraries listed in
// GEX_PLUGINS. A compile takes a snapshot, so passes may be added and removed meanwhile.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "passes/engine/pass.hpp"

namespace gex::passes {

// early, middle, late, or a name of GE's stages: BEFORE_INFER_SHAPE and AFTER_INFER_SHAPE (early),
// AFTER_BUILTIN_FUSION_PASS (middle), AFTER_ORIGIN_GRAPH_OPTIMIZE (late). UserError otherwise.
Stage stage_of(std::string_view name);
std::string_view name_of(Stage stage);

// UserError if the name is empty or taken, also by a built-in pass.
void register_user_pass(Pass pass);
void unregister_user_pass(std::string_view name);  // UserError(not_found)

using PassSnapshot = std::shared_ptr<const std::vector<Pass>>;
// All of them, in the order of registration; plugins are loaded at the first call.
PassSnapshot user_passes();
// Changes with every registration: part of any key under which results of passes are cached.
std::uint64_t user_passes_version();

// Records a registration failure that can't be reported because a library is being loaded: the
// loader reads it. Otherwise it is logged.
void note_failed_registration(std::string message);

// Loads the libraries of a list "a.so:b.so" that are not loaded yet. UserError names the file.
void load_plugins(std::string_view list);

}  // namespace gex::passes
