#pragma once
// Small graphs for tests: build with a lambda, run in the interpreter.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <vector>

#include "interp/interp.hpp"
#include "ops/core/build.hpp"
#include "ops/rows/aten.hpp"

namespace gex::test {

using Tensors = std::vector<HostTensor>;
using Builder = std::function<std::vector<Value*>(Graph&, const std::vector<Value*>&)>;

inline HostTensor tensor(DType dtype, std::vector<std::int64_t> shape, std::vector<double> values) {
  HostTensor t(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<std::int64_t>(i), values[i]);
  return t;
}

inline HostTensor f32(std::vector<std::int64_t> shape, std::vector<double> values) {
  return tensor(DType::f32, std::move(shape), std::move(values));
}

inline HostTensor i64(std::vector<std::int64_t> shape, std::vector<double> values) {
  return tensor(DType::i64, std::move(shape), std::move(values));
}

inline HostTensor random_tensor(DType dtype, std::vector<std::int64_t> shape, double low,
                                double high, unsigned seed = 1) {
  HostTensor t(dtype, std::move(shape));
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double x = draw(engine);
    if (dtype == DType::boolean) {
      t.set(i, x > (low + high) / 2 ? 1 : 0);
    } else {
      t.set(i, is_int(dtype) ? std::floor(x + 0.5) : x);
    }
  }
  return t;
}

inline std::vector<double> values(const HostTensor& t) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < t.numel(); ++i) v.push_back(t.get(i));
  return v;
}

inline Type type_of(const HostTensor& t) {
  return Type::tensor(t.dtype(), Shape(t.shape().begin(), t.shape().end()));
}

inline Tensors run(const Builder& build, const Tensors& inputs) {
  Graph g;
  std::vector<Value*> values;
  for (const HostTensor& t : inputs) values.push_back(g.add_input(type_of(t)));
  g.set_outputs(build(g, values));
  verify(g);
  return interp::interpret(g, inputs);
}

inline HostTensor run_one(const std::function<Value*(Graph&, const std::vector<Value*>&)>& build,
                          const Tensors& inputs) {
  return run([&](Graph& g, const std::vector<Value*>& v) { return std::vector{build(g, v)}; },
             inputs)[0];
}

// Arguments of an ATen call: tensors, bools, ints, floats, strings, dtypes, lists; nullptr is None.
using ArgList = std::vector<AtenArg>;

inline AtenArg arg(std::nullptr_t) { return {}; }
template <class T>
AtenArg arg(T value) {
  AtenArg a;
  if constexpr (std::is_same_v<T, int> || std::is_same_v<T, std::int64_t>) {
    a.v = Dim(value);
  } else if constexpr (std::is_same_v<T, const char*>) {
    a.v = std::string(value);
  } else {
    a.v = value;
  }
  return a;
}
template <class... T>
ArgList args(T... values) {
  ArgList list;
  (list.push_back(arg(values)), ...);
  return list;
}

// An ATen call whose tensor arguments are the graph's inputs, in order of appearance in `args`.
inline Tensors run_aten(const std::string& overload,
                        const std::function<ArgList(const std::vector<Value*>&)>& arguments,
                        std::vector<Type> results, const Tensors& inputs) {
  const AtenRow* row = find_aten_row(overload);
  if (row == nullptr) return {};
  return run(
      [&](Graph& g, const std::vector<Value*>& v) {
        AtenCall call(g, overload, arguments(v), results);
        return row->import(call);
      },
      inputs);
}

}  // namespace gex::test
