#include "deploy/code_image.hpp"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "program/bytes.hpp"

#if defined(__x86_64__)
// Conversions of f16 that compilers call where the processor has no instruction for them. They are
// part of the compiler's own library.
extern "C" float __extendhfsf2(_Float16);
extern "C" _Float16 __truncsfhf2(float);
extern "C" _Float16 __truncdfhf2(double);
#endif

namespace gex::deploy {

namespace {

using program::ByteReader;
using program::ByteWriter;
using program::Callable;

struct KnownFunction {
  std::string_view name;
  const void* address;
};

template <class F>
const void* address_of(F* function) {
  return reinterpret_cast<const void*>(function);
}

// The functions that the code generator may call.
const std::vector<KnownFunction>& known_functions() {
  using F1 = double(double);
  using F2 = double(double, double);
  static const std::vector<KnownFunction> all = {
      {"exp", address_of<F1>(&std::exp)},
      {"exp2", address_of<F1>(&std::exp2)},
      {"expm1", address_of<F1>(&std::expm1)},
      {"log", address_of<F1>(&std::log)},
      {"log2", address_of<F1>(&std::log2)},
      {"log10", address_of<F1>(&std::log10)},
      {"log1p", address_of<F1>(&std::log1p)},
      {"sin", address_of<F1>(&std::sin)},
      {"cos", address_of<F1>(&std::cos)},
      {"tan", address_of<F1>(&std::tan)},
      {"asin", address_of<F1>(&std::asin)},
      {"acos", address_of<F1>(&std::acos)},
      {"atan", address_of<F1>(&std::atan)},
      {"sinh", address_of<F1>(&std::sinh)},
      {"cosh", address_of<F1>(&std::cosh)},
      {"tanh", address_of<F1>(&std::tanh)},
      {"erf", address_of<F1>(&std::erf)},
      {"floor", address_of<F1>(&std::floor)},
      {"ceil", address_of<F1>(&std::ceil)},
      {"trunc", address_of<F1>(&std::trunc)},
      {"rint", address_of<F1>(&std::rint)},
      {"nearbyint", address_of<F1>(&std::nearbyint)},
      {"roundeven", address_of<F1>(&::roundeven)},
      {"floorf", address_of(&::floorf)},
      {"ceilf", address_of(&::ceilf)},
      {"truncf", address_of(&::truncf)},
      {"rintf", address_of(&::rintf)},
      {"nearbyintf", address_of(&::nearbyintf)},
      {"roundevenf", address_of(&::roundevenf)},
      {"pow", address_of<F2>(&std::pow)},
      {"atan2", address_of<F2>(&std::atan2)},
      {"fmod", address_of<F2>(&std::fmod)},
      {"fmodf", address_of(&::fmodf)},
      {"fma", address_of<double(double, double, double)>(&std::fma)},
      {"fmaf", address_of(&::fmaf)},
      {"memcpy", address_of<void*(void*, const void*, std::size_t)>(&std::memcpy)},
      {"memset", address_of<void*(void*, int, std::size_t)>(&std::memset)},
#if defined(__x86_64__)
      {"__extendhfsf2", address_of(&__extendhfsf2)},
      {"__truncsfhf2", address_of(&__truncsfhf2)},
      {"__truncdfhf2", address_of(&__truncdfhf2)},
#endif
  };
  return all;
}

const void* find_function(std::string_view name) {
  for (const KnownFunction& function : known_functions())
    if (function.name == name) return function.address;
  return nullptr;
}

// Executable memory, freed with the last function that uses it.
class CodeMemory {
 public:
  explicit CodeMemory(const CodeImage& image) : size_(image.bytes.size()) {
    data_ = static_cast<std::byte*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (data_ == MAP_FAILED)
      fail(ErrorCode::out_of_memory, "no memory for ", size_,
           " bytes of machine code: ", std::strerror(errno));
    std::memcpy(data_, image.bytes.data(), size_);
    for (const CodeImage::Import& import : image.imports) {
      const void* address = find_function(import.function);
      std::memcpy(data_ + import.offset, &address, sizeof address);
    }
    if (::mprotect(data_, size_, PROT_READ | PROT_EXEC) != 0) {
      const int reason = errno;
      ::munmap(data_, size_);
      fail(ErrorCode::device_error,
           "the operating system denies executable memory: ", std::strerror(reason),
           "; load the model without trust to run it without machine code");
    }
  }
  ~CodeMemory() { ::munmap(data_, size_); }
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  const std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::size_t size_;
};

// A function that takes the kernel's dims in another order.
struct Reordered {
  program::KernelFn fn;
  std::vector<int> positions;
  std::shared_ptr<const CodeMemory> memory;
};

void call_reordered(const void* context, void* const* buffers, const std::int64_t* dims,
                    std::int64_t begin, std::int64_t end, std::byte* scratch) {
  const auto& r = *static_cast<const Reordered*>(context);
  constexpr std::size_t kMany = 32;
  std::array<std::int64_t, kMany> few;
  std::vector<std::int64_t> many;
  std::int64_t* ordered = few.data();
  if (r.positions.size() > kMany) {
    many.resize(r.positions.size());
    ordered = many.data();
  }
  for (std::size_t k = 0; k < r.positions.size(); ++k) ordered[k] = dims[r.positions[k]];
  r.fn(nullptr, buffers, ordered, begin, end, scratch);
}

void check(const CodeImage& image) {
  const auto bad = [](const std::string& what) {
    fail(ErrorCode::parse_error, "its machine code is damaged: ", what);
  };
  for (const CodeImage::Entry& entry : image.kernels) {
    if (entry.offset >= image.bytes.size()) bad("a kernel starts outside of it");
    for (int position : entry.positions)
      if (position < 0) bad("a kernel reads dims that it does not have");
  }
  for (const CodeImage::Import& import : image.imports) {
    if (image.bytes.size() < 8 || import.offset > image.bytes.size() - 8)
      bad("an address lies outside of it");
    if (find_function(import.function) == nullptr)
      fail(ErrorCode::unsupported, "its machine code calls the function ", import.function,
           ", which this gex does not have; compile the model again");
  }
}

}  // namespace

bool is_importable(std::string_view function) { return find_function(function) != nullptr; }

std::string serialise(const CodeImage& image) {
  ByteWriter out;
  out.u64(image.kernels.size());
  for (const CodeImage::Entry& entry : image.kernels) {
    out.u64(entry.offset);
    out.u64(entry.positions.size());
    for (int position : entry.positions) out.u32(static_cast<std::uint32_t>(position));
  }
  out.u64(image.imports.size());
  for (const CodeImage::Import& import : image.imports) {
    out.u64(import.offset);
    out.text(import.function);
  }
  out.text(image.bytes);
  return out.take();
}

CodeImage parse_code_image(std::string_view bytes) {
  ByteReader in(bytes);
  CodeImage image;
  image.kernels.resize(in.count(16));
  for (CodeImage::Entry& entry : image.kernels) {
    entry.offset = in.u64();
    entry.positions.resize(in.count(4));
    for (int& position : entry.positions) position = static_cast<int>(in.u32());
  }
  image.imports.resize(in.count(16));
  for (CodeImage::Import& import : image.imports) {
    import.offset = in.u64();
    import.function = in.text();
  }
  image.bytes = in.text();
  in.must_end();
  check(image);
  return image;
}

std::vector<Callable> load_code(const CodeImage& image) {
  std::vector<Callable> functions;
  if (image.kernels.empty()) return functions;
  check(image);
  const auto memory = std::make_shared<const CodeMemory>(image);
  for (const CodeImage::Entry& entry : image.kernels) {
    const auto fn = reinterpret_cast<program::KernelFn>(
        reinterpret_cast<std::uintptr_t>(memory->data() + entry.offset));
    if (entry.positions.empty()) {
      functions.push_back({fn, nullptr, memory});
      continue;
    }
    auto reordered = std::make_shared<const Reordered>(Reordered{fn, entry.positions, memory});
    const void* context = reordered.get();
    functions.push_back({&call_reordered, context, std::move(reordered)});
  }
  return functions;
}

std::span<const std::string_view> known_levels() {
  static constexpr std::array<std::string_view, 3> kLevels = {"v2", "v3", "v4"};
  return kLevels;
}

bool runs_here([[maybe_unused]] std::string_view level) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (level == "v2") return __builtin_cpu_supports("x86-64-v2") != 0;
  if (level == "v3") return __builtin_cpu_supports("x86-64-v3") != 0;
  if (level == "v4") return __builtin_cpu_supports("x86-64-v4") != 0;
#endif
  return false;
}

}  // namespace gex::deploy
