#include "backend/cpu/kernels/tuning_candidates.hpp"

#include <algorithm>

#include "backend/cpu/kernels/bind.hpp"
#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/integer_conv2d.hpp"
#include "backend/cpu/kernels/integer_product.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "base/error.hpp"

namespace gex::kernels {

namespace {

using i64 = std::int64_t;

constexpr const char* kFormNames[] = {
    "by_rule", "packed",  "in_place", "turned",   "few_rows", "few_columns", "pixels",    "rows",
    "direct",  "columns", "product",  "winograd", "shifts",   "channels",    "transposed"};

MatmulSizes sizes_of(const MatmulProblem& p, std::span<const i64> dims) {
  return matmul_sizes(p.a, p.b, p.b_packed, p.any_rows, p.computed != 0, dims.data());
}

ConvSizes sizes_of(const Conv2dProblem& p, std::span<const i64> dims) {
  const i64 stride[] = {p.stride[0], p.stride[1]};
  const i64 dilation[] = {p.dilation[0], p.dilation[1]};
  const i64 pad[] = {p.pad[0], p.pad[1]};
  const i64 up[] = {p.up[0], p.up[1]};
  return conv_sizes(p.x, stride, dilation, pad, up, p.groups, p.x_computed, dims.data());
}

// The form that the heuristic selects with vectors of this many bytes.
Form rule_of(const MatmulProblem& p, std::span<const i64> dims, int vector_bytes) {
  return sizes_of(p, dims).by_rule(vector_bytes / accumulator_bytes(p.a));
}

Form rule_of(const Conv2dProblem& p, std::span<const i64> dims, int /*vector_bytes*/) {
  const ConvSizes sizes = sizes_of(p, dims);
  if (p.winograd) return Form::winograd;
  const Form rule = sizes.by_rule();
  return p.w_packed && !reads_panels(rule) ? Form::pixels : rule;
}

std::vector<Form> forms(const MatmulProblem& p, std::span<const i64> dims) {
  const MatmulSizes sizes = sizes_of(p, dims);
  std::vector<Form> found;
  for (Form form : {Form::few_rows, Form::few_columns, Form::in_place, Form::turned, Form::packed})
    if (sizes.can(form)) found.push_back(form);
  return found;
}

// Weights packed ahead of time can be used by some forms only, transformed ones by one.
std::vector<Form> forms(const Conv2dProblem& p, std::span<const i64> dims) {
  const ConvSizes sizes = sizes_of(p, dims);
  if (p.winograd) return {Form::winograd};
  std::vector<Form> found;
  for (Form form : {Form::product, Form::pixels, Form::shifts, Form::channels, Form::rows,
                    Form::direct, Form::columns, Form::transposed})
    if (sizes.can(form) && (reads_panels(form) || !p.w_packed)) found.push_back(form);
  return found;
}

// The baseline variant is never the fastest if there are others.
std::span<const Variant* const> worth_trying() {
  const auto usable = usable_variants();
  return usable.size() > 1 ? usable.first(usable.size() - 1) : usable;
}

struct Axis {
  i64 size, stride;
};

// Elements from the first to the last one; nothing if a stride is negative.
std::optional<i64> extent(std::initializer_list<Axis> axes) {
  i64 last = 0;
  for (const auto& [size, stride] : axes) {
    if (stride < 0) return std::nullopt;
    if (size == 0) return 0;
    last += (size - 1) * stride;
  }
  return last + 1;
}

bool set_bytes(Trial& trial, std::initializer_list<std::pair<std::optional<i64>, DType>> buffers) {
  for (const auto& [elements, dtype] : buffers) {
    if (!elements) return false;
    trial.buffer_bytes.push_back(*elements * static_cast<i64>(size_of(dtype)));
  }
  return true;
}

std::optional<Trial> trial(MatmulProblem p, std::span<const i64> dims) {
  namespace at = matmul_dims;
  const i64 outer = dims[at::batch0], inner = dims[at::batch1];
  const i64 m = dims[at::m], n = dims[at::n], k = dims[at::k];
  const auto elements = [&](int strides, i64 rows, i64 cols) {
    return extent({{outer, dims[strides]},
                   {inner, dims[strides + 1]},
                   {rows, dims[strides + 2]},
                   {cols, dims[strides + 3]}});
  };
  p.c = p.a == DType::f64 ? DType::f64 : DType::f32;
  Trial t;
  t.dims.assign(dims.begin(), dims.begin() + at::count);
  const auto b = p.b_packed ? matmul_packed_elements(p, outer * inner, n, k).constant()
                            : elements(at::b_strides, k, n);
  if (!set_bytes(
          t,
          {{elements(at::a_strides, m, k), p.a}, {b, p.b}, {elements(at::c_strides, m, n), p.c}}))
    return std::nullopt;
  t.grid = matmul_grid(p, outer * inner, m, n, k).constant();
  t.scratch_bytes = matmul_scratch_bytes(p, outer * inner, m, n, k).constant();
  t.work = static_cast<double>(outer * inner) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  t.problem = p;
  return t;
}

std::optional<Trial> trial(Conv2dProblem p, std::span<const i64> dims) {
  namespace at = conv2d_dims;
  const auto elements = [&](int strides, i64 a, i64 b, i64 c, i64 d) {
    return extent({{a, dims[strides]},
                   {b, dims[strides + 1]},
                   {c, dims[strides + 2]},
                   {d, dims[strides + 3]}});
  };
  const i64 depth = dims[at::c] / p.groups;
  p.y = p.x == DType::f64 ? DType::f64 : DType::f32;
  Trial t;
  t.dims.assign(dims.begin(), dims.begin() + at::count);
  const auto w =
      p.w_packed
          ? conv2d_packed_elements(p, dims[at::o], depth * dims[at::kh] * dims[at::kw]).constant()
          : elements(at::w_strides, dims[at::o], depth, dims[at::kh], dims[at::kw]);
  const auto y = elements(at::y_strides, dims[at::n], dims[at::o], dims[at::oh], dims[at::ow]);
  if (!set_bytes(
          t, {{elements(at::x_strides, dims[at::n], dims[at::c], dims[at::h], dims[at::w]), p.x},
              {w, p.w},
              {y, p.y}}))
    return std::nullopt;
  t.grid = conv2d_grid(p, dims[at::n], dims[at::o], dims[at::oh], dims[at::ow]).constant();
  t.scratch_bytes = conv2d_scratch_bytes(p).constant();
  t.work = static_cast<double>(dims[at::n] * dims[at::o] * dims[at::oh] * dims[at::ow]) *
           static_cast<double>(depth * dims[at::kh] * dims[at::kw]);
  t.problem = p;
  return t;
}

template <class P>
constexpr bool is_tunable = std::is_same_v<P, MatmulProblem> || std::is_same_v<P, Conv2dProblem>;

}  // namespace

std::string name_of(const TuningCandidate& candidate) {
  return str(kFormNames[static_cast<int>(candidate.form)], " ",
             choose_variant(candidate.variant).name);
}

std::vector<TuningCandidate> tuning_candidates(const Problem& problem, std::span<const i64> dims) {
  std::vector<TuningCandidate> found;
  std::visit(
      [&]<class P>(const P& p) {
        if constexpr (is_tunable<P>) {
          if (is_integer_product(p)) return;  // one form, the best function of the machine
          if constexpr (std::is_same_v<P, MatmulProblem>) {
            if (p.any_rows || p.computed != 0) return;
          } else {
            if (p.x_computed) return;
          }
          const Variant* best = usable_variants().front();
          const Form rule = rule_of(p, dims, best->vector_bytes);
          found.push_back({});
          for (const Variant* variant : worth_trying())
            for (Form form : forms(p, dims))
              if (variant != best || form != rule) found.push_back({form, variant});
        }
      },
      problem);
  return found;
}

TuningCandidate choice_by_rule(const Problem& problem, std::span<const i64> dims) {
  TuningCandidate choice;
  choice.variant = usable_variants().front();
  std::visit(
      [&]<class P>(const P& p) {
        if constexpr (is_tunable<P>) choice.form = rule_of(p, dims, choice.variant->vector_bytes);
      },
      problem);
  return choice;
}

std::optional<TuningCandidate> find_candidate(const std::vector<TuningCandidate>& candidates,
                                              std::string_view name) {
  const auto found = std::ranges::find_if(
      candidates, [&](const TuningCandidate& candidate) { return name_of(candidate) == name; });
  if (found == candidates.end()) return std::nullopt;
  return *found;
}

std::optional<Trial> trial_of(const Problem& problem, std::span<const i64> dims) {
  return std::visit(
      [&]<class P>(const P& p) -> std::optional<Trial> {
        if constexpr (is_tunable<P>)
          return trial(p, dims);
        else
          return std::nullopt;
      },
      problem);
}

}  // namespace gex::kernels
