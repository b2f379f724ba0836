#include "problems/problem.hpp"

#include <bit>
#include <charconv>
#include <sstream>
#include <type_traits>

#include "base/error.hpp"

namespace gex::problems {

namespace {

// The fields of each problem in order; writing and reading go through this one list.
template <class Visit, class AnyProblem>
void fields_of(Visit& visit, AnyProblem& p) {
  using P = std::remove_const_t<AnyProblem>;
  const auto each = [&](auto&... fields) { (visit(fields), ...); };
  if constexpr (std::is_same_v<P, MatmulProblem>) {
    each(p.a, p.b, p.c, p.b_packed, p.any_rows, p.computed, p.keep_subnormals);
  } else if constexpr (std::is_same_v<P, Conv2dProblem>) {
    each(p.x, p.w, p.y, p.stride[0], p.stride[1], p.dilation[0], p.dilation[1], p.pad[0], p.pad[1],
         p.border, p.up[0], p.up[1], p.groups, p.w_packed, p.winograd, p.x_computed);
  } else if constexpr (std::is_same_v<P, Conv2dWeightGradProblem> ||
                       std::is_same_v<P, Conv2dInputGradProblem>) {
    fields_of(visit, p.conv);
  } else if constexpr (std::is_same_v<P, AttentionProblem>) {
    each(p.qkv, p.out, p.mask, p.mask_dtype, p.causal, p.scale, p.nan_if_fully_masked, p.computed,
         p.keep_subnormals);
  } else if constexpr (std::is_same_v<P, SortProblem>) {
    each(p.dtype, p.descending, p.ties, p.batch_rank, p.values, p.indices);
  } else if constexpr (std::is_same_v<P, GroupedWeightGradProblem>) {
    fields_of(visit, p.grouped);
  } else if constexpr (std::is_same_v<P, QuantisedMatmulProblem>) {
    each(p.a, p.q, p.bits, p.group, p.zero, p.has_scale, p.scale, p.has_offset, p.c, p.any_rows,
         p.keep_subnormals);
  } else {
    fields_of(visit, p.product);
    each(p.ends);
  }
}

constexpr const char* kNames[] = {
    "matmul", "conv2d",         "conv2d_weight_grad",  "conv2d_input_grad", "attention",
    "sort",   "grouped_matmul", "grouped_weight_grad", "quantised_matmul"};
static_assert(std::size(kNames) == std::variant_size_v<Problem>);

struct Writer {
  std::string out;
  void operator()(DType value) { out += str(" ", value); }
  void operator()(std::int64_t value) { out += str(" ", value); }
  void operator()(MaskKind value) { out += str(" ", static_cast<int>(value)); }
  void operator()(Ties value) { out += str(" ", static_cast<int>(value)); }
  void operator()(Causal value) { out += str(" ", static_cast<int>(value)); }
  void operator()(const std::optional<double>& value) {
    // Printed as bits: two scales that print alike in decimal are different problems.
    out += value ? str(" ", std::bit_cast<std::uint64_t>(*value)) : " default";
  }
};

struct Reader {
  std::istringstream in;

  std::string word() {
    std::string text;
    if (!(in >> text)) fail(ErrorCode::parse_error, "the text of a problem ends too early");
    return text;
  }
  template <class T>
  T number(std::int64_t low, std::int64_t high) {
    const std::string text = word();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
      fail(ErrorCode::parse_error, "'", text, "' is not a number from ", low, " to ", high);
    return static_cast<T>(value);
  }
  void operator()(DType& value) {
    const std::string text = word();
    const std::optional<DType> dtype = dtype_from_name(text);
    if (!dtype) fail(ErrorCode::parse_error, "unknown dtype '", text, "'");
    value = *dtype;
  }
  void operator()(bool& value) { value = number<bool>(0, 1); }
  void operator()(int& value) { value = number<int>(0, 64); }
  void operator()(std::int64_t& value) { value = number<std::int64_t>(INT64_MIN, INT64_MAX); }
  void operator()(MaskKind& value) { value = number<MaskKind>(0, 2); }
  void operator()(Ties& value) { value = number<Ties>(0, 3); }
  void operator()(Causal& value) { value = number<Causal>(0, 2); }
  void operator()(std::optional<double>& value) {
    const std::string text = word();
    value.reset();
    if (text == "default") return;
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
    if (error != std::errc() || end != text.data() + text.size())
      fail(ErrorCode::parse_error, "'", text, "' is not a scale");
    value = std::bit_cast<double>(bits);
  }
};

template <std::size_t kIndex = 0>
Problem read_problem(const std::string& name, Reader& reader) {
  if constexpr (kIndex == std::variant_size_v<Problem>) {
    fail(ErrorCode::parse_error, "unknown problem '", name, "'");
  } else {
    if (name != kNames[kIndex]) return read_problem<kIndex + 1>(name, reader);
    std::variant_alternative_t<kIndex, Problem> problem;
    fields_of(reader, problem);
    return problem;
  }
}

}  // namespace

OperandSet computed_operands(const Problem& problem) {
  if (const auto* matmul = std::get_if<MatmulProblem>(&problem)) return matmul->computed;
  if (const auto* conv = std::get_if<Conv2dProblem>(&problem)) return conv->x_computed;
  const auto* attention = std::get_if<AttentionProblem>(&problem);
  return attention == nullptr ? 0 : attention->computed;
}

bool takes_attached_kernels(const Problem& problem) {
  return std::holds_alternative<MatmulProblem>(problem) ||
         std::holds_alternative<Conv2dProblem>(problem) ||
         std::holds_alternative<AttentionProblem>(problem) ||
         std::holds_alternative<QuantisedMatmulProblem>(problem);
}

int dims_count(const Problem& problem) {
  if (std::holds_alternative<Conv2dProblem>(problem) ||
      std::holds_alternative<Conv2dWeightGradProblem>(problem) ||
      std::holds_alternative<Conv2dInputGradProblem>(problem))
    return conv2d_dims::count;
  if (const auto* attention = std::get_if<AttentionProblem>(&problem))
    return attention->mask == MaskKind::none ? attention_dims::count_without_mask
                                             : attention_dims::count_with_mask;
  if (const auto* sort = std::get_if<SortProblem>(&problem))
    return sort_dims::count(sort->batch_rank, (sort->values ? 1 : 0) + (sort->indices ? 1 : 0));
  if (std::holds_alternative<QuantisedMatmulProblem>(problem)) return quantised_dims::count;
  return std::holds_alternative<MatmulProblem>(problem) ? matmul_dims::count
                                                        : matmul_dims::count + 1;
}

std::string print(const Problem& problem) {
  Writer writer{kNames[problem.index()]};
  std::visit([&](const auto& p) { fields_of(writer, p); }, problem);
  return writer.out;
}

Problem parse_problem(std::string_view text) {
  Reader reader{std::istringstream(std::string(text))};
  const std::string name = reader.word();
  Problem problem = read_problem(name, reader);
  std::string more;
  if (reader.in >> more) fail(ErrorCode::parse_error, "unexpected '", more, "' after the problem");
  return problem;
}

}  // namespace gex::problems
