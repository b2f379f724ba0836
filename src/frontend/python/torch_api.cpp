#include "frontend/python/torch_api.hpp"

#include <algorithm>
#include <memory>

#include "base/error.hpp"

namespace gex::python {
namespace {

nb::object attribute(PyObject* object, std::initializer_list<const char*> path) {
  nb::object current = nb::borrow(object);
  for (const char* name : path) current = owned(PyObject_GetAttrString(current.ptr(), name));
  return current;
}

const dlpack::ExchangeApi* find_exchange_api(PyObject* tensor_type) {
  nb::object capsule = nb::steal(PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__"));
  if (!capsule) {
    PyErr_Clear();
    PyErr_SetString(PyExc_ImportError,
                    "gex needs torch.Tensor.__dlpack_c_exchange_api__, which this PyTorch lacks; "
                    "install PyTorch 2.11 or newer");
    throw nb::python_error();
  }
  const auto* header = static_cast<const dlpack::ExchangeHeader*>(
      PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (header == nullptr) throw nb::python_error();
  while (header != nullptr && header->version.major != dlpack::kMajor) header = header->prev_api;
  const auto* api = reinterpret_cast<const dlpack::ExchangeApi*>(header);
  if (api == nullptr || api->borrow == nullptr) {
    PyErr_SetString(PyExc_ImportError,
                    "PyTorch's DLPack exchange API has no version 1 that borrows "
                    "tensors; install PyTorch 2.11 or newer");
    throw nb::python_error();
  }
  return api;  // lives as long as the process
}

// Owns the sizes and strides of a wrapped tensor; the memory belongs to another owner.
struct Wrapped {
  dlpack::ManagedTensor managed;
  std::int64_t dims[1];  // shape, then strides

  static Wrapped* make(std::size_t rank) {
    return static_cast<Wrapped*>(::operator new(sizeof(Wrapped) + 2 * rank * sizeof(std::int64_t)));
  }
  static void destroy(dlpack::ManagedTensor* managed) {
    ::operator delete(static_cast<Wrapped*>(managed->manager_ctx));
  }
};

}  // namespace

const TorchApi& TorchApi::get() {
  static const TorchApi* api = new TorchApi();  // intentionally outlives interpreter shutdown
  return *api;
}

TorchApi::TorchApi() {
  nb::object torch = owned(PyImport_ImportModule("torch"));
  nb::object tensor = attribute(torch.ptr(), {"Tensor"});
  exchange_ = find_exchange_api(tensor.ptr());
  tensor_type_ = reinterpret_cast<PyTypeObject*>(tensor.release().ptr());
  reader_ = new TensorReader();
  nb::object guards = owned(PyImport_ImportModule("torch._C._dynamo.guards"));
  empty_strided_ = attribute(guards.ptr(), {"_empty_strided_cpu"}).release().ptr();
  find_cuda(torch.ptr(), guards.ptr());
  reinterpret_ = attribute(guards.ptr(), {"_reinterpret_tensor"}).release().ptr();
  copy_name_ = owned(PyUnicode_InternFromString("copy_")).release().ptr();
  const char* names[kDTypeCount] = {"float64", "float32", "float16", "bfloat16", "int64",
                                    "int32",   "int16",   "int8",    "uint8",    "bool"};
  for (int i = 0; i < kDTypeCount; ++i)
    dtypes_[i] = attribute(torch.ptr(), {names[i]}).release().ptr();
}

void TorchApi::find_cuda(PyObject* torch, PyObject* guards) {
  const nb::object built = attribute(torch, {"version", "cuda"});
  if (built.is_none()) return;
  empty_strided_cuda_ = attribute(guards, {"_empty_strided_cuda"}).release().ptr();
  current_device_ = attribute(torch, {"_C", "_cuda_getDevice"}).release().ptr();
  set_device_ = attribute(torch, {"_C", "_cuda_setDevice"}).release().ptr();
  current_stream_ = attribute(torch, {"_C", "_cuda_getCurrentRawStream"}).release().ptr();
}

dlpack::Tensor TorchApi::borrow(PyObject* tensor) const {
  dlpack::Tensor out;
  if (exchange_->borrow(tensor, &out) != 0) throw nb::python_error();
  return out;
}

void* TorchApi::borrowed_data(PyObject* tensor) const {
  const dlpack::Tensor t = borrow(tensor);
  return static_cast<std::byte*>(t.data) + t.byte_offset;
}

bool TorchApi::is_borrowed_on(PyObject* tensor, TorchDevice device) const {
  const dlpack::Device at = borrow(tensor).device;
  if (!device.is_cuda()) return at.type == dlpack::kCpu || at.type == dlpack::kCudaHost;
  return at.type == dlpack::kCuda && at.id == device.index;
}

void TorchApi::refuse_device(PyObject* tensor, TorchDevice device, std::string_view what) const {
  const nb::object at = owned(PyObject_GetAttrString(tensor, "device"));
  const nb::object text = owned(PyObject_Str(at.ptr()));
  fail(ErrorCode::invalid_argument, what, " is on ", nb::cast<std::string>(text),
       ", the graph is compiled for ",
       device.is_cuda() ? str("cuda:", device.index) : std::string("the CPU"),
       "; move it there, or compile with tensors of its device");
}

void TorchApi::read_borrowed(PyObject* tensor, runtime::TensorRef& out) const {
  const dlpack::Tensor t = borrow(tensor);
  const auto rank = static_cast<std::size_t>(t.ndim);
  out.data = static_cast<std::byte*>(t.data) + t.byte_offset;
  out.dtype = dtype_of(t.dtype);
  out.shape = {t.shape, rank};
  out.strides = {t.strides, rank};
}

nb::object TorchApi::empty_strided(PyObject* sizes, PyObject* strides, DType dtype,
                                   TorchDevice device) const {
  PyObject* args[] = {sizes, strides, this->dtype(dtype)};
  if (!device.is_cuda()) return owned(PyObject_Vectorcall(empty_strided_, args, 3, nullptr));
  // PyTorch's function allocates on the current device.
  const nb::object current = owned(PyObject_CallNoArgs(current_device_));
  const auto present = static_cast<int>(PyLong_AsLong(current.ptr()));
  if (present == device.index)
    return owned(PyObject_Vectorcall(empty_strided_cuda_, args, 3, nullptr));
  const nb::object wanted = owned(PyLong_FromLong(device.index));
  owned(PyObject_CallOneArg(set_device_, wanted.ptr()));
  nb::object tensor = nb::steal(PyObject_Vectorcall(empty_strided_cuda_, args, 3, nullptr));
  owned(PyObject_CallOneArg(set_device_, current.ptr()));
  if (!tensor.is_valid()) throw nb::python_error();
  return tensor;
}

std::uint64_t TorchApi::current_stream(TorchDevice device) const {
  const nb::object index = owned(PyLong_FromLong(device.index));
  const nb::object stream = owned(PyObject_CallOneArg(current_stream_, index.ptr()));
  return PyLong_AsUnsignedLongLong(stream.ptr());
}

void TorchApi::wait_for_device_of(PyObject* tensor) const {
  const dlpack::Device device = borrow(tensor).device;
  if (device.type != dlpack::kCuda) return;
  const nb::object cuda = owned(PyImport_ImportModule("torch.cuda"));
  owned(PyObject_CallMethod(cuda.ptr(), "synchronize", "i", static_cast<int>(device.id)));
}

std::int64_t TorchApi::number_in(PyObject* tensor) const {
  const nb::object number = owned(PyObject_CallMethod(tensor, "item", nullptr));
  const std::int64_t value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

nb::object TorchApi::reinterpret(PyObject* tensor, PyObject* sizes, PyObject* strides,
                                 std::int64_t offset) const {
  nb::object number = owned(PyLong_FromLongLong(offset));
  PyObject* args[] = {tensor, sizes, strides, number.ptr()};
  return owned(PyObject_Vectorcall(reinterpret_, args, 4, nullptr));
}

nb::object TorchApi::wrap(const runtime::TensorRef& ref, TorchDevice device) const {
  const std::size_t rank = ref.shape.size();
  Wrapped* wrapped = Wrapped::make(rank);
  std::copy(ref.shape.begin(), ref.shape.end(), wrapped->dims);
  std::copy(ref.strides.begin(), ref.strides.end(), wrapped->dims + rank);
  dlpack::ManagedTensor& managed = wrapped->managed;
  managed = {};
  managed.version = {dlpack::kMajor, 0};
  managed.manager_ctx = wrapped;
  managed.deleter = &Wrapped::destroy;
  managed.dl_tensor.data = ref.data;
  managed.dl_tensor.device = device.is_cuda() ? dlpack::Device{dlpack::kCuda, device.index}
                                              : dlpack::Device{dlpack::kCpu, 0};
  managed.dl_tensor.ndim = static_cast<std::int32_t>(rank);
  managed.dl_tensor.dtype = dlpack_type(ref.dtype);
  managed.dl_tensor.shape = wrapped->dims;
  managed.dl_tensor.strides = wrapped->dims + rank;
  void* object = nullptr;
  if (exchange_->managed_to_object(&managed, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

nb::object TorchApi::copy_to(PyObject* tensor, const runtime::TensorRef& expected,
                             TorchDevice device) const {
  nb::object sizes = tuple_of(expected.shape), strides = tuple_of(expected.strides);
  nb::object copy = empty_strided(sizes.ptr(), strides.ptr(), expected.dtype, device);
  PyObject* args[] = {copy.ptr(), tensor};
  owned(PyObject_VectorcallMethod(copy_name_, args, 2, nullptr));
  return copy;
}

nb::object tuple_of(std::span<const std::int64_t> values) {
  nb::object tuple = owned(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i),
                     owned(PyLong_FromLongLong(values[i])).release().ptr());
  return tuple;
}

DType dtype_of(dlpack::DataType d) {
  if (d.lanes == 1) {
    switch (d.code) {
      case dlpack::kFloat:
        if (d.bits == 32) return DType::f32;
        if (d.bits == 64) return DType::f64;
        if (d.bits == 16) return DType::f16;
        break;
      case dlpack::kBfloat:
        if (d.bits == 16) return DType::bf16;
        break;
      case dlpack::kInt:
        if (d.bits == 64) return DType::i64;
        if (d.bits == 32) return DType::i32;
        if (d.bits == 16) return DType::i16;
        if (d.bits == 8) return DType::i8;
        break;
      case dlpack::kUInt:
        if (d.bits == 8) return DType::u8;
        break;
      case dlpack::kBool:
        return DType::boolean;
      default:
        break;
    }
  }
  fail(ErrorCode::type_mismatch, "tensor of DLPack type code ", int{d.code}, " with ", int{d.bits},
       " bits; gex supports f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool");
}

dlpack::DataType dlpack_type(DType dtype) {
  std::uint8_t code = dlpack::kInt;
  if (dtype == DType::bf16)
    code = dlpack::kBfloat;
  else if (is_float(dtype))
    code = dlpack::kFloat;
  else if (dtype == DType::boolean)
    code = dlpack::kBool;
  else if (dtype == DType::u8)
    code = dlpack::kUInt;
  return {code, static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

}  // namespace gex::python
