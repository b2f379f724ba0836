#include "backend/cuda/trial.hpp"

#include <algorithm>
#include <array>

#include "base/dtype.hpp"

namespace gex::backend::cuda {

namespace {

namespace conv_dim = problems::conv2d_dims;

using Four = std::array<std::int64_t, 4>;

class Builder {
 public:
  Builder(problems::Problem problem, std::span<const std::int64_t> dims, bool has_epilogue)
      : has_epilogue_(has_epilogue) {
    const auto count = static_cast<std::size_t>(problems::dims_count(problem));
    trial_.dims.assign(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count));
    trial_.problem = std::move(problem);
  }

  std::int64_t dim(int at) const { return trial_.dims[static_cast<std::size_t>(at)]; }

  void buffer(DType dtype, const Four& sizes, int strides) {
    std::int64_t last = 0;
    for (int d = 0; d < 4; ++d) {
      const std::int64_t size = sizes[static_cast<std::size_t>(d)], stride = dim(strides + d);
      valid_ = valid_ && size > 0 && stride >= 0;
      last += (size - 1) * stride;
    }
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    trial_.buffer_bytes.push_back(valid_ ? (last + 1) * bytes : 0);
  }
  // With an epilogue its strides have no meaning.
  void result(DType dtype, const Four& sizes, int strides) {
    std::int64_t step = 1;
    for (int d = 3; has_epilogue_ && d >= 0; --d) {
      trial_.dims[static_cast<std::size_t>(strides + d)] = step;
      step *= sizes[static_cast<std::size_t>(d)];
    }
    buffer(dtype, sizes, strides);
  }
  std::optional<ProblemTrial> done() && {
    return valid_ ? std::optional(std::move(trial_)) : std::nullopt;
  }

 private:
  const bool has_epilogue_;
  bool valid_ = true;
  ProblemTrial trial_;
};

struct TrialOf {
  std::span<const std::int64_t> dims;
  bool has_epilogue;

  std::optional<ProblemTrial> operator()(problems::MatmulProblem p) const {
    namespace at = problems::matmul_dims;
    if (has_epilogue) p.c = p.a;
    Builder b(p, dims, has_epilogue);
    b.buffer(p.a, {b.dim(at::batch0), b.dim(at::batch1), b.dim(at::m), b.dim(at::k)},
             at::a_strides);
    b.buffer(p.b, {b.dim(at::batch0), b.dim(at::batch1), b.dim(at::k), b.dim(at::n)},
             at::b_strides);
    b.result(p.c, {b.dim(at::batch0), b.dim(at::batch1), b.dim(at::m), b.dim(at::n)},
             at::c_strides);
    return std::move(b).done();
  }
  std::optional<ProblemTrial> operator()(problems::Conv2dProblem p) const {
    if (has_epilogue) p.y = p.x;
    Builder b(p, dims, has_epilogue);
    b.buffer(p.x, image(b), conv_dim::x_strides);
    b.buffer(p.w, weights(b, p), conv_dim::w_strides);
    b.result(p.y, output(b), conv_dim::y_strides);
    return std::move(b).done();
  }
  std::optional<ProblemTrial> operator()(const problems::Conv2dWeightGradProblem& p) const {
    Builder b(p, dims, false);
    b.buffer(p.conv.x, image(b), conv_dim::x_strides);
    b.buffer(p.conv.w, output(b), conv_dim::y_strides);
    b.buffer(p.conv.y, weights(b, p.conv), conv_dim::w_strides);
    return std::move(b).done();
  }
  std::optional<ProblemTrial> operator()(const problems::Conv2dInputGradProblem& p) const {
    Builder b(p, dims, false);
    b.buffer(p.conv.y, output(b), conv_dim::y_strides);
    b.buffer(p.conv.w, weights(b, p.conv), conv_dim::w_strides);
    b.buffer(p.conv.x, image(b), conv_dim::x_strides);
    return std::move(b).done();
  }
  std::optional<ProblemTrial> operator()(problems::AttentionProblem p) const {
    namespace of = problems::attention_dims;
    if (has_epilogue) p.out = p.qkv;
    Builder b(p, dims, has_epilogue);
    const std::int64_t batch = b.dim(of::batch), heads = b.dim(of::heads),
                       kv_heads = b.dim(of::kv_heads), queries = b.dim(of::queries),
                       keys = b.dim(of::keys);
    b.buffer(p.qkv, {batch, heads, queries, b.dim(of::head_size)}, of::q_strides);
    b.buffer(p.qkv, {batch, kv_heads, keys, b.dim(of::head_size)}, of::k_strides);
    b.buffer(p.qkv, {batch, kv_heads, keys, b.dim(of::value_size)}, of::v_strides);
    if (p.mask != problems::MaskKind::none)
      b.buffer(p.mask == problems::MaskKind::boolean ? DType::boolean : p.mask_dtype,
               {batch, heads, queries, keys}, of::mask_strides);
    b.result(p.out, {batch, heads, queries, b.dim(of::value_size)}, of::out_strides);
    return std::move(b).done();
  }
  template <class P>
  std::optional<ProblemTrial> operator()(const P&) const {
    return std::nullopt;
  }

 private:
  static Four image(const Builder& b) {
    return {b.dim(conv_dim::n), b.dim(conv_dim::c), b.dim(conv_dim::h), b.dim(conv_dim::w)};
  }
  static Four weights(const Builder& b, const problems::Conv2dProblem& p) {
    return {b.dim(conv_dim::o), b.dim(conv_dim::c) / p.groups, b.dim(conv_dim::kh),
            b.dim(conv_dim::kw)};
  }
  static Four output(const Builder& b) {
    return {b.dim(conv_dim::n), b.dim(conv_dim::o), b.dim(conv_dim::oh), b.dim(conv_dim::ow)};
  }
};

}  // namespace

std::optional<ProblemTrial> trial_of(const problems::Problem& problem,
                                     std::span<const std::int64_t> dims, bool has_epilogue) {
  return std::visit(TrialOf{dims, has_epilogue}, problem);
}

}  // namespace gex::backend::cuda
