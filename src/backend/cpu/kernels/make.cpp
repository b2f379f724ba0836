#include "backend/cpu/kernels/make.hpp"

#include "backend/cpu/kernels/attention.hpp"
#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/grouped_matmul.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/quantised_matmul.hpp"
#include "backend/cpu/kernels/sort.hpp"
#include "base/error.hpp"

namespace gex::kernels {

namespace {

struct Maker {
  const Attached& attached;
  const TuningCandidate& candidate;

  program::Callable operator()(const MatmulProblem& p) const {
    return make_matmul(p, attached, candidate.variant, candidate.form);
  }
  program::Callable operator()(const Conv2dProblem& p) const {
    return make_conv2d(p, attached, candidate.variant, candidate.form);
  }
  program::Callable operator()(const problems::Conv2dWeightGradProblem& p) const {
    return make_conv2d_weight_grad(p.conv);
  }
  program::Callable operator()(const problems::Conv2dInputGradProblem& p) const {
    return make_conv2d_input_grad(p.conv);
  }
  program::Callable operator()(const AttentionProblem& p) const {
    return make_attention(p, attached);
  }
  program::Callable operator()(const SortProblem& p) const { return make_sort(p); }
  program::Callable operator()(const GroupedMatmulProblem& p) const {
    return make_grouped_matmul(p);
  }
  program::Callable operator()(const problems::GroupedWeightGradProblem& p) const {
    return make_grouped_weight_grad(p.grouped);
  }
  program::Callable operator()(const problems::QuantisedMatmulProblem& p) const {
    return make_quantised_matmul(p, attached);
  }
};

}  // namespace

program::Callable make(const Problem& problem, const Attached& attached,
                       const TuningCandidate& candidate) {
  const bool tunable = std::holds_alternative<MatmulProblem>(problem) ||
                       std::holds_alternative<Conv2dProblem>(problem);
  GEX_CHECK(tunable || candidate == TuningCandidate{}, "tuning candidates of ",
            problems::print(problem));
  GEX_CHECK(problems::takes_attached_kernels(problem) ||
                (!attached.epilogue && attached.prologues.empty()),
            problems::print(problem), " takes no attached kernels");
  return std::visit(Maker{attached, candidate}, problem);
}

}  // namespace gex::kernels
