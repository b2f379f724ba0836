#pragma once
// One way of running a graph, held against the interpreter.

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

// Sizes for the symbols of the graph's inputs: what is given, else a small one of its range.
interp::SymbolValues sizes_of(const Graph& graph, const interp::SymbolValues& given = {});

// Values by the input's name and the seed alone, so that they stay when other inputs go. Inputs
// called "index..." hold -1, 0 and 1; integers made by reduce() hold 1, which every op takes.
std::vector<HostTensor> draw_inputs(const Graph& graph, const interp::SymbolValues& sizes,
                                    std::uint64_t seed);

// What is wrong, in words, or nothing. Elements whose value hangs on the last bits of the inputs
// or of results in between are not judged more strictly than the interpreter itself answers to such
// a change. A graph that
// the interpreter refuses as the user's mistake is right if every other way refuses it as well.
std::optional<std::string> find_fault(const Graph& graph, const std::vector<HostTensor>& inputs,
                                      const Trial& trial);

// One word for faults that are alike: a reduction must not turn one failure into another.
std::string kind_of(const std::string& fault);

// How inputs are changed in the last bits: every element up, every one down, each as it falls.
enum class Nudge : std::uint8_t { up, down, either };

// What the interpreter says, kept to judge several trials of one graph.
class Reference {
 public:
  Reference(const Graph& graph, const std::vector<HostTensor>& inputs);
  std::optional<std::string> find_fault(const Trial& trial) const;
  std::optional<std::string> judge(std::size_t output, const HostTensor& got) const;
  bool refused() const { return refused_; }

 private:
  void look_nearby(Nudge nudge) const;
  // Likewise for results in between, each of which is changed in the last bits.
  void look_inside() const;

  const Graph& graph_;
  const std::vector<HostTensor>& inputs_;
  std::vector<HostTensor> expected_;
  mutable std::vector<std::vector<HostTensor>> nearby_;  // for inputs changed in the last bits
  std::string error_;                                    // a bug that the interpreter itself met
  double tolerance_ = 0;
  bool refused_ = false;
};

}  // namespace gex::check
