#include "problems/costs.hpp"

#include <algorithm>
#include <initializer_list>

namespace gex::problems {

namespace {

double size(DType dtype) { return static_cast<double>(size_of(dtype)); }

struct TrafficOf {
  std::span<const std::int64_t> dims;
  bool has_epilogue;

  double product(std::initializer_list<int> which) const {
    double out = 1;
    for (const int k : which) out *= static_cast<double>(dims[static_cast<std::size_t>(k)]);
    return out;
  }

  std::optional<Traffic> operator()(const MatmulProblem& p) const {
    namespace d = matmul_dims;
    Traffic traffic;
    const bool shared_b = dims[d::b_strides] == 0 && dims[d::b_strides + 1] == 0;
    const double batch = product({d::batch0, d::batch1});
    if (!contains(p.computed, 0)) traffic.read += batch * product({d::m, d::k}) * size(p.a);
    if (!contains(p.computed, 1))
      traffic.read += (shared_b ? 1 : batch) * product({d::k, d::n}) * size(p.b);
    if (!has_epilogue) traffic.written = batch * product({d::m, d::n}) * size(p.c);
    return traffic;
  }
  std::optional<Traffic> operator()(const Conv2dProblem& p) const {
    namespace d = conv2d_dims;
    Traffic traffic;
    if (!p.x_computed) traffic.read += product({d::n, d::c, d::h, d::w}) * size(p.x);
    traffic.read += product({d::o, d::c, d::kh, d::kw}) * size(p.w) /
                    static_cast<double>(std::max<std::int64_t>(1, p.groups));
    if (!has_epilogue) traffic.written = product({d::n, d::o, d::oh, d::ow}) * size(p.y);
    return traffic;
  }
  std::optional<Traffic> operator()(const AttentionProblem& p) const {
    namespace d = attention_dims;
    Traffic traffic;
    traffic.read = size(p.qkv) * (product({d::batch, d::heads, d::queries, d::head_size}) +
                                  product({d::batch, d::kv_heads, d::keys, d::head_size}) +
                                  product({d::batch, d::kv_heads, d::keys, d::value_size}));
    if (!has_epilogue)
      traffic.written = size(p.out) * product({d::batch, d::heads, d::queries, d::value_size});
    return traffic;
  }
  std::optional<Traffic> operator()(const QuantisedMatmulProblem& p) const {
    namespace d = quantised_dims;
    Traffic traffic;
    traffic.read =
        product({d::m, d::k}) * size(p.a) + product({d::n, d::k}) * static_cast<double>(p.bits) / 8;
    if (p.has_scale && p.group > 0)
      traffic.read += product({d::n, d::k}) / static_cast<double>(p.group) * size(p.scale);
    if (!has_epilogue) traffic.written = product({d::m, d::n}) * size(p.c);
    return traffic;
  }
  template <class Other>
  std::optional<Traffic> operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<Traffic> memory_traffic(const Problem& problem, std::span<const std::int64_t> dims,
                                      bool has_epilogue) {
  return std::visit(TrafficOf{dims, has_epilogue}, problem);
}

std::optional<DType> multiplied_dtype(const Problem& problem) {
  if (const auto* p = std::get_if<MatmulProblem>(&problem)) return p->a;
  if (const auto* p = std::get_if<Conv2dProblem>(&problem)) return p->x;
  if (const auto* p = std::get_if<AttentionProblem>(&problem)) return p->qkv;
  if (const auto* p = std::get_if<QuantisedMatmulProblem>(&problem)) return p->a;
  return std::nullopt;
}

}  // namespace gex::problems
