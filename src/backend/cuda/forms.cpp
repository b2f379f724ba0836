#include "backend/cuda/forms.hpp"

#include <algorithm>

#include "backend/cuda/kernel_text.hpp"
#include "base/error.hpp"

namespace gex::backend::cuda {

namespace {

constexpr std::size_t kMostForms = 8;
// How far off the cost model is assumed to be at most.
constexpr double kMostLoss = 2;

struct FormsOf {
  std::span<const Dim> dims;
  const DeviceLimits& limits;

  std::vector<Form> operator()(const problems::MatmulProblem& p) const {
    return matmul_forms(p, dims, limits);
  }
  std::vector<Form> operator()(const problems::AttentionProblem& p) const {
    return attention_forms(p, dims, limits);
  }
  template <class P>
  std::vector<Form> operator()(const P& p) const {
    if constexpr (requires { conv2d_forms(p, dims, limits); })
      return conv2d_forms(p, dims, limits);
    else
      return {};
  }
};

}  // namespace

std::string name_of(const Form& form) {
  if (form.slice > 0) return str("slices of ", form.slice);
  const std::string blocks = form.split > 1 ? str(" by ", form.split, " blocks") : "";
  if (form.cols == 0) return form.split > 1 ? blocks.substr(1) : "by one block";
  if (form.rows == 0) return str("rows by ", form.cols, " columns");
  return str(form.rows, "x", form.cols, blocks);
}

std::vector<Form> worth_trying(const Form& rule, std::vector<Form> others) {
  std::erase_if(others, [&](const Form& form) {
    return form.same_as(rule) || form.microseconds > kMostLoss * rule.microseconds;
  });
  std::ranges::stable_sort(others, {}, &Form::microseconds);
  if (others.size() >= kMostForms) others.resize(kMostForms - 1);
  others.insert(others.begin(), rule);
  return others;
}

std::vector<Form> forms_of(const problems::Problem& problem, std::span<const Dim> dims,
                           const DeviceLimits& limits) {
  return std::visit(FormsOf{dims, limits}, problem);
}

}  // namespace gex::backend::cuda
