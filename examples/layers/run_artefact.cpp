// run_artefact MODEL.gexe N: runs a model file with every input 0, 1, 2, ..., where N is the value
// of each symbolic size, and prints the first element of each output. The machine code in the file
// runs: only for files whose origin is known.

#include <cstdlib>
#include <iostream>

#include "base/error.hpp"
#include "compile/execute.hpp"
#include "deploy/model.hpp"

namespace {

gex::HostTensor counting(const gex::deploy::TensorInfo& input, std::int64_t open) {
  std::vector<std::int64_t> shape;
  for (const gex::Dim size : input.shape)
    shape.push_back(size.eval([open](gex::Dim) { return open; }));
  gex::HostTensor tensor(input.dtype, std::move(shape));
  for (std::int64_t k = 0; k < tensor.numel(); ++k) tensor.set(k, static_cast<double>(k));
  return tensor;
}

int run(const std::string& path, std::int64_t open) {
  gex::deploy::LoadOptions trusted;
  trusted.trust = true;
  const auto model = gex::deploy::load_model(path, trusted);
  gex::runtime::SessionOptions options;
  options.frozen = model->frozen;
  options.gears = model->gears;
  gex::runtime::Session session(model->executable, options, model->specialiser);
  std::vector<gex::HostTensor> inputs;
  for (const gex::deploy::TensorInfo& input : model->inputs)
    inputs.push_back(counting(input, open));
  const std::vector<gex::HostTensor> outputs = gex::execute(session, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    std::cout << model->outputs[k].name << " " << outputs[k].get(0) << "\n";
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::cerr << "usage: run_artefact MODEL.gexe N\n";
    return 2;
  }
  try {
    return run(words[1], std::atoll(words[2]));
  } catch (const gex::UserError& error) {
    std::cerr << "run_artefact: " << error.what() << "\n";
    return 1;
  }
}
