#pragma once
// What a Program is compiled for: a device, its architecture, and the costs and limits that fusion
// uses. A Target is a plain value; the backend for it is found by its kind (backend/backend.hpp).

#include <cstdint>
#include <string>
#include <string_view>

namespace gex {

// Costs and limits of a target's kernels. The defaults are those of the CPU kernels.
struct CostModel {
  // Rows kept in memory local to a kernel (CPU: scratch of a worker, CUDA: shared memory of a
  // block). Longer rows are recomputed. For a dynamic size, its upper bound counts unless
  // `unbounded_locals`.
  std::int64_t max_row_bytes = 256 * 1024;
  bool unbounded_locals = true;
  std::int64_t max_local_bytes = 0;  // of all rows of a kernel together; 0: no limit
  // Kernels attached to a problem.
  bool prologues = true;
  int max_prologue_inputs = 30;
  int max_epilogue_buffers = 60;
  // How often a kernel reads each element of an operand: once per tile of this many columns of a
  // matmul, once per block of this many queries of attention, this often for the images of a
  // convolution. Matmuls of at most `few_rows` rows read everything once.
  std::int64_t matmul_tile_columns = 384;
  std::int64_t few_rows = 8;
  std::int64_t attention_query_rows = 96;
  std::int64_t conv_image_reads = 2;
  // Matmuls of more than `few_rows` rows use the vendor's library, which takes no attached kernels.
  bool library_products = false;
  // Independent launches are merged into one kernel, so matmuls that read the same value should not
  // be made to depend on each other.
  bool merges_launches = false;
  // Writing an element and reading it again costs about as much as this many scalar operations.
  std::int64_t memory_round_trip = 16;

  bool operator==(const CostModel&) const = default;
};

struct Target {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int device = 0;                    // cuda: its number
  std::string architecture;          // cuda: "sm_90"; cpu: empty, the current machine
  std::int64_t multiprocessors = 0;  // cuda
  CostModel costs;

  bool is_cpu() const { return kind == Kind::cpu; }
  std::string text() const;  // "cpu", "cuda:0"
  bool operator==(const Target&) const = default;
};

// "cpu", "cuda", "cuda:1". UserError(invalid_argument) for anything else.
Target parse_target(std::string_view text);

}  // namespace gex
