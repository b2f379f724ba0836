#pragma once
// Writes small ONNX models for tests, field by field.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/wire_writer.hpp"

namespace gex::testing_onnx {

using onnx::Message;

// Sizes: "" is an axis of any size, digits a number, else a symbol.
inline Message tensor_info(const std::string& name, int elem,
                           const std::vector<std::string>& sizes) {
  Message shape;
  for (const std::string& size : sizes) {
    Message dim;
    if (!size.empty() && size.find_first_not_of("0123456789") == std::string::npos)
      dim.number(1, std::stoll(size));
    else
      dim.bytes(2, size);
    shape.message(1, dim);
  }
  Message tensor, type, info;
  tensor.number(1, elem).message(2, shape);
  type.message(1, tensor);
  return info.bytes(1, name).message(2, type);
}

inline Message node(const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs,
                    const std::vector<Message>& attributes = {}, const std::string& name = "",
                    const std::string& domain = "") {
  Message n;
  for (const auto& i : inputs) n.bytes(1, i);
  for (const auto& o : outputs) n.bytes(2, o);
  n.bytes(3, name).bytes(4, op);
  for (const auto& a : attributes) n.message(5, a);
  return n.bytes(7, domain);
}

inline Message int_attribute(const std::string& name, std::int64_t value) {
  Message a;
  return a.bytes(1, name).number(3, value).number(20, 2);
}

inline Message tensor(const std::string& name, int elem, const std::vector<std::int64_t>& dims,
                      const std::string& raw) {
  Message t;
  for (const auto d : dims) t.number(1, d);
  return t.number(2, elem).bytes(8, name).bytes(9, raw);
}

inline Message external_tensor(const std::string& name, int elem,
                               const std::vector<std::int64_t>& dims,
                               const std::vector<std::pair<std::string, std::string>>& entries) {
  Message t;
  for (const auto d : dims) t.number(1, d);
  t.number(2, elem).bytes(8, name).number(14, 1);
  for (const auto& [key, value] : entries) {
    Message entry;
    t.message(13, entry.bytes(1, key).bytes(2, value));
  }
  return t;
}

struct GraphParts {
  std::vector<Message> nodes, initialisers, inputs, outputs;
};

inline std::string model(const GraphParts& parts, std::int64_t opset = 18) {
  Message graph, opset_import, m;
  for (const auto& n : parts.nodes) graph.message(1, n);
  graph.bytes(2, "g");
  for (const auto& t : parts.initialisers) graph.message(5, t);
  for (const auto& i : parts.inputs) graph.message(11, i);
  for (const auto& o : parts.outputs) graph.message(12, o);
  opset_import.bytes(1, "").number(2, opset);
  return m.number(1, 10).message(7, graph).message(8, opset_import).text();
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace gex::testing_onnx
