#include "samples.hpp"

#include <map>
#include <string>
#include <utility>

namespace gex::test {
namespace {

using ops::data;

// Elementwise ops share one sample: every input is [s, 6], the second is broadcast.
OpSample elementwise_sample(const OpDef& op) {
  OpSample sample;
  for (std::size_t k = 0; k < op.inputs.size(); ++k)
    sample.inputs.push_back(data(k == 1 ? Shape{Dim(6)} : Shape{kSize, Dim(6)}));
  return sample;
}

Sample as_graph(const OpDef& op, OpSample sample) {
  if (sample.build) return {std::move(sample.inputs), std::move(sample.build)};
  const auto apply = [name = op.name, attrs = std::move(sample.attrs)](
                         Graph& g, const std::vector<Value*>& inputs) {
    const Node* node = g.add(name, inputs, attrs);
    std::vector<Value*> results;
    for (std::size_t k = 0; k < node->num_outputs(); ++k) results.push_back(node->output(k));
    return results;
  };
  return {std::move(sample.inputs), apply};
}

}  // namespace

const Sample* sample_of(const OpDef& op) {
  static std::map<std::string, Sample> samples;
  if (const auto found = samples.find(op.name); found != samples.end()) return &found->second;
  if (!op.sample && !op.has(Trait::elementwise)) return nullptr;
  const OpSample sample = op.sample ? op.sample() : elementwise_sample(op);
  return &samples.emplace(op.name, as_graph(op, sample)).first->second;
}

}  // namespace gex::test
