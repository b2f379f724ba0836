// Problems as launches: operands as strided memory, epilogues and prologues attached.

#include <algorithm>

#include "emit/conv_launch.hpp"
#include "emit/emitter.hpp"
#include "lower/cluster.hpp"
#include "ops/core/attributes.hpp"

namespace gex::emit {

using program::BufferId;

namespace {

// Neighbouring batch axes become one where every operand walks them with one stride.
struct Batch {
  std::vector<Dim> sizes;
  std::vector<std::vector<Dim>> strides;  // for each operand, one for each size

  void collapse() {
    for (std::size_t d = 0; d + 1 < sizes.size();) {
      bool joins = sizes[d] == Dim(1) || sizes[d + 1] == Dim(1);
      if (!joins) {
        joins = std::all_of(strides.begin(), strides.end(),
                            [&](const auto& s) { return s[d] == s[d + 1] * sizes[d + 1]; });
      }
      if (!joins) {
        ++d;
        continue;
      }
      std::size_t kept = sizes[d + 1] == Dim(1) ? d : d + 1;
      for (auto& s : strides) {
        s[d] = s[kept];
        s.erase(s.begin() + static_cast<std::ptrdiff_t>(d) + 1);
      }
      sizes[d] = sizes[d] * sizes[d + 1];
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    }
    while (sizes.size() < 2) {
      sizes.insert(sizes.begin(), Dim(1));
      for (auto& s : strides) s.insert(s.begin(), Dim(0));
    }
  }
};

// Strides over the output's batch axes: 0 where the operand broadcasts.
std::vector<Dim> batch_strides(const Type& type, const std::vector<Dim>& strides,
                               std::size_t batch_rank) {
  std::size_t own = type.shape.size() - 2;
  std::vector<Dim> result(batch_rank, Dim(0));
  for (std::size_t d = 0; d < own; ++d) {
    if (!(type.shape[d] == Dim(1))) result[batch_rank - own + d] = strides[d];
  }
  return result;
}

// What an epilogue gets: its own code rounds and stores.
DType accumulated(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

problems::OperandSet computed_by(const lower::Unit& unit) {
  problems::OperandSet set = 0;
  for (const lower::Prologue& prologue : unit.prologues) set |= 1 << prologue.operand;
  return set;
}

}  // namespace

Operand Emitter::operand(const lower::Unit& unit, int k) {
  Value* value = lower::operand_value(*unit.anchor, k);
  const lower::Prologue* prologue = unit.prologue_of(k);
  if (prologue == nullptr) return operand(value);
  return {materialised(prologue->inputs.front()), lower::resolve_view(value)->strides, Dim(0)};
}

ProblemLaunch Emitter::plan_matmul(const lower::Unit& unit) {
  const Node& node = *unit.anchor;
  const Type& a_type = node.input(0)->type();
  const Type& b_type = node.input(1)->type();
  const Type& c_type = node.output()->type();
  std::size_t rank = c_type.shape.size();
  std::size_t batch_rank = rank - 2;
  Operand a = operand(unit, 0), b = operand(unit, 1);
  std::vector<Dim> c_strides = lower::memory_strides(*node.output());
  auto gather = [&] {
    Batch batch;
    batch.sizes.assign(c_type.shape.begin(),
                       c_type.shape.begin() + static_cast<std::ptrdiff_t>(batch_rank));
    batch.strides = {batch_strides(a_type, a.strides, batch_rank),
                     batch_strides(b_type, b.strides, batch_rank),
                     batch_strides(c_type, c_strides, batch_rank)};
    batch.collapse();
    return batch;
  };
  Batch batch = gather();
  if (batch.sizes.size() > 2) {
    GEX_CHECK(unit.prologues.empty(), "a computed operand with a batch of rank ", batch_rank);
    // More than two levels of strides: dense copies of the operands have at most two.
    for (int k = 0; k < 2; ++k) {
      Operand& which = k == 0 ? a : b;
      Type full = node.input(static_cast<std::size_t>(k))->type();
      Shape shape(c_type.shape.begin(),
                  c_type.shape.begin() + static_cast<std::ptrdiff_t>(batch_rank));
      std::vector<Dim> strides = batch_strides(full, which.strides, batch_rank);
      shape.insert(shape.end(), full.shape.end() - 2, full.shape.end());
      strides.insert(strides.end(), which.strides.end() - 2, which.strides.end());
      Type dense = Type::tensor(full.dtype, shape);
      BufferId copy = add_temp(dense, "dense");
      emit_copy(copy, dense_strides(shape), which.buffer, strides, which.offset, dense, "layout");
      which = {copy, dense_strides(shape), Dim(0)};
    }
    auto dense_batch = [&](const std::vector<Dim>& strides) {
      return std::vector<Dim>(strides.begin(),
                              strides.begin() + static_cast<std::ptrdiff_t>(batch_rank));
    };
    batch.sizes.assign(c_type.shape.begin(),
                       c_type.shape.begin() + static_cast<std::ptrdiff_t>(batch_rank));
    batch.strides = {dense_batch(a.strides), dense_batch(b.strides),
                     batch_strides(c_type, c_strides, batch_rank)};
    batch.collapse();
    GEX_CHECK(batch.sizes.size() == 2, "batch of rank ", batch.sizes.size());
  }
  Dim m = c_type.shape[rank - 2], n = c_type.shape[rank - 1], k = a_type.shape.back();
  problems::MatmulProblem problem;
  problem.a = a_type.dtype;
  problem.b = b_type.dtype;
  problem.c = unit.has_epilogue ? DType::f32 : c_type.dtype;
  problem.any_rows = placement_.any_batch;
  problem.computed = computed_by(unit);
  problem.keep_subnormals = options_.keep_subnormals;
  ProblemLaunch plan;
  plan.name = "matmul";
  plan.operands = {window(a.buffer, a.offset), window(b.buffer, b.offset)};
  plan.dims = {batch.sizes[0], batch.sizes[1], m, n, k};
  auto push = [&](std::size_t which, Dim outer, Dim inner) {
    plan.dims.insert(plan.dims.end(),
                     {batch.strides[which][0], batch.strides[which][1], outer, inner});
  };
  push(0, a.strides[a.strides.size() - 2], a.strides.back());
  push(1, b.strides[b.strides.size() - 2], b.strides.back());
  push(2, c_strides[rank - 2], c_strides[rank - 1]);
  plan.work = batch.sizes[0] * batch.sizes[1] * m * n * k;
  plan.problem = problem;
  if (unit.prologue_of(1) == nullptr) pack_operand(plan, 1, b);
  return plan;
}

ProblemLaunch Emitter::plan_conv2d(const lower::Unit& unit) {
  const Node& node = *unit.anchor;
  auto attrs = node.as<ops::Conv>();
  const Value* image = lower::operand_value(node, 0);
  if (image != node.input(0)) {
    const auto border = node.input(0)->producer()->as<ops::Pad>();
    for (std::size_t k = 0; k < 2; ++k) attrs.padding[k] += border.low[k + 2].constant();
  }
  const Type& x_type = image->type();
  const Type& w_type = node.input(1)->type();
  const Type& y_type = node.output()->type();
  Operand x = operand(unit, 0), w = operand(unit, 1);
  problems::Conv2dProblem problem =
      conv_problem(attrs, x_type.dtype, w_type.dtype,
                   unit.has_epilogue ? accumulated(y_type.dtype) : y_type.dtype);
  problem.x_computed = unit.prologue_of(0) != nullptr;
  ProblemLaunch plan;
  plan.name = "conv2d";
  plan.operands = {window(x.buffer, x.offset), window(w.buffer, w.offset)};
  const std::vector<Dim> y_strides = lower::memory_strides(*node.output());
  plan.dims =
      conv_dims({x_type.shape, x.strides}, {w_type.shape, w.strides}, {y_type.shape, y_strides});
  plan.work = y_type.numel() * w_type.shape[1] * w_type.shape[2] * w_type.shape[3];
  plan.problem = problem;
  pack_operand(plan, 1, w);
  return plan;
}

ProblemLaunch Emitter::plan_attention(const lower::Unit& unit) {
  const Node& node = *unit.anchor;
  auto attrs = node.as<ops::Attention>();
  Type q_type = node.input(0)->type(), k_type = node.input(1)->type();
  Type v_type = node.input(2)->type();
  const Type& out_type = node.output()->type();
  bool has_mask = node.has_input(3);
  Operand q = operand(unit, 0), k = operand(unit, 1), v = operand(unit, 2);
  std::vector<Dim> out_strides = lower::memory_strides(*node.output());
  // The kernel's batch and heads, where the operands have none.
  for (Type* type : {&q_type, &k_type, &v_type})
    while (type->shape.size() < 4) type->shape.insert(type->shape.begin(), Dim(1));
  for (std::vector<Dim>* strides : {&q.strides, &k.strides, &v.strides, &out_strides})
    while (strides->size() < 4) strides->insert(strides->begin(), Dim(0));
  problems::AttentionProblem problem;
  problem.qkv = q_type.dtype;
  problem.out = unit.has_epilogue ? accumulated(out_type.dtype) : out_type.dtype;
  problem.causal = attrs.causal ? problems::Causal::top_left : problems::Causal::none;
  problem.scale = attrs.scale;
  problem.nan_if_fully_masked = attrs.nan_if_fully_masked;
  problem.computed = computed_by(unit);
  std::vector<Dim> mask_strides(4, Dim(0));
  ProblemLaunch plan;
  plan.operands = {window(q.buffer, q.offset), window(k.buffer, k.offset),
                   window(v.buffer, v.offset)};
  if (has_mask) {
    const Type& mask_type = node.input(3)->type();
    problem.mask = mask_type.dtype == DType::boolean ? problems::MaskKind::boolean
                                                     : problems::MaskKind::additive;
    problem.mask_dtype = mask_type.dtype;
    Operand mask = operand(unit, 3);
    std::size_t skip = 4 - mask_type.shape.size();
    for (std::size_t d = skip; d < 4; ++d) {
      if (!(mask_type.shape[d - skip] == Dim(1))) mask_strides[d] = mask.strides[d - skip];
    }
    plan.operands.push_back(window(mask.buffer, mask.offset));
  }
  plan.name = "attention";
  plan.dims = {q_type.shape[0], q_type.shape[1], k_type.shape[1], q_type.shape[2],
               k_type.shape[2], q_type.shape[3], v_type.shape[3]};
  for (const std::vector<Dim>* strides : {&q.strides, &k.strides, &v.strides, &out_strides}) {
    plan.dims.insert(plan.dims.end(), strides->begin(), strides->end());
  }
  if (has_mask) plan.dims.insert(plan.dims.end(), mask_strides.begin(), mask_strides.end());
  plan.work = q_type.numel() * k_type.shape[2] * Dim(2);
  plan.problem = problem;
  return plan;
}

void Emitter::emit_contraction(const lower::Unit& unit) {
  const Node& node = *unit.anchor;
  ProblemLaunch plan = node.is("matmul")                    ? plan_matmul(unit)
                       : node.is("conv2d")                  ? plan_conv2d(unit)
                       : node.is("attention")               ? plan_attention(unit)
                       : node.is("conv2d_weight_grad")      ? plan_conv2d_weight_grad(unit)
                       : node.is("conv2d_input_grad")       ? plan_conv2d_input_grad(unit)
                       : node.is("sort") || node.is("topk") ? plan_sort(unit)
                                                            : plan_grouped(unit);
  program::Launch launch;
  launch.name = unit.label();
  launch.dims = std::move(plan.dims);
  launch.work = plan.work;
  launch.matrix = !std::holds_alternative<problems::SortProblem>(plan.problem);
  launch.buffers = std::move(plan.operands);
  launch.writes.assign(launch.buffers.size(), false);
  program::Code code;
  code.name = plan.name;
  code.problem = problems::print(plan.problem);
  backend::AttachedKernels attached;
  if (unit.has_epilogue) attach_epilogue(unit, launch, code, attached);
  for (Value* v : unit.outputs) launch.buffers.push_back(buffer_of(v));
  launch.writes.resize(launch.buffers.size(), true);
  attach_prologues(unit, launch, code, attached);
  const backend::LaunchPlan layout = backend_.plan(plan.problem, attached, launch.dims, target_);
  code.algorithm = layout.algorithm;
  apply(layout, launch);
  launch.code = codes_.add_code(std::move(code));
  add_step({std::move(launch), 0, {}});
}

void Emitter::attach_epilogue(const lower::Unit& unit, program::Launch& launch, program::Code& code,
                              backend::AttachedKernels& attached) {
  std::vector<Dim> symbols;
  code.kernel = codes_.add_kernel(unit.kernel, symbols);
  code.extra_buffers = static_cast<int>(unit.inputs.size() + unit.outputs.size());
  attached.epilogue = &unit.kernel;
  attached.extra_buffers = code.extra_buffers;
  attached.epilogue_dims_begin = static_cast<int>(launch.dims.size());
  launch.dims.insert(launch.dims.end(), symbols.begin(), symbols.end());
  for (Value* v : unit.inputs) launch.buffers.push_back(materialised(v));
  launch.writes.resize(launch.buffers.size(), false);
}

void Emitter::attach_prologues(const lower::Unit& unit, program::Launch& launch,
                               program::Code& code, backend::AttachedKernels& attached) {
  for (const lower::Prologue& prologue : unit.prologues) {
    std::vector<Dim> symbols;
    program::Code::Prologue place;
    place.kernel = codes_.add_kernel(prologue.kernel, symbols);
    place.operand = prologue.operand;
    place.first_buffer = static_cast<int>(launch.buffers.size());
    place.input_buffers = static_cast<int>(prologue.inputs.size());
    place.dims_begin = static_cast<int>(launch.dims.size());
    code.prologues.push_back(place);
    attached.prologues.push_back({&prologue.kernel, place.operand, place.first_buffer,
                                  place.input_buffers, place.dims_begin});
    launch.dims.insert(launch.dims.end(), symbols.begin(), symbols.end());
    for (Value* v : prologue.inputs) launch.buffers.push_back(materialised(v));
    program_.counters.push_back({"prologues", 1});
  }
  launch.writes.resize(launch.buffers.size(), false);
}

}  // namespace gex::emit
