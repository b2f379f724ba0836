#pragma once
// Which passes run. A pass is switched by name; the first of these that mentions it decides:
//
//   the options of the compile     disabled, enabled
//   GEX_PASSES                     "fold:off;merge-matmuls:on;ALL:off"
//   the switch file                {"Switch": {"GraphFusion": {"ALL": "off", "fold": "on"}}}
//   the level
//
// A name takes precedence over ALL. Passes that lowering requires ignore ALL.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pipeline.hpp"

namespace gex::passes {

// UserError(not_found) with the nearest name.
const Pass& find_pass(const std::vector<Pass>& passes, std::string_view name);

using SwitchList = std::map<std::string, bool, std::less<>>;

// UserError(parse_error) with the position.
SwitchList parse_switches(std::string_view text, std::string_view where);
SwitchList read_switch_file(const std::string& path);

class Switches {
 public:
  // UserError with the nearest name for switches of unknown passes.
  Switches(const PipelineOptions& options, const std::vector<Pass>& known);
  bool on(const Pass& pass) const;

 private:
  std::vector<SwitchList> lists_;  // the first has the highest priority
  int level_;
};

}  // namespace gex::passes
