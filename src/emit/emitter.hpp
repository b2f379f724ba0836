#pragma once
// The state of one emission, shared by the files that write steps.

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/backend.hpp"
#include "emit/code_table.hpp"
#include "emit/emit.hpp"
#include "ir/placement.hpp"
#include "lower/views.hpp"

namespace gex::emit {

// An operand of a problem or a call: strided memory.
struct Operand {
  program::BufferId buffer = -1;
  std::vector<Dim> strides;
  Dim offset;
  bool operator==(const Operand&) const = default;
};

// A problem as a launch, before its epilogue is known.
struct ProblemLaunch {
  std::string name;
  problems::Problem problem;
  std::vector<program::BufferId> operands;
  std::vector<Dim> dims;
  Dim work;
};

// A buffer as an input, output, temporary or constant of this type.
program::BufferDesc describe(const Type& type, program::BufferDesc::Kind kind, std::string name);

// The operand of a call whose new contents the value is; null for any other value.
Value* written_operand(const Value* value);
// Whether the unit reads memory where the value lies.
bool reads(const lower::Unit& unit, const Value* value);
// The unit that computes the value.
std::optional<std::size_t> writer_of(const std::vector<lower::Unit>& units, const Value* value);
const Node* scatter_under(const Graph& graph, const Tie& tie);

class Emitter {
 public:
  Emitter(Graph& graph, const Signature& signature, const CompileOptions& options,
          const Target& target);
  Emitted run();

 private:
  // emit.cpp: the signature, buffers, plain launches.
  void define_inputs();
  std::unordered_set<const Value*> choose_views();
  void define_outputs(const std::vector<lower::Unit>& units);
  bool is_written(const Value* input) const;
  void copy_to_output(Value* value, program::BufferId output);
  void finish_outputs();
  void emit_graph(Graph& graph, int segment);
  void emit_units(const std::vector<lower::Unit>& units, int segment);
  void place(const Node& node, const Placement& outer);
  void emit_loop(const lower::Unit& unit);
  void emit_copy(program::BufferId dst, const std::vector<Dim>& dst_strides, program::BufferId src,
                 const std::vector<Dim>& src_strides, Dim src_offset, const Type& type,
                 const char* why);
  void launch(const loop::Kernel& kernel, const std::string& name,
              std::vector<program::BufferId> buffers, std::vector<bool> writes);
  // Gives the launch its layout on the target; a workspace is one more buffer.
  void apply(const backend::LaunchPlan& plan, program::Launch& launch);
  void add_step(program::Step step);

  // emit_ties.cpp: new contents of inputs. Every tie reads the contents from before the call.
  struct TieCopy {
    Value* value;
    Value* input;
  };
  void lay_out_ties();
  void place_ties(const std::vector<lower::Unit>& units);
  // Whether the memory of `input` may be overwritten by units[writer]: copies that read it are
  // moved before that unit.
  bool copy_before(const std::vector<lower::Unit>& units, std::size_t writer, const Value* input);
  bool collect_copies(const std::vector<lower::Unit>& units, std::size_t writer,
                      const Value* source, std::vector<TieCopy>& copies) const;
  bool is_copied(const Value* input) const;  // into another input
  void emit_tie_copy(const TieCopy& copy, const Operand& from);
  void emit_tie_copies();

  // emit_in_place.cpp: memory whose old contents nobody reads any more.
  bool place_scatter(const std::vector<lower::Unit>& units, const Tie& tie);
  // As far as units are concerned: nothing is said about copies from one input to another.
  bool can_write_in_place(const std::vector<lower::Unit>& units, Value* value, Value* input) const;
  void place_written(const std::vector<lower::Unit>& units);
  // Whether a unit after this one, or a copy at the end, reads what lies in the value's memory.
  bool read_after(const std::vector<lower::Unit>& units, std::size_t position,
                  const Value* value) const;
  Value* input_at(program::BufferId id) const;  // the graph input that lies there, or null
  void emit_scatter(const lower::Unit& unit, const std::vector<lower::Unit>& units,
                    std::size_t position);

  // emit_cat.cpp: parts of a concatenation written where they end up.
  void choose_cats(lower::FuseOptions& options);
  bool can_be_placed(const Value& part, const Node& cat) const;
  void place_cats();
  void emit_cat(const Node& node);

  // emit_steps.cpp: calls and control flow.
  void emit_step(const Node& node);
  void emit_call(const Node& node);
  void emit_if(const Node& node);
  void emit_while(const Node& node);
  int emit_region(Graph& graph, std::span<const Operand> inputs, const std::string& name);

  // emit_contraction.cpp
  void emit_contraction(const lower::Unit& unit);
  void attach_epilogue(const lower::Unit& unit, program::Launch& launch, program::Code& code,
                       backend::AttachedKernels& attached);
  void attach_prologues(const lower::Unit& unit, program::Launch& launch, program::Code& code,
                        backend::AttachedKernels& attached);
  // Of the unit's contraction: strided, never copied; what a prologue computes has the placeholder
  // of a buffer that is not read.
  Operand operand(const lower::Unit& unit, int k);
  ProblemLaunch plan_matmul(const lower::Unit& unit);
  ProblemLaunch plan_conv2d(const lower::Unit& unit);
  ProblemLaunch plan_attention(const lower::Unit& unit);
  // emit_problems.cpp
  ProblemLaunch plan_conv2d_weight_grad(const lower::Unit& unit);
  ProblemLaunch plan_conv2d_input_grad(const lower::Unit& unit);
  ProblemLaunch plan_sort(const lower::Unit& unit);
  ProblemLaunch plan_grouped(const lower::Unit& unit);

  // emit_packed.cpp: frozen inputs.
  void define_frozen();
  program::BufferId add_frozen(program::BufferDesc desc, compile_detail::FrozenSlot slot,
                               bool contents);
  bool is_frozen(const Value* value) const;
  bool has_frozen_contents(program::BufferId id) const;
  // Has the launch read operand `k` in the target's packed layout, if it never changes.
  void pack_operand(ProblemLaunch& launch, int k, const Operand& operand);

  program::BufferId add_buffer(program::BufferDesc desc);
  program::BufferId add_temp(const Type& type, std::string name);
  program::BufferId buffer_of(Value* value);  // its own memory; made for unit outputs on first use
  program::BufferId materialised(
      Value* value);              // in the value's own layout, copied there if a view
  Operand operand(Value* value);  // strided, never copied
  Operand placed(Value* value);   // as materialised() leaves it
  program::BufferId window(program::BufferId base, Dim offset_elements);  // alias from an offset

  Graph& graph_;
  const Signature& signature_;
  const CompileOptions& options_;
  const Target& target_;
  const backend::Backend& backend_;
  Emitted out_;
  program::Program& program_;
  CodeTable codes_;
  std::unordered_set<int> mergeable_codes_;
  std::unordered_map<const Value*, program::BufferId> buffers_;
  std::vector<TieCopy> tie_copies_;  // after all units
  std::unordered_map<const lower::Unit*, std::vector<TieCopy>> copies_before_;
  std::int64_t in_place_ = 0;  // results that are written where something else was
  struct OutputCopy {
    Value* value;
    program::BufferId output;
  };
  std::vector<OutputCopy> output_copies_;  // after all steps
  std::vector<bool> frozen_contents_;      // by slot
  std::unordered_map<std::string, program::BufferId> packed_;
  std::unordered_set<const Node*> placed_cats_;
  std::unordered_set<program::BufferId> windowed_;  // others lie inside: never to be overwritten
  int segment_ = 0;
  const Node* current_ = nullptr;
  Placement placement_;  // of the unit at hand
};

}  // namespace gex::emit
