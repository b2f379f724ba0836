#include "backend/cuda/attached.hpp"

#include "backend/cuda/body_writer.hpp"
#include "backend/cuda/scalar_text.hpp"
#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::backend::cuda {

namespace {

// One grid point of a kernel as a function. The kernel's parameter `value_buffer` is not memory: in
// an epilogue it is the argument `value`, in a prologue the returned result.
class AttachedWriter : private BodyWriter {
 public:
  AttachedWriter(const loop::Kernel& kernel, int value_buffer, bool returns,
                 std::vector<bool> exchanged)
      : BodyWriter(kernel, std::move(exchanged)), value_buffer_(value_buffer), returns_(returns) {}

  // `first_buffer`, `first_dim`: positions of the kernel's other parameters and symbols in the
  // words. `values`: of the symbols, or empty.
  std::string write(const std::string& name, int first_buffer, int first_dim,
                    std::span<const std::int64_t> values) {
    const DType dtype = kernel_.buffers[at(value_buffer_)].dtype;
    const std::string type = register_type(dtype);
    depth_ = 0;
    open("struct " + name);
    const int params = kernel_.num_params();
    const std::vector<Dim> symbols = kernel_.symbols();
    for (int b = 0; b < params; ++b)
      if (b != value_buffer_) line(pointer_type(b) + " b" + std::to_string(b) + ";");
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      names_[symbols[i]] = "s" + std::to_string(i);
      line("i64 s" + std::to_string(i) + ";");
    }
    open("GEX_METHOD void bind(const i64* words)");
    for (int b = 0, word = first_buffer; b < params; ++b)
      if (b != value_buffer_)
        line("b" + std::to_string(b) + " = " + pointer(b, "words[" + std::to_string(word++) + "]") +
             ";");
    for (std::size_t i = 0; i < symbols.size(); ++i)
      line("s" + std::to_string(i) + " = " +
           (values.empty() ? "words[" + std::to_string(at(first_dim) + i) + "]"
                           : std::to_string(values[i]) + "ll") +
           ";");
    close();
    open(returns_ ? "GEX_METHOD " + type + " operator()(i64 point) const"
                  : "GEX_METHOD void operator()(i64 point, " + type + " value) const");
    if (returns_) line(type + " value;");
    for (std::size_t b = at(params); b < kernel_.buffers.size(); ++b) local(b);
    if (!kernel_.grid.empty()) split(kernel_.grid, "point");
    for (const loop::Stage& stage : kernel_.stages)
      loops(stage.domain, "0", "1", [&] { point(stage); });
    if (returns_) line("return value;");
    close();
    --depth_;
    line("};");
    return text_.str();
  }

 private:
  void local(std::size_t b) {
    constexpr std::int64_t kMaxLocal = 64;
    const Dim elements = product(kernel_.buffers[b].shape);
    if (!elements.is_const() || elements.constant() > kMaxLocal)
      fail(ErrorCode::unsupported, "CUDA: an epilogue needs local memory for ", elements,
           " elements for each result; at most ", kMaxLocal, " fit");
    line(memory_type(kernel_.buffers[b].dtype) + " b" + std::to_string(b) + "[" +
         std::to_string(std::max<std::int64_t>(elements.constant(), 1)) + "];");
  }

  std::string loaded(const loop::Expr& load) override {
    return load.buffer == value_buffer_ ? "value" : BodyWriter::loaded(load);
  }

  void store(const loop::Store& s) override {
    if (s.buffer != value_buffer_) return BodyWriter::store(s);
    line("value = e" + std::to_string(s.value) + ";");
  }

  const int value_buffer_;
  const bool returns_;
};

// By parameter of a kernel, without parameter `skipped`: those of the launch from `first` on.
std::vector<bool> exchanged_params(const AttachedKernels& attached, const loop::Kernel& kernel,
                                   int skipped, int first) {
  std::vector<bool> result;
  for (int b = 0, buffer = first; b < kernel.num_params(); ++b) {
    const bool known = b != skipped && at(buffer) < attached.exchanged.size();
    result.push_back(known && attached.exchanged[at(buffer)]);
    if (b != skipped) ++buffer;
  }
  return result;
}

std::span<const std::int64_t> values_from(std::span<const std::int64_t> values, int first) {
  return values.empty() ? values : values.subspan(at(first));
}

}  // namespace

std::string epilogue_text(const std::string& name, const AttachedKernels& attached,
                          int first_buffer, int buffers, std::span<const std::int64_t> values) {
  return AttachedWriter(*attached.epilogue, 0, false,
                        exchanged_params(attached, *attached.epilogue, 0, first_buffer))
      .write(name, first_buffer, buffers + attached.epilogue_dims_begin,
             values_from(values, attached.epilogue_dims_begin));
}

std::string prologue_text(const std::string& name, const AttachedKernels::Prologue& prologue,
                          int buffers, std::span<const std::int64_t> values) {
  return AttachedWriter(*prologue.kernel, prologue.kernel->num_params() - 1, true, {})
      .write(name, prologue.first_buffer, buffers + prologue.dims_begin,
             values_from(values, prologue.dims_begin));
}

}  // namespace gex::backend::cuda
