#include "frontend/python/tensor_reader.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "frontend/python/torch_api.hpp"

namespace gex::python {

namespace {

struct CloseLibrary {
  void* library;
  ~CloseLibrary() { dlclose(library); }
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// The offset of the word `address` in the object; -1 unless it occurs exactly once.
std::ptrdiff_t place_of(PyObject* object, std::uintptr_t address) {
  std::ptrdiff_t found = -1;
  const auto* bytes = reinterpret_cast<const std::byte*>(object);
  const std::ptrdiff_t end = Py_TYPE(object)->tp_basicsize;
  for (std::ptrdiff_t at = sizeof(PyObject); at + 8 <= end; at += 8) {
    std::uintptr_t word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    if (word != address) continue;
    if (found >= 0) return -1;
    found = at;
  }
  return found;
}

// The offset that two new tensors have in common; -1 if there is none.
std::ptrdiff_t find_offset() {
  nb::object torch = owned(PyImport_ImportModule("torch"));
  std::ptrdiff_t offset = -1;
  for (int i = 0; i < 2; ++i) {
    nb::object tensor = owned(PyObject_CallMethod(torch.ptr(), "empty", "i", 1 + i));
    nb::object address = owned(PyObject_GetAttrString(tensor.ptr(), "_cdata"));
    const auto value = static_cast<std::uintptr_t>(PyLong_AsUnsignedLongLong(address.ptr()));
    if (PyErr_Occurred()) throw nb::python_error();
    const std::ptrdiff_t here = place_of(tensor.ptr(), value);
    if (here < 0 || (i > 0 && here != offset)) return -1;
    offset = here;
  }
  return offset;
}

}  // namespace

TensorReader::TensorReader() {
  std::ranges::fill(dtypes_, std::int8_t{-1});
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  const CloseLibrary close{library};  // PyTorch keeps it loaded
  if (!find(library, "aoti_torch_get_data_ptr", data_) ||
      !find(library, "aoti_torch_get_dim", rank_) ||
      !find(library, "aoti_torch_get_sizes", shape_) ||
      !find(library, "aoti_torch_get_strides", strides_) ||
      !find(library, "aoti_torch_get_dtype", type_) ||
      !find(library, "aoti_torch_get_device_type", device_type_) ||
      !find(library, "aoti_torch_get_device_index", device_index_))
    return;
  std::int32_t (*cpu)() = nullptr;
  std::int32_t (*cuda)() = nullptr;
  if (!find(library, "aoti_torch_device_type_cpu", cpu) ||
      !find(library, "aoti_torch_device_type_cuda", cuda))
    return;
  cpu_ = cpu();
  cuda_ = cuda();
  const std::pair<const char*, DType> types[] = {
      {"aoti_torch_dtype_float64", DType::f64}, {"aoti_torch_dtype_float32", DType::f32},
      {"aoti_torch_dtype_float16", DType::f16}, {"aoti_torch_dtype_bfloat16", DType::bf16},
      {"aoti_torch_dtype_int64", DType::i64},   {"aoti_torch_dtype_int32", DType::i32},
      {"aoti_torch_dtype_int16", DType::i16},   {"aoti_torch_dtype_int8", DType::i8},
      {"aoti_torch_dtype_uint8", DType::u8},    {"aoti_torch_dtype_bool", DType::boolean}};
  for (const auto& [name, dtype] : types) {
    std::int32_t (*number)() = nullptr;
    if (!find(library, name, number)) return;
    const std::int32_t at = number();
    if (at < 0 || at >= kTypes) return;
    dtypes_[at] = static_cast<std::int8_t>(dtype);
  }
  offset_ = find_offset();
}

}  // namespace gex::python
