// ONNX models for Python: tensors are passed as memory with an ONNX element type and sizes, so that
// types without a NumPy dtype (float8, int4) are unchanged.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "compile/execute.hpp"
#include "frontend/onnx/operators.hpp"
#include "frontend/onnx/session.hpp"
#include "frontend/onnx/strings.hpp"
#include "frontend/python/bindings.hpp"

namespace gex::python {
namespace {

using onnx::Elem;
using onnx::HostValue;
using onnx::Item;

// The memory of a Python buffer, kept alive with the value.
std::shared_ptr<const void> borrowed(nb::handle object, std::size_t bytes) {
  struct Buffer {
    Py_buffer view{};
    ~Buffer() {
      const nb::gil_scoped_acquire gil;
      PyBuffer_Release(&view);
    }
  };
  auto buffer = std::make_shared<Buffer>();
  if (PyObject_GetBuffer(object.ptr(), &buffer->view, PyBUF_C_CONTIGUOUS) != 0)
    throw nb::python_error();
  if (static_cast<std::size_t>(buffer->view.len) != bytes)
    fail(ErrorCode::invalid_argument, "a tensor of ", bytes, " bytes was given ", buffer->view.len);
  return {buffer, buffer->view.buf};
}

// None | (elem, shape, buffer or list of strings) | [items] for sequences | {"optional": item}
HostValue to_value(nb::handle object) {
  HostValue value;
  if (object.is_none()) return value;
  if (nb::isinstance<nb::list>(object)) {
    value.kind = Item::Kind::sequence;
    for (nb::handle item : nb::cast<nb::list>(object)) value.items.push_back(to_value(item));
    if (!value.items.empty()) value.elem = value.items[0].elem;
    return value;
  }
  if (nb::isinstance<nb::dict>(object)) {
    value.kind = Item::Kind::optional;
    const HostValue inner = to_value(nb::cast<nb::dict>(object)["optional"]);
    if (inner.kind != Item::Kind::none) value.items.push_back(inner);
    return value;
  }
  const auto parts = nb::cast<nb::tuple>(object);
  value.kind = Item::Kind::tensor;
  value.elem = static_cast<Elem>(nb::cast<int>(parts[0]));
  value.shape = nb::cast<std::vector<std::int64_t>>(parts[1]);
  if (value.elem == Elem::string) {
    HostTensor numbers(DType::i64, value.shape);
    std::int64_t k = 0;
    for (nb::handle text : nb::cast<nb::list>(parts[2])) {
      const auto bytes = nb::cast<nb::bytes>(text);
      numbers.set_int(k++, onnx::string_number({bytes.c_str(), bytes.size()}));
    }
    return HostValue::tensor(Elem::string, std::move(numbers));
  }
  std::size_t bytes = size_of(onnx::memory_type_of(value.elem));
  for (const std::int64_t d : value.shape) bytes *= static_cast<std::size_t>(d);
  value.data = borrowed(parts[2], bytes);
  return value;
}

nb::object from_value(const HostValue& value) {
  if (value.kind == Item::Kind::none) return nb::none();
  if (value.kind == Item::Kind::sequence) {
    nb::list items;
    for (const HostValue& item : value.items) items.append(from_value(item));
    return items;
  }
  if (value.kind == Item::Kind::optional)
    return value.items.empty() ? nb::none() : from_value(value.items[0]);
  std::int64_t count = 1;
  nb::list shape;
  for (const std::int64_t d : value.shape) {
    shape.append(d);
    count *= d;
  }
  nb::object contents;
  if (value.elem == Elem::string) {
    nb::list texts;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::string& text =
          onnx::string_of(static_cast<const std::int64_t*>(value.data.get())[k]);
      texts.append(nb::bytes(text.data(), text.size()));
    }
    contents = texts;
  } else {
    const std::size_t bytes =
        static_cast<std::size_t>(count) * size_of(onnx::memory_type_of(value.elem));
    // Writable, so that NumPy can use it directly.
    contents = nb::steal(PyByteArray_FromStringAndSize(static_cast<const char*>(value.data.get()),
                                                       static_cast<Py_ssize_t>(bytes)));
  }
  return nb::make_tuple(static_cast<int>(value.elem), shape, contents);
}

nb::object described(const onnx::TypeProto& type) {
  nb::dict d;
  static const char* kinds[] = {"none", "tensor", "sequence", "optional", "map", "sparse"};
  d["kind"] = kinds[static_cast<int>(type.kind)];
  d["elem"] = static_cast<int>(type.elem);
  if (type.shape) {
    nb::list sizes;
    for (const auto& size : *type.shape) {
      if (size.value)
        sizes.append(*size.value);
      else
        sizes.append(size.symbol);
    }
    d["shape"] = sizes;
  }
  if (type.inner) d["inner"] = described(*type.inner);
  return d;
}

nb::list ports(const std::vector<const onnx::ValueInfo*>& infos) {
  nb::list list;
  for (const auto* info : infos) list.append(nb::make_tuple(info->name, described(info->type)));
  return list;
}

std::unique_ptr<onnx::Session> make_session(std::shared_ptr<const onnx::ModelProto> model,
                                            bool static_shapes, int level, bool generate_code,
                                            const std::string& target) {
  onnx::SessionSettings settings;
  settings.static_shapes = static_shapes;
  settings.compile.level = level;
  settings.compile.generate_code = generate_code;
  settings.compile.target = target;
  return std::make_unique<onnx::Session>(std::move(model), std::move(settings));
}

bool can_open_target(const std::string& target) {
  try {
    return open_target(target) != nullptr;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

void bind_onnx(nb::module_& m) {
  nb::class_<onnx::Session>(m, "OnnxSession", "An ONNX model, compiled on demand.")
      .def_static(
          "load",
          [](const std::string& path, bool static_shapes, int level, bool generate_code,
             const std::string& target) {
            return make_session(onnx::read_model(path), static_shapes, level, generate_code,
                                target);
          },
          nb::arg("path"), nb::arg("static_shapes") = false, nb::arg("level") = 2,
          nb::arg("generate_code") = true, nb::arg("target") = "cpu")
      .def_static(
          "parse",
          [](const nb::bytes& bytes, bool static_shapes, int level, bool generate_code,
             const std::string& target) {
            return make_session(onnx::parse_model(onnx::own_bytes({bytes.c_str(), bytes.size()})),
                                static_shapes, level, generate_code, target);
          },
          nb::arg("bytes"), nb::arg("static_shapes") = false, nb::arg("level") = 2,
          nb::arg("generate_code") = true, nb::arg("target") = "cpu")
      .def_prop_ro("inputs", [](const onnx::Session& s) { return ports(s.inputs()); })
      .def_prop_ro("outputs",
                   [](const onnx::Session& s) {
                     std::vector<const onnx::ValueInfo*> infos;
                     for (const auto& info : s.model().graph.outputs) infos.push_back(&info);
                     return ports(infos);
                   })
      .def_prop_ro("statistics",
                   [](const onnx::Session& s) {
                     const auto n = s.statistics();
                     nb::dict d;
                     d["imports"] = n.imports;
                     d["programs"] = n.programs;
                     d["probes"] = n.probes;
                     return d;
                   })
      .def("run", [](onnx::Session& s, const nb::list& inputs) {
        std::vector<HostValue> values, results;
        for (nb::handle input : inputs) values.push_back(to_value(input));
        {
          const nb::gil_scoped_release released;
          results = s.run(values);
        }
        nb::list outputs;
        for (const HostValue& result : results) outputs.append(from_value(result));
        return outputs;
      });
  m.def("can_open_target", &can_open_target, nb::arg("target"),
        "Whether the device of a target (\"cpu\", \"cuda:N\") is there.");
  m.def("onnx_operators", &onnx::known_operators, "Domain and name of each supported operator.");
  m.def("import_onnx",
        [](const std::string& path) { return onnx::import_graph(onnx::read_model(path)); });
}

}  // namespace gex::python
