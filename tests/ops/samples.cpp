#include "samples.hpp"

#include "ops/call.hpp"

namespace gex::test {
namespace {

using namespace ops;
using Kind = Sample::Input::Kind;
using Values = const std::vector<Value*>&;

std::vector<Value*> outputs(Node* node) {
  std::vector<Value*> values;
  for (std::size_t k = 0; k < node->num_outputs(); ++k) values.push_back(node->output(k));
  return values;
}

// The op by name with attributes by name, on all inputs.
Builder plain(std::string name, std::vector<std::pair<std::string, AttrValue>> attrs = {}) {
  return [=](Graph& g, Values v) { return outputs(g.add(name, v, attrs)); };
}

// Iterations that change nothing: start, limit and delta may be anything.
std::vector<Value*> counted_loop(Graph& g, Values v) {
  auto body = std::make_unique<Graph>("body");
  body->add_input(v[0]->type());
  Value* x = body->add_input(v[3]->type());
  body->set_outputs({apply(*body, "maximum", {x, x})});
  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(body));
  return outputs(g.add("for", v, {{"carried", std::int64_t{1}}}, std::move(subgraphs)));
}

Sample::Input data(Shape shape) { return {std::move(shape)}; }
Sample::Input indices(Shape shape) { return {std::move(shape), Kind::index}; }

// Convolutions over other axes, pools and the gradients of both.
template <class Put>
void put_windows(const Put& put) {
  const Dim s = kSize;
  put("conv_transpose2d",
      {data({Dim(2), Dim(6), s + 1, Dim(3)}), data({Dim(6), Dim(2), Dim(3), Dim(3)})},
      {{"stride", Ints{2, 1}},
       {"padding", Ints{1, 0}},
       {"groups", std::int64_t{2}},
       {"size", Dims{s * 2 + 2, Dim(5)}}});
  put("conv2d_input_grad",
      {data({Dim(2), Dim(6), s + 1, Dim(3)}), data({Dim(6), Dim(2), Dim(3), Dim(3)})},
      {{"stride", Ints{2, 2}},
       {"padding", Ints{1, 0}},
       {"groups", std::int64_t{2}},
       {"size", Dims{s * 2 + 2, Dim(7)}}});
  put("conv2d_weight_grad",
      {data({Dim(2), Dim(4), s * 2 + 1, Dim(5)}), data({Dim(2), Dim(6), s, Dim(3)})},
      {{"stride", Ints{2, 1}}, {"groups", std::int64_t{2}}, {"kernel", Dims{Dim(3), Dim(3)}}});
  const Ints steps{2, 1, 2}, around{1, 0, 1}, dense{1, 1, 1};
  put("conv3d",
      {data({Dim(1), Dim(4), s + 3, Dim(4), Dim(5)}),
       data({Dim(2), Dim(2), Dim(3), Dim(2), Dim(3)})},
      {{"stride", steps}, {"padding", around}, {"dilation", dense}, {"groups", std::int64_t{2}}});
  put("conv_transpose3d",
      {data({Dim(1), Dim(2), s + 1, Dim(3), Dim(2)}),
       data({Dim(2), Dim(2), Dim(3), Dim(2), Dim(3)})},
      {{"stride", steps},
       {"padding", around},
       {"dilation", dense},
       {"groups", std::int64_t{2}},
       {"size", Dims{s * 2 + 1, Dim(4), Dim(3)}}});
  for (const std::int64_t axes : {2, 3}) {
    Shape image{Dim(2), s + 3}, windows{Dim(2), s + 1};
    image.resize(static_cast<std::size_t>(axes) + 1, Dim(6));
    windows.resize(static_cast<std::size_t>(axes) + 1, Dim(3));
    const auto ints = [&](std::int64_t value) {
      return Ints(static_cast<std::size_t>(axes), value);
    };
    const Dims in(image.begin() + 1, image.end()), out(windows.begin() + 1, windows.end());
    const auto named = [&](const char* kind, const char* rest) {
      return str(kind, axes, "d", rest);
    };
    const std::vector<std::pair<std::string, AttrValue>> form{
        {"kernel", ints(3)}, {"stride", ints(2)}, {"padding", ints(1)}, {"dilation", ints(1)}};
    auto sized = form;
    sized.push_back({"size", in});
    for (const char* rest : {"", "_values", "_indices"}) {
      put(named("max_pool", rest), {data(image)}, form);
      put(named("adaptive_max_pool", rest), {data(image)}, {{"size", out}});
    }
    put(named("avg_pool", ""), {data(image)}, form);
    put(named("adaptive_avg_pool", ""), {data(image)}, {{"size", out}});
    put(named("max_pool", "_grad"), {data(windows), indices(windows)}, sized);
    put(named("avg_pool", "_grad"), {data(windows)}, sized);
    put(named("adaptive_max_pool", "_grad"), {data(windows), indices(windows)}, {{"size", in}});
    put(named("adaptive_avg_pool", "_grad"), {data(windows)}, {{"size", in}});
  }
}

std::map<std::string, Sample> make_samples() {
  const Dim s = kSize;
  const AttrValue axis1 = std::int64_t{1};
  const AttrValue axes1 = Ints{1};
  std::map<std::string, Sample> samples;
  auto put = [&](const std::string& name, std::vector<Sample::Input> inputs,
                 std::vector<std::pair<std::string, AttrValue>> attrs = {}) {
    samples[name] = {std::move(inputs), plain(name, std::move(attrs))};
  };
  const Shape matrix{s, Dim(6)};
  for (const char* name : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean",
                           "reduce_any", "reduce_all", "argmax", "argmin", "variance"}) {
    put(name, {data(matrix)}, {{"axes", axes1}});
  }
  for (const char* name :
       {"softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummax_values",
        "cummax_indices", "cummin", "cummin_values", "cummin_indices"}) {
    put(name, {data(matrix)}, {{"axis", axis1}});
  }
  put("cast", {data(matrix)}, {{"dtype", DType::f64}});
  put("kept", {data(matrix), data({s})}, {{"what", std::string("aten.copy.default")}});
  put("reshape", {data(matrix)}, {{"shape", Dims{Dim(2), s, Dim(3)}}});
  put("transpose", {data(matrix)}, {{"perm", Ints{1, 0}}});
  put("slice", {data(matrix)},
      {{"starts", Dims{Dim(0), Dim(1)}}, {"steps", Ints{1, 2}}, {"sizes", Dims{s, Dim(3)}}});
  put("expand", {data({Dim(1), Dim(6)})}, {{"shape", Dims{s, Dim(6)}}});
  put("flip", {data(matrix)}, {{"axes", axes1}});
  put("windows", {data({s + 4, Dim(3)})}, {{"size", std::int64_t{3}}, {"step", std::int64_t{2}}});
  put("cat", {data(matrix), data({s, s})}, {{"axis", axis1}});
  put("pad", {data(matrix)}, {{"low", Dims{Dim(0), Dim(2)}}, {"high", Dims{s, Dim(-1)}}});
  put("triangle", {data(matrix)}, {{"upper", true}});
  put("full", {}, {{"value", 3.0}, {"shape", Dims{s, Dim(2)}}});
  put("iota", {}, {{"size", s}});
  put("dim", {}, {{"size", s * 2}});
  put("index", {data({s, Dim(4), Dim(3)}), indices({Dim(2)}), indices({Dim(5), Dim(1)})},
      {{"axes", Ints{1, 2}}});
  put("index_put",
      {data({s, Dim(4), Dim(3)}), data({Dim(2), Dim(3)}), indices({Dim(2)}), indices({Dim(2)})},
      {{"axes", Ints{0, 1}}});
  put("take_along", {data(matrix), indices({s, Dim(2)})}, {{"axis", axis1}});
  put("scatter", {data(matrix), indices({s, Dim(2)}), data({s, Dim(2)})},
      {{"axis", axis1}, {"mode", std::string("add")}});
  put("slice_update", {data(matrix), data({s, Dim(2)})},
      {{"starts", Dims{Dim(0), Dim(1)}}, {"steps", Ints{1, 3}}});
  put("matmul", {data({Dim(2), s, Dim(5)}), data({Dim(5), Dim(3)})});
  put("conv2d", {data({Dim(2), Dim(4), s + 3, Dim(5)}), data({Dim(6), Dim(2), Dim(3), Dim(3)})},
      {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}, {"groups", std::int64_t{2}}});
  // Ends ascend: 1, 2, 3 and what the input adds.
  auto with_ends = [](const char* name) {
    return [name](Graph& g, Values v) {
      Value* ends = cumsum(g, add(g, v[2], scalar_int(g, DType::i64, 1)), 0);
      return outputs(g.add(name, {v[0], v[1], ends}));
    };
  };
  samples["grouped_matmul"] = {
      {data({s + 3, Dim(4)}), data({Dim(3), Dim(4), Dim(5)}), indices({Dim(3)})},
      with_ends("grouped_matmul")};
  samples["grouped_weight_grad"] = {
      {data({s + 3, Dim(4)}), data({s + 3, Dim(5)}), indices({Dim(3)})},
      with_ends("grouped_weight_grad")};
  put("attention",
      {data({Dim(1), Dim(4), s, Dim(8)}),
       data({Dim(1), Dim(2), s + 2, Dim(8)}),
       data({Dim(1), Dim(2), s + 2, Dim(4)}),
       {{s, s + 2}, Kind::flag}},
      {{"scale", 0.3}});
  put("layer_norm", {data(matrix), data({Dim(6)}), data({Dim(6)})});
  put("rms_norm", {data(matrix), data({Dim(6)})});
  put("batch_norm",
      {data({s, Dim(3), Dim(2)}), data({Dim(3)}), data({Dim(3)}), data({Dim(3)}), data({Dim(3)})});
  for (const char* name : {"pad_reflect", "pad_replicate", "pad_circular"}) {
    put(name, {data({s + 2, Dim(6)})}, {{"low", Dims{Dim(1), Dim(2)}}, {"high", Dims{s, Dim(-1)}}});
  }
  // Scales have a dtype of their own.
  for (const char* name : {"quantise", "dequantise"}) {
    samples[name] = {
        {data(matrix), indices({Dim(6)}), indices({Dim(6)})}, [name](Graph& g, Values v) {
          Value* scale = add(g, cast(g, abs(g, v[1]), DType::f32), 1);
          return outputs(g.add(name, {v[0], scale, v[2]}, {{"axis", std::int64_t{1}}}));
        }};
  }
  put_windows(put);
  put("sort", {data(matrix)}, {{"axis", axis1}, {"descending", true}});
  put("topk", {data(matrix)}, {{"axis", axis1}, {"k", Dim(4)}, {"largest", false}});
  put("interpolate", {data({Dim(2), s + 2, Dim(3)})},
      {{"mode", std::string("linear")}, {"size", Dims{s * 2, Dim(5)}}});
  put("random_uniform", {{{}, Kind::key}}, {{"shape", Dims{s, Dim(5)}}});
  put("random_normal", {{{}, Kind::key}}, {{"shape", Dims{s, Dim(5)}}});
  put("bernoulli", {data(matrix), {{}, Kind::key}}, {{"stream", std::int64_t{3}}});
  put("dropout", {data(matrix), {{}, Kind::key}}, {{"p", 0.3}});
  samples["for"] = {{{{}, Kind::key}, {{}, Kind::key}, {{}, Kind::key}, data(matrix)},
                    counted_loop};
  samples["where"] = {{{{s, Dim(1)}, Kind::flag}, data({Dim(6)}), data({})}, plain("where")};
  return samples;
}

// Elementwise ops need no sample of their own: every input [s, 6], the second broadcast.
Sample elementwise_sample(const OpDef& op) {
  Sample sample;
  for (std::size_t k = 0; k < op.inputs.size(); ++k) {
    sample.inputs.push_back(data(k == 1 ? Shape{Dim(6)} : Shape{kSize, Dim(6)}));
  }
  sample.build = plain(op.name);
  return sample;
}

}  // namespace

const Sample* sample_of(const OpDef& op) {
  static std::map<std::string, Sample> samples = make_samples();
  auto it = samples.find(op.name);
  if (it != samples.end()) return &it->second;
  if (!op.has(Trait::elementwise)) return nullptr;
  return &samples.emplace(op.name, elementwise_sample(op)).first->second;
}

}  // namespace gex::test
