#include "backend/cuda/problem_text.hpp"

#include "backend/cuda/attached.hpp"
#include "backend/cuda/body_writer.hpp"
#include "backend/cuda/scalar_text.hpp"
#include "backend/cuda/tile_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

ProblemText::ProblemText(std::string name_of_function, const AttachedKernels& attached_kernels,
                         int operands, int results, bool has_workspace,
                         std::span<const Dim> all_dims, const DeviceLimits& device)
    : attached(attached_kernels),
      dims(all_dims),
      limits(device),
      name(std::move(name_of_function)),
      buffers(operands + (attached_kernels.epilogue ? attached_kernels.extra_buffers : results) +
              (has_workspace ? 1 : 0)),
      first_result(operands) {
  for (const AttachedKernels::Prologue& prologue : attached.prologues)
    buffers += prologue.input_buffers;
}

void ProblemText::constant(const std::string& constant_name, std::int64_t value) {
  text += str("static const i64 ", constant_name, " = ", value, ";\n");
}

void ProblemText::element_type(const std::string& type_name, DType dtype) {
  text += str("typedef ", memory_type(dtype), " ", type_name, ";\nGEX_FN Acc widen_", type_name,
              "(", type_name, " v) { return (Acc)", from_memory(dtype, "v"), "; }\n");
}

void ProblemText::result_type(const std::string& type_name, DType dtype) {
  text += str("typedef ", memory_type(dtype), " ", type_name, ";\nGEX_FN ", type_name, " narrow_",
              type_name, "(Acc v) { return (", type_name, ")", to_memory(dtype, "v"), "; }\n");
}

void ProblemText::accumulator(DType operand) {
  const char* const type = !is_float(operand) ? "int" : operand == DType::f64 ? "double" : "float";
  text += str("typedef ", type, " Acc;\n");
}

void ProblemText::tile_product(DType operand) {
  text += tile_product_text();
  tile_bytes = tile_shared_bytes(operand == DType::f64 ? 8 : 4);
}

void ProblemText::operand(const std::string& struct_name, int number, DType dtype) {
  for (const AttachedKernels::Prologue& prologue : attached.prologues) {
    if (prologue.operand != number) continue;
    text += prologue_text("Computed" + struct_name, prologue, buffers, limits.values);
    text +=
        str("struct ", struct_name, " {\n  Computed", struct_name,
            " computed;\n  GEX_METHOD const ", memory_type(dtype), R"(* memory() const { return 0; }
  GEX_METHOD void bind(const i64* words) { computed.bind(words); }
  GEX_METHOD Acc operator()(i64 offset) const { return (Acc)computed(offset); }
};
)");
    return;
  }
  element_type(struct_name + "Element", dtype);
  text += str("struct ", struct_name, " {\n  const ", struct_name,
              "Element* data;\n  GEX_METHOD void bind(const i64* words) { data = (const ",
              struct_name, "Element*)", word(number),
              "; }\n  GEX_METHOD Acc operator()(i64 offset) const { return widen_", struct_name,
              "Element(data[offset]); }\n  GEX_METHOD const ", struct_name,
              "Element* memory() const { return data; }\n};\n");
}

void ProblemText::finish(DType dtype) {
  if (has_epilogue()) {
    text += epilogue_text("Epilogue", attached, first_result, buffers, limits.values);
    text += R"(struct Finish {
  Epilogue epilogue;
  GEX_METHOD void bind(const i64* words) { epilogue.bind(words); }
  GEX_METHOD void operator()(i64 point, i64, Acc value) const { epilogue(point, value); }
};
)";
    return;
  }
  result_type("Result", dtype);
  const auto at = static_cast<std::size_t>(first_result);
  const bool exchanged = at < attached.exchanged.size() && attached.exchanged[at];
  text += str("struct Finish {\n  ", exchanged ? "Exchanged<Result>" : "Result*", " data;\n",
              "  GEX_METHOD void bind(const i64* words) { data = ",
              exchanged ? "exchanged_at<Result>(" : "(Result*)(", word(first_result),
              "); }\n  GEX_METHOD void operator()(i64, i64 offset, Acc value) const {\n",
              "    data[offset] = narrow_Result(value);\n  }\n};\n");
}

std::vector<bool> ProblemText::exchangeable(std::vector<bool> result) const {
  if (has_epilogue()) {
    const std::vector<bool> params = exchangeable_params(*attached.epilogue);
    result.insert(result.end(), params.begin() + 1, params.end());
  } else {
    result.push_back(true);
  }
  for (const AttachedKernels::Prologue& prologue : attached.prologues) {
    const std::vector<bool> params = exchangeable_params(*prologue.kernel);
    result.insert(result.end(), params.begin(), params.begin() + prologue.input_buffers);
  }
  return result;
}

KernelText ProblemText::done(const std::string& body, int threads, Dim grid, Dim shared_bytes,
                             Dim workspace_bytes, int min_blocks, int cluster,
                             const std::string& prepare) const {
  KernelText out;
  out.name = name;
  out.block = threads;
  out.grid = grid;
  out.shared_bytes = max(shared_bytes, Dim(tile_bytes));
  out.workspace_bytes = workspace_bytes;
  std::string sizes, begin;
  for (std::size_t i = 0; i < dims.size(); ++i)
    sizes +=
        str(i == 0 ? "" : ", ", dims[i].is_const() ? str(dims[i].constant(), "ll")
                                : !limits.values.empty()
                                    ? str(limits.values[i], "ll")
                                    : str("words[", static_cast<std::size_t>(buffers) + i, "]"));
  if (limits.dependent_launch && !limits.persistent && prepare.empty())
    begin = "  wait_for_inputs();\n";
  out.min_blocks = min_blocks;
  out.cluster = cluster;
  out.waits = limits.dependent_launch;
  const std::string dims_text = str("  const i64 dims[] = {", sizes, "};\n");
  out.words = buffers + static_cast<int>(dims.size());
  out.prepares = !prepare.empty();
  out.part = text;
  if (out.prepares)
    out.part += str("GEX_FN void prepare(const i64* words, Blocks block, Requested& requested) {\n",
                    dims_text, prepare, "}\n");
  out.part += str("GEX_FN void run(const i64* words, Blocks block",
                  out.prepares ? ", const Requested& requested" : "", ") {\n", dims_text, begin,
                  body, "}\n");
  finish_source(out);
  return out;
}

Dim capped_grid(Dim work, const DeviceLimits& limits, int blocks_each) {
  return min(work, Dim(limits.multiprocessors * blocks_each));
}

namespace {

struct EmitProblem {
  const AttachedKernels& attached;
  std::span<const Dim> dims;
  const DeviceLimits& limits;

  KernelText operator()(const problems::MatmulProblem& p) const {
    return matmul_text(p, attached, dims, limits);
  }
  KernelText operator()(const problems::Conv2dProblem& p) const {
    return conv2d_text(p, attached, dims, limits);
  }
  KernelText operator()(const problems::Conv2dWeightGradProblem& p) const {
    return conv2d_weight_grad_text(p.conv, dims, limits);
  }
  KernelText operator()(const problems::Conv2dInputGradProblem& p) const {
    return conv2d_input_grad_text(p.conv, dims, limits);
  }
  KernelText operator()(const problems::AttentionProblem& p) const {
    return attention_text(p, attached, dims, limits);
  }
  KernelText operator()(const problems::SortProblem& p) const { return sort_text(p, dims, limits); }
  KernelText operator()(const problems::GroupedMatmulProblem& p) const {
    return grouped_text(p, dims, limits);
  }
  KernelText operator()(const problems::GroupedWeightGradProblem& p) const {
    return grouped_grad_text(p.grouped, dims, limits);
  }
  KernelText operator()(const problems::QuantisedMatmulProblem& p) const {
    return quantised_text(p, attached, dims, limits);
  }
};

}  // namespace

KernelText emit(const problems::Problem& problem, const AttachedKernels& attached,
                std::span<const Dim> dims, const DeviceLimits& limits) {
  GEX_CHECK(static_cast<int>(dims.size()) >= problems::dims_count(problem), "dims of a problem");
  GEX_CHECK(problems::takes_attached_kernels(problem) ||
                (attached.epilogue == nullptr && attached.prologues.empty()),
            "attached kernels of ", problems::print(problem));
  return std::visit(EmitProblem{attached, dims, limits}, problem);
}

}  // namespace gex::backend::cuda
