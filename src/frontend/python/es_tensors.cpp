#include "frontend/python/es_tensors.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "base/strided_copy.hpp"
#include "frontend/python/interrupts.hpp"

namespace gex::python {
namespace {

struct Match {
  nb::dlpack::dtype_code code;
  int bits;
  es::DType dtype;
};
constexpr Match kMatches[] = {
    {nb::dlpack::dtype_code::Float, 64, es::DType::f64},
    {nb::dlpack::dtype_code::Float, 32, es::DType::f32},
    {nb::dlpack::dtype_code::Float, 16, es::DType::f16},
    {nb::dlpack::dtype_code::Bfloat, 16, es::DType::bf16},
    {nb::dlpack::dtype_code::Int, 64, es::DType::i64},
    {nb::dlpack::dtype_code::Int, 32, es::DType::i32},
    {nb::dlpack::dtype_code::Int, 16, es::DType::i16},
    {nb::dlpack::dtype_code::Int, 8, es::DType::i8},
    {nb::dlpack::dtype_code::UInt, 8, es::DType::u8},
    {nb::dlpack::dtype_code::Bool, 8, es::DType::boolean},
};

es::DType dtype_of(nb::dlpack::dtype dtype, const std::string& what) {
  for (const Match& match : kMatches)
    if (static_cast<std::uint8_t>(match.code) == dtype.code && match.bits == dtype.bits &&
        dtype.lanes == 1)
      return match.dtype;
  throw es::Error(GEX_UNSUPPORTED, what +
                                       " has an unsupported dtype; use float64, float32, float16, "
                                       "bfloat16, int64, int32, int16, int8, uint8 or bool");
}

nb::dlpack::dtype dlpack_of(es::DType dtype) {
  const Match& match = kMatches[static_cast<int>(dtype)];
  return {static_cast<std::uint8_t>(match.code), static_cast<std::uint8_t>(match.bits), 1};
}
static_assert(kMatches[static_cast<int>(es::DType::boolean)].dtype == es::DType::boolean);

nb::object to_numpy(es::Tensor tensor, std::size_t k) {
  if (tensor.dtype() == es::DType::bf16)
    throw es::Error(GEX_UNSUPPORTED,
                    "result " + std::to_string(k) + " is " + tensor.text() +
                        ", which NumPy does not support; cast it to f32 in the graph");
  auto* owned = new es::Tensor(std::move(tensor));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<es::Tensor*>(p); });
  std::vector<std::size_t> shape(owned->shape().begin(), owned->shape().end());
  nb::ndarray<nb::numpy> array(owned->data(), shape.size(), shape.data(), owner, nullptr,
                               dlpack_of(owned->dtype()));
  return nb::cast(array);
}

}  // namespace

ArrayArgument::ArrayArgument(const HostArray& array, const std::string& what)
    : data_(const_cast<void*>(array.data())), dtype_(dtype_of(array.dtype(), what)) {
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    shape_.push_back(static_cast<std::int64_t>(array.shape(d)));
    strides_.push_back(array.stride(d));
  }
}

gex_tensor ArrayArgument::c() const {
  gex_tensor tensor = GEX_TENSOR_INIT;
  tensor.dtype = static_cast<gex_dtype>(dtype_);
  tensor.data = data_;
  tensor.rank = shape_.size();
  tensor.shape = shape_.data();
  tensor.strides = strides_.data();
  return tensor;
}

es::Tensor ArrayArgument::copied() const {
  es::Tensor tensor(dtype_, shape_);
  std::vector<std::int64_t> dense(shape_.size(), 1);
  for (std::size_t d = shape_.size(); d-- > 1;) dense[d - 1] = dense[d] * shape_[d];
  copy_elements(es::SizeOf(dtype_), shape_, static_cast<const std::byte*>(data_), strides_,
                static_cast<std::byte*>(tensor.data()), dense);
  return tensor;
}

HostArray to_array(nb::handle given, const std::string& what) {
  HostArray array;
  if (!nb::try_cast(given, array))
    throw es::Error(GEX_INVALID_ARGUMENT,
                    what + " has type " + nb::cast<std::string>(nb::str(given.type())) +
                        "; expected a NumPy array of numbers or a tensor on the CPU");
  return array;
}

namespace {

// The arrays of a call, kept alive while it needs them.
class Arguments {
 public:
  Arguments(const nb::list& given, const char* what) {
    for (std::size_t k = 0; k < given.size(); ++k) {
      const std::string name = what + (" " + std::to_string(k));
      arrays_.push_back(to_array(given[k], name));
      arguments_.emplace_back(arrays_.back(), name);
    }
    for (const ArrayArgument& argument : arguments_) tensors_.push_back(argument.c());
  }
  std::vector<gex_tensor>& tensors() { return tensors_; }

 private:
  std::vector<HostArray> arrays_;
  std::vector<ArrayArgument> arguments_;
  std::vector<gex_tensor> tensors_;
};

nb::list to_list(std::vector<es::Tensor> results) {
  nb::list list;
  for (std::size_t k = 0; k < results.size(); ++k) list.append(to_numpy(results[k], k));
  return list;
}

// Runs `body` without the GIL. Exceptions that the program's callables raised meanwhile are raised
// here: they are more specific than an out-of-memory error caused by them.
template <class Body>
void run_unlocked(const Body& body) {
  forget_raised();
  const auto raise = [] {
    const nb::object error = take_raised();
    if (error.is_none()) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
  };
  try {
    const nb::gil_scoped_release unlocked;
    const runtime::ControlScope scope(&kept_interrupts());
    body();
  } catch (const es::Error&) {
    raise();
    throw;
  }
  raise();
}

nb::object exception_of(gex_status status, const char* message) {
  if (status == GEX_OUT_OF_MEMORY) return nb::handle(PyExc_MemoryError)(message);
  return nb::module_::import_("gex._gex").attr("EsError")(message);
}

struct AsyncRun {
  AsyncRun(const nb::list& given, std::size_t outputs, nb::object to_call)
      : inputs(given, "input"), results(outputs, GEX_TENSOR_INIT), callback(std::move(to_call)) {}

  Arguments inputs;
  std::vector<gex_tensor> results;
  nb::object callback;

  static void finish(void* user, gex_status status, const char* message) {
    const nb::gil_scoped_acquire locked;
    const std::unique_ptr<AsyncRun> run(static_cast<AsyncRun*>(user));
    std::vector<es::Tensor> owned;
    if (status == GEX_OK)
      for (const gex_tensor& result : run->results) owned.push_back(es::Tensor::Adopt(result));
    const nb::object problem = take_raised();
    try {
      if (!problem.is_none())
        run->callback(nb::none(), problem);
      else if (status == GEX_OK)
        run->callback(to_list(std::move(owned)), nb::none());
      else
        run->callback(nb::none(), exception_of(status, message));
    } catch (nb::python_error& error) {
      error.restore();
      PyErr_WriteUnraisable(run->callback.ptr());
    }
  }
};

}  // namespace

nb::list run_on_arrays(const PyProgram& program, const nb::list& inputs,
                       const std::optional<nb::list>& outputs) {
  Arguments arguments(inputs, "input");
  if (!outputs) {
    std::vector<es::Tensor> results;
    run_unlocked([&] { results = program.program->RunOn(arguments.tensors()); });
    return to_list(std::move(results));
  }
  Arguments results(*outputs, "output");
  run_unlocked([&] { program.program->RunOn(arguments.tensors(), results.tensors()); });
  return *outputs;
}

void run_async_on_arrays(const PyProgram& program, const nb::list& inputs, nb::object callback) {
  auto run =
      std::make_unique<AsyncRun>(inputs, program.program->output_count(), std::move(callback));
  std::vector<gex_tensor>& tensors = run->inputs.tensors();
  es::detail::Check(gex_program_run_async(program.program->handle(), tensors.data(), tensors.size(),
                                          run->results.data(), run->results.size(),
                                          AsyncRun::finish, run.get()));
  run.release();  // finish deletes it
}

}  // namespace gex::python
