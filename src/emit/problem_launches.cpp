#include "emit/problem_launches.hpp"

#include <algorithm>

namespace gex::emit {

using program::BufferId;

// The node of a unit, as the problem rule of its op sees it.
class ProblemLaunches::UnitContext : public ops::ProblemContext {
 public:
  UnitContext(ProblemLaunches& launches, const lower::Unit& unit)
      : ProblemContext(*unit.anchor, unit.has_epilogue, launches.state_.run_labels.any_batch,
                       computed_by(unit)),
        owner_(launches),
        unit_(unit) {}

  Operand operand(int k) override {
    Value* value = node.input(static_cast<std::size_t>(k));
    const lower::Prologue* prologue = unit_.prologue_of(k);
    if (prologue == nullptr) return owner_.memory_.operand(value);
    return {owner_.launches_.materialised(prologue->inputs.front()),
            lower::resolve_view(value)->strides, Dim(0)};
  }
  Operand materialised(int k) override {
    return owner_.launches_.placed(node.input(static_cast<std::size_t>(k)));
  }
  Operand dense_copy(const Operand& from, const Type& type) override {
    const Type dense = Type::tensor(type.dtype, type.shape);
    const BufferId copy = owner_.memory_.add_temp(dense, "dense");
    std::vector<Dim> strides = dense_strides(type.shape);
    owner_.launches_.copy(copy, strides, from.buffer, from.strides, from.offset, dense, "layout");
    return {copy, std::move(strides), Dim(0)};
  }
  bool is_used(std::size_t result) const override {
    return std::ranges::find(unit_.outputs, node.output(result)) != unit_.outputs.end();
  }

 private:
  static problems::OperandSet computed_by(const lower::Unit& unit) {
    problems::OperandSet set = 0;
    for (const lower::Prologue& prologue : unit.prologues) set |= 1 << prologue.operand;
    return set;
  }

  ProblemLaunches& owner_;
  const lower::Unit& unit_;
};

void ProblemLaunches::emit(const lower::Unit& unit) {
  const OpDef& op = unit.anchor->op();
  UnitContext context(*this, unit);
  ops::ProblemLaunch plan = op.problem->launch(context);
  program::Launch launch;
  launch.name = unit.label();
  launch.matrix = op.has(Trait::contraction);
  for (const Operand& operand : plan.operands)
    launch.buffers.push_back(memory_.window(operand.buffer, operand.offset));
  if (op.problem->packed && unit.prologue_of(*op.problem->packed) == nullptr)
    frozen_.pack_operand(plan, *op.problem->packed, launch);
  launch.writes.assign(launch.buffers.size(), false);
  launch.dims = std::move(plan.dims);
  launch.work = plan.work;
  program::Code code;
  code.name = op.name;
  code.problem = problems::print(plan.problem);
  backend::AttachedKernels attached;
  if (unit.has_epilogue) attach_epilogue(unit, launch, code, attached);
  for (Value* v : unit.outputs) launch.buffers.push_back(memory_.of(v));
  launch.writes.resize(launch.buffers.size(), true);
  attach_prologues(unit, launch, code, attached);
  const backend::LaunchPlan layout =
      state_.backend.plan(plan.problem, attached, launch.dims, state_.target);
  code.algorithm = layout.algorithm;
  launch.code = launches_.codes().add_code(std::move(code));
  launches_.apply(layout, launch);
  launches_.add_step({std::move(launch), 0, {}});
}

void ProblemLaunches::attach_epilogue(const lower::Unit& unit, program::Launch& launch,
                                      program::Code& code, backend::AttachedKernels& attached) {
  std::vector<Dim> symbols;
  code.kernel = launches_.codes().add_kernel(unit.kernel, symbols);
  code.extra_buffers = static_cast<int>(unit.inputs.size() + unit.outputs.size());
  attached.epilogue = &unit.kernel;
  attached.extra_buffers = code.extra_buffers;
  attached.epilogue_dims_begin = static_cast<int>(launch.dims.size());
  launch.dims.insert(launch.dims.end(), symbols.begin(), symbols.end());
  for (Value* v : unit.inputs) launch.buffers.push_back(launches_.materialised(v));
  launch.writes.resize(launch.buffers.size(), false);
}

void ProblemLaunches::attach_prologues(const lower::Unit& unit, program::Launch& launch,
                                       program::Code& code, backend::AttachedKernels& attached) {
  for (const lower::Prologue& prologue : unit.prologues) {
    std::vector<Dim> symbols;
    program::Code::Prologue place;
    place.kernel = launches_.codes().add_kernel(prologue.kernel, symbols);
    place.operand = prologue.operand;
    place.first_buffer = static_cast<int>(launch.buffers.size());
    place.input_buffers = static_cast<int>(prologue.inputs.size());
    place.dims_begin = static_cast<int>(launch.dims.size());
    code.prologues.push_back(place);
    attached.prologues.push_back({&prologue.kernel, place.operand, place.first_buffer,
                                  place.input_buffers, place.dims_begin});
    launch.dims.insert(launch.dims.end(), symbols.begin(), symbols.end());
    for (Value* v : prologue.inputs) launch.buffers.push_back(launches_.materialised(v));
    state_.program.counters.push_back({"prologues", 1});
  }
  launch.writes.resize(launch.buffers.size(), false);
}

}  // namespace gex::emit
