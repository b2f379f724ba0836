#include "cuda_problems.hpp"

#include <cmath>
#include <functional>
#include <random>

#include "base/error.hpp"
#include "harness.hpp"
#include "interp/eval_kernel.hpp"

namespace gex::codegen {

using problems::Causal;
using problems::MaskKind;
using problems::Problem;
using std::int64_t;

namespace {

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

// Stores a finished value: the point of the result's dense grid, its offset in memory, the result.
using Emit = std::function<void(int64_t point, int64_t offset, double value, int result)>;
// Operand k at an offset.
using Read = std::function<double(int operand, int64_t offset)>;

void matmul(const int64_t* d, const Read& read, const Emit& emit) {
  for (int64_t o = 0, point = 0; o < d[0]; ++o)
    for (int64_t i = 0; i < d[1]; ++i)
      for (int64_t r = 0; r < d[2]; ++r)
        for (int64_t c = 0; c < d[3]; ++c, ++point) {
          double sum = 0;
          for (int64_t k = 0; k < d[4]; ++k)
            sum += read(0, o * d[5] + i * d[6] + r * d[7] + k * d[8]) *
                   read(1, o * d[9] + i * d[10] + k * d[11] + c * d[12]);
          emit(point, o * d[13] + i * d[14] + r * d[15] + c * d[16], sum, 0);
        }
}

void quantised(const problems::QuantisedMatmulProblem& p, const int64_t* d, const Read& read,
               const Emit& emit) {
  for (int64_t r = 0, point = 0; r < d[0]; ++r)
    for (int64_t c = 0; c < d[1]; ++c, ++point) {
      double sum = 0;
      for (int64_t k = 0; k < d[2]; ++k) {
        const int64_t group = p.group == 0 ? 0 : k / p.group;
        const bool halves = p.bits == 4;
        double number = read(1, c * d[5] + (halves ? k / 2 : k) * d[6]);
        if (halves) number = static_cast<double>(static_cast<int64_t>(number) >> (k % 2 * 4) & 15);
        number -= static_cast<double>(p.zero);
        if (p.has_scale) number *= read(2, c * d[7] + group * d[8]);
        if (p.has_offset) number += read(p.operands() - 1, c * d[9] + group * d[10]);
        sum += read(0, r * d[3] + k * d[4]) * number;
      }
      emit(point, r * d[11] + c * d[12], sum, 0);
    }
}

void grouped(const int64_t* d, const Read& read, const Emit& emit) {
  for (int64_t r = 0; r < d[2]; ++r) {
    int64_t group = 0;
    while (group < d[17] && static_cast<int64_t>(read(2, group)) <= r) ++group;
    for (int64_t c = 0; c < d[3]; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < d[4] && group < d[17]; ++k)
        sum += read(0, r * d[7] + k * d[8]) * read(1, group * d[9] + k * d[11] + c * d[12]);
      emit(0, r * d[15] + c * d[16], sum, 0);
    }
  }
}

void grouped_grad(const int64_t* d, const Read& read, const Emit& emit) {
  for (int64_t g = 0; g < d[17]; ++g)
    for (int64_t r = 0; r < d[2]; ++r)
      for (int64_t c = 0; c < d[3]; ++c) {
        double sum = 0;
        const int64_t from = g == 0 ? 0 : static_cast<int64_t>(read(2, g - 1));
        for (int64_t k = from; k < static_cast<int64_t>(read(2, g)); ++k)
          sum += read(0, r * d[7] + k * d[8]) * read(1, k * d[11] + c * d[12]);
        emit(0, g * d[13] + r * d[15] + c * d[16], sum, 0);
      }
}

// Calls visit(x offset, w offset, y offset, point) for every product of the convolution.
void for_each_product(const problems::Conv2dProblem& p, const int64_t* d,
                      const std::function<void(int64_t, int64_t, int64_t, int64_t)>& visit) {
  const int64_t in = d[1] / p.groups, out = d[4] / p.groups;
  for (int64_t n = 0, point = 0; n < d[0]; ++n)
    for (int64_t o = 0; o < d[4]; ++o)
      for (int64_t oy = 0; oy < d[5]; ++oy)
        for (int64_t ox = 0; ox < d[6]; ++ox, ++point)
          for (int64_t c = 0; c < in; ++c)
            for (int64_t ky = 0; ky < d[7]; ++ky)
              for (int64_t kx = 0; kx < d[8]; ++kx) {
                int64_t y = oy * p.stride[0] - p.pad[0] + ky * p.dilation[0];
                int64_t x = ox * p.stride[1] - p.pad[1] + kx * p.dilation[1];
                if (p.up[0] > 1 || p.up[1] > 1) {
                  y = oy + p.pad[0] - ky, x = ox + p.pad[1] - kx;
                  if (y % p.up[0] != 0 || x % p.up[1] != 0) continue;
                  y /= p.up[0], x /= p.up[1];
                }
                if (y < 0 || x < 0 || y >= d[2] || x >= d[3]) continue;
                visit(n * d[9] + (o / out * in + c) * d[10] + y * d[11] + x * d[12],
                      o * d[13] + c * d[14] + ky * d[15] + kx * d[16],
                      n * d[17] + o * d[18] + oy * d[19] + ox * d[20], point);
              }
}

void attention(const problems::AttentionProblem& p, const int64_t* d, const Read& read,
               const Emit& emit) {
  for (int64_t b = 0, point = 0; b < d[0]; ++b)
    for (int64_t h = 0; h < d[1]; ++h)
      for (int64_t i = 0; i < d[3]; ++i, point += d[6]) {
        const int64_t kv = h / (d[1] / d[2]);
        std::vector<double> scores(at(d[4]));
        double top = -HUGE_VAL, total = 0;
        for (int64_t j = 0; j < d[4]; ++j) {
          double s = 0;
          for (int64_t e = 0; e < d[5]; ++e)
            s += read(0, b * d[7] + h * d[8] + i * d[9] + e * d[10]) *
                 read(1, b * d[11] + kv * d[12] + j * d[13] + e * d[14]);
          s *= p.scale ? *p.scale : 1 / std::sqrt(static_cast<double>(d[5]));
          if (p.mask != MaskKind::none) {
            const double m = read(3, b * d[23] + h * d[24] + i * d[25] + j * d[26]);
            if (p.mask == MaskKind::additive) s += m;
            if (p.mask == MaskKind::boolean && m == 0) s = -HUGE_VAL;
          }
          const int64_t end = p.causal == Causal::bottom_right ? i + d[4] - d[3] : i;
          if (p.causal != Causal::none && j > end) s = -HUGE_VAL;
          scores[at(j)] = s;
          top = std::max(top, s);
        }
        for (double& s : scores) total += s = s == -HUGE_VAL ? 0 : std::exp(s - top);
        for (int64_t e = 0; e < d[6]; ++e) {
          double sum = 0;
          for (int64_t j = 0; j < d[4]; ++j)
            sum += scores[at(j)] * read(2, b * d[15] + kv * d[16] + j * d[17] + e * d[18]);
          const bool zero = total == 0 && !(p.nan_if_fully_masked && d[4] > 0);
          emit(point + e, b * d[19] + h * d[20] + i * d[21] + e * d[22], zero ? 0 : sum / total, 0);
        }
      }
}

void sort(const problems::SortProblem& p, const int64_t* d, const Read& read, const Emit& emit) {
  const int rank = p.batch_rank, x = problems::sort_dims::x_strides(rank);
  int64_t rows = 1;
  for (int i = 0; i < rank; ++i) rows *= d[2 + i];
  for (int64_t row = 0; row < rows; ++row) {
    const auto offset = [&](int strides) {
      int64_t rest = row, sum = 0;
      for (int i = rank; i-- > 0; rest /= d[2 + i]) sum += rest % d[2 + i] * d[strides + i];
      return sum;
    };
    std::vector<int64_t> order(at(d[0]));
    for (int64_t i = 0; i < d[0]; ++i) order[at(i)] = i;
    const auto value = [&](int64_t i) { return read(0, offset(x) + i * d[x + rank]); };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double u = value(p.descending ? b : a), v = value(p.descending ? a : b);
      return std::isnan(v) ? !std::isnan(u) : u < v;
    });
    for (int64_t i = 0; i < d[1]; ++i) {
      int result = 0;
      const auto put = [&](double v) {
        const int strides = problems::sort_dims::result_strides(rank, result);
        emit(0, offset(strides) + i * d[strides + rank], v, result);
        ++result;
      };
      if (p.values) put(value(order[at(i)]));
      if (p.indices) put(static_cast<double>(order[at(i)]));
    }
  }
}

void compute(const Problem& problem, const int64_t* d, const Read& read, const Emit& emit,
             int64_t results) {
  if (std::holds_alternative<problems::MatmulProblem>(problem)) return matmul(d, read, emit);
  if (const auto* p = std::get_if<problems::AttentionProblem>(&problem))
    return attention(*p, d, read, emit);
  if (const auto* p = std::get_if<problems::SortProblem>(&problem)) return sort(*p, d, read, emit);
  if (const auto* p = std::get_if<problems::QuantisedMatmulProblem>(&problem))
    return quantised(*p, d, read, emit);
  if (std::holds_alternative<problems::GroupedMatmulProblem>(problem))
    return grouped(d, read, emit);
  if (std::holds_alternative<problems::GroupedWeightGradProblem>(problem))
    return grouped_grad(d, read, emit);
  // Convolutions: sums by the place of the result.
  std::vector<double> sums(at(results));
  std::vector<int64_t> offsets(at(results), -1);
  const auto add = [&](int64_t key, int64_t offset, double value) {
    sums[at(key)] += value;
    offsets[at(key)] = offset;
  };
  if (const auto* p = std::get_if<problems::Conv2dProblem>(&problem))
    for_each_product(*p, d, [&](int64_t x, int64_t w, int64_t y, int64_t point) {
      add(point, y, read(0, x) * read(1, w));
    });
  if (const auto* p = std::get_if<problems::Conv2dWeightGradProblem>(&problem))
    for_each_product(p->conv, d, [&](int64_t x, int64_t w, int64_t y, int64_t) {
      add(w, w, read(0, x) * read(1, y));
    });
  if (const auto* p = std::get_if<problems::Conv2dInputGradProblem>(&problem))
    for_each_product(p->conv, d, [&](int64_t x, int64_t w, int64_t y, int64_t) {
      add(x, x, read(0, y) * read(1, w));
    });
  for (int64_t i = 0; i < results; ++i)
    emit(i, offsets[at(i)] < 0 ? i : offsets[at(i)], sums[at(i)], 0);
}

int operand_count(const Problem& problem) {
  if (const auto* p = std::get_if<problems::AttentionProblem>(&problem))
    return p->mask == MaskKind::none ? 3 : 4;
  if (std::holds_alternative<problems::SortProblem>(problem)) return 1;
  if (const auto* p = std::get_if<problems::QuantisedMatmulProblem>(&problem)) return p->operands();
  return problems::dims_count(problem) == problems::matmul_dims::count + 1 ? 3 : 2;
}

}  // namespace

backend::cuda::AttachedKernels ProblemCase::attached() const {
  backend::cuda::AttachedKernels out;
  out.epilogue = epilogue.get();
  out.extra_buffers = extra_buffers;
  out.epilogue_dims_begin = epilogue_dims_begin;
  for (const Prologue& p : prologues)
    out.prologues.push_back(
        {p.kernel.get(), p.operand, p.first_buffer, p.input_buffers, p.dims_begin});
  return out;
}

std::vector<Dim> ProblemCase::dim_values() const {
  std::vector<Dim> out;
  for (std::size_t i = 0; i < dims.size(); ++i)
    out.push_back(constant_dims || dims[i] <= 1 ? Dim(dims[i]) : Dim::symbol(str("d", i)));
  return out;
}

int64_t ProblemCase::evaluate(Dim dim) const {
  return dim.eval([&](Dim symbol) { return dims[at(std::stoll(symbol.name().substr(1)))]; });
}

std::vector<HostTensor> expected(const ProblemCase& c) {
  std::vector<HostTensor> out = c.buffers;
  const int64_t* d = c.dims.data();
  std::vector<HostTensor> computed(8);
  for (const ProblemCase::Prologue& p : c.prologues) {
    const auto& stored = p.kernel->buffers[at(p.kernel->num_params() - 1)];
    HostTensor& value = computed[at(p.operand)];
    const std::vector<Dim> symbols = p.kernel->symbols();
    const std::span<const int64_t> sizes(d + p.dims_begin, symbols.size());
    const int64_t points = p.kernel->grid_size().eval([&](Dim s) {
      for (std::size_t i = 0; i < symbols.size(); ++i)
        if (symbols[i] == s) return sizes[i];
      fail(ErrorCode::not_found, s);
    });
    value = HostTensor(stored.dtype, {points});
    std::vector<void*> pointers;
    for (int b = 0; b < p.input_buffers; ++b)
      pointers.push_back(out[at(p.first_buffer + b)].data());
    pointers.push_back(value.data());
    interp::eval_kernel(*p.kernel, pointers, sizes);
  }
  const Read read = [&](int operand, int64_t offset) {
    for (const ProblemCase::Prologue& p : c.prologues)
      if (p.operand == operand) return computed[at(operand)].get(offset);
    return c.buffers[at(operand)].get(offset);
  };
  const int operands = operand_count(c.problem);
  if (!c.epilogue) {
    compute(
        c.problem, d, read,
        [&](int64_t, int64_t offset, double value, int result) {
          HostTensor& tensor = out[at(operands + result)];
          if (is_float(tensor.dtype()))
            tensor.set(offset, value);
          else
            tensor.set_int(offset, static_cast<int64_t>(value));
        },
        out[at(operands)].numel());
    return out;
  }
  const std::vector<Dim> symbols = c.epilogue->symbols();
  const std::span<const int64_t> sizes(d + c.epilogue_dims_begin, symbols.size());
  int64_t points = 1;
  for (int64_t size : sizes) points *= size;
  HostTensor sums(c.epilogue->buffers[0].dtype, {points});
  compute(
      c.problem, d, read,
      [&](int64_t point, int64_t, double value, int) { sums.set(point, value); }, points);
  std::vector<void*> pointers = {sums.data()};
  for (int b = 0; b < c.extra_buffers; ++b) pointers.push_back(out[at(operands + b)].data());
  interp::eval_kernel(*c.epilogue, pointers, sizes);
  return out;
}

}  // namespace gex::codegen
