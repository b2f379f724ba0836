#pragma once
// Ensembles of decision trees as a kernel that every process has: models with them run from files,
// also without the importer. Its operands may come from anywhere, so they are checked while they
// are used: no file makes it read outside of them or go in circles.

#include <cstdint>
#include <string>

#include "runtime/session/user_kernels.hpp"

namespace gex::runtime {

inline constexpr const char* kForestKernel = "gex.forest";

enum class TreeTest : std::uint8_t { leq, lt, gte, gt, eq, neq, member, leaf };
enum class ForestFold : std::uint8_t { average, sum, min, max };

// Columns of the operand `nodes`, i32 [n, 6]. Children come after their parents.
enum TreeColumn : std::uint8_t {
  kTreeTest,     // TreeTest; + kMissingIsTrue if NaN takes the branch `yes`
  kTreeFeature,  // leaves: first entry of `targets` and `weights`
  kTreeYes,      // leaves: how many entries
  kTreeNo,       // leaves: unused
  kTreeMember,   // first entry of `members`
  kTreeMembers,  // how many
  kTreeColumns
};
inline constexpr std::int32_t kMissingIsTrue = 16;

// Operands: x f32 or f64 [rows, features]; nodes; values f64 [n]; targets i32 [w]; weights f64 [w];
// roots i32 [trees]; members f64 [m]; base f64 [targets]. The result is [rows, targets] in x's
// dtype. Parameters: the number of a ForestFold.
void run_forest(std::span<const TensorRef> inputs, std::span<const TensorRef> outputs,
                const std::string& parameters);

}  // namespace gex::runtime
