#pragma once
// One configuration of running a graph, compared with the interpreter.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile.hpp"
#include "interp/bind_symbols.hpp"
#include "ir/graph.hpp"

namespace gex::check {

struct Trial {
  int level = 2;
  bool fuse = true;
  bool generate_code = true;
  std::vector<std::string> disabled;  // passes
  std::string text() const;           // "O2, fused, compiled"
};

// Sizes for the symbols of the graph's inputs: the given ones, else small ones from their ranges.
interp::SymbolValues sizes_of(const Graph& graph, const interp::SymbolValues& given = {});

// Values depend only on the input's name and the seed, so that they do not change when other inputs
// are removed. Inputs named "index..." hold -1, 0 and 1; integers made by reduce() hold 1, which
// every op accepts.
std::vector<HostTensor> draw_inputs(const Graph& graph, const interp::SymbolValues& sizes,
                                    std::uint64_t seed);

// A description of the fault, or nothing. The interpreter also runs with the last bits of inputs
// and intermediate results changed: an element may differ by as much as it changes then. A graph
// that the interpreter rejects with a UserError must be rejected by the trial too.
std::optional<std::string> find_fault(const Graph& graph, const std::vector<HostTensor>& inputs,
                                      const Trial& trial);

// The category of a fault: a reduction must not turn one kind of failure into another.
std::string kind_of(const std::string& fault);

// How inputs are changed in the last bits: every element up, every element down, each at random.
enum class Nudge : std::uint8_t { up, down, either };

// The interpreter's results, kept to compare several trials of one graph with them.
class Reference {
 public:
  Reference(const Graph& graph, const std::vector<HostTensor>& inputs);
  std::optional<std::string> find_fault(const Trial& trial) const;
  std::optional<std::string> judge(std::size_t output, const HostTensor& got) const;
  bool refused() const { return refused_; }

 private:
  void look_nearby(Nudge nudge) const;
  // Likewise for intermediate results, each changed in the last bits.
  void look_inside() const;

  const Graph& graph_;
  const std::vector<HostTensor>& inputs_;
  std::vector<HostTensor> expected_;
  mutable std::vector<std::vector<HostTensor>> nearby_;  // for inputs changed in the last bits
  std::string error_;                                    // an internal error of the interpreter
  double tolerance_ = 0;
  bool refused_ = false;
};

}  // namespace gex::check
