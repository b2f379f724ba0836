#include "loop/view_index.hpp"

#include "loop/body.hpp"

namespace gex::loop {
namespace {

// Records which operands a map body requests.
class RecordingContext : public BodyContext {
 public:
  using BodyContext::BodyContext;

  Scalar in(int k, Indices index) override {
    ++requests;
    operand = k;
    operand_index.assign(index.begin(), index.end());
    result = s.load(0, in_type(k).dtype, operand_index);
    return result;
  }
  Scalar in(int k, Indices index, Scalar pred, Scalar fill) override {
    if (s.is_true(pred)) return in(k, index);
    requests = 2;  // predicated: not a pure index map
    return fill;
  }

  int requests = 0;
  int operand = -1;
  std::vector<Dim> operand_index;
  Scalar result;
};

}  // namespace

std::optional<std::vector<Dim>> view_operand_index(const Node& node, std::span<const Dim> index) {
  if (!node.op().has(Trait::view) || !node.op().body || !node.op().body->map) return std::nullopt;
  std::vector<Expr> exprs;
  ScalarBuilder builder(exprs);
  RecordingContext context(builder, node);
  Scalar value = node.op().body->map(context, 0, index);
  if (context.requests != 1 || context.operand != 0 || value.id != context.result.id)
    return std::nullopt;
  return context.operand_index;
}

}  // namespace gex::loop
