#include "harness.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "base/precision.hpp"
#include "interp/eval_kernel.hpp"

namespace gex::codegen {

Generator& generator() {
  std::string why_not;
  Generator* g = llvm_generator(&why_not);
  if (!g) throw std::runtime_error(why_not);
  return *g;
}

loop::Kernel hand_written(const std::string& name) {
  std::ifstream file(std::string(GEX_TEST_DATA) + "/../loop/kernels/" + name + ".loop");
  std::stringstream text;
  text << file.rdbuf();
  return loop::parse_kernel(text.str());
}

namespace {

std::int64_t value_of(Dim d, const std::vector<Dim>& symbols,
                      const std::vector<std::int64_t>& dims) {
  return d.eval([&](Dim s) {
    for (std::size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i] == s) return dims[i];
    fail(ErrorCode::not_found, "no value for ", s);
  });
}

}  // namespace

void fill(HostTensor& tensor, unsigned seed, double lo, double hi) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> draw(lo, hi);
  std::uniform_int_distribution<std::int64_t> draw_int(static_cast<std::int64_t>(lo),
                                                       static_cast<std::int64_t>(hi));
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    if (is_float(tensor.dtype()))
      tensor.set(i, draw(generator));
    else
      tensor.set_int(
          i, tensor.dtype() == DType::boolean ? draw_int(generator) & 1 : draw_int(generator));
  }
}

Case random_case(loop::Kernel kernel, std::vector<std::int64_t> dims, unsigned seed) {
  Case c{std::move(kernel), std::move(dims), {}};
  auto symbols = c.kernel.symbols();
  EXPECT_EQ(symbols.size(), c.dims.size());
  for (int b = 0; b < c.kernel.num_params(); ++b) {
    const auto& desc = c.kernel.buffers[static_cast<std::size_t>(b)];
    // Enough memory for the strides: one flat row.
    std::vector<std::int64_t> shape;
    std::int64_t last = 1;
    auto strides = loop::strides_of(desc);
    for (std::size_t d = 0; d < desc.shape.size(); ++d) {
      shape.push_back(value_of(desc.shape[d], symbols, c.dims));
      if (shape.back() == 0) last = 0;
    }
    for (std::size_t d = 0; d < shape.size() && last > 0; ++d)
      last += (shape[d] - 1) * value_of(strides[d], symbols, c.dims);
    HostTensor t(desc.dtype, desc.strides.empty() ? shape : std::vector<std::int64_t>{last});
    fill(t, seed * 100 + static_cast<unsigned>(b), is_float(desc.dtype) ? -3 : 0,
         is_float(desc.dtype) ? 3 : 9);
    c.buffers.push_back(std::move(t));
  }
  return c;
}

HostTensor& buffer(Case& c, const std::string& name) {
  for (std::size_t b = 0; b < c.buffers.size(); ++b)
    if (c.kernel.buffers[b].name == name) return c.buffers[b];
  throw std::runtime_error("no buffer " + name);
}

GuardedMemory::GuardedMemory(const HostTensor& content) {
  auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t bytes = content.numel() == 0 ? 0 : content.bytes();
  std::size_t body = (bytes + page - 1) / page * page;
  map_bytes_ = body + page;
  map_ = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(map_, MAP_FAILED);
  auto* start = static_cast<std::byte*>(map_);
  EXPECT_EQ(mprotect(start + body, page, PROT_NONE), 0);
  data_ = start + body - bytes;
  if (bytes > 0) std::memcpy(data_, content.data(), bytes);
}

GuardedMemory::~GuardedMemory() {
  if (map_) munmap(map_, map_bytes_);
}

void GuardedMemory::copy_to(HostTensor& tensor) const {
  if (tensor.numel() > 0) std::memcpy(tensor.data(), data_, tensor.bytes());
}

std::int64_t grid_of(const Case& c) {
  return value_of(c.kernel.grid_size(), c.kernel.symbols(), c.dims);
}

GeneratorOptions all_constant(const Case& c) {
  GeneratorOptions options;
  auto symbols = c.kernel.symbols();
  for (std::size_t i = 0; i < symbols.size(); ++i)
    options.constants.emplace_back(symbols[i], c.dims[i]);
  return options;
}

std::vector<HostTensor> run(const Case& c, const program::Callable& code,
                            const std::vector<std::int64_t>& cuts) {
  std::vector<GuardedMemory> memory;
  std::vector<void*> pointers;
  for (const HostTensor& t : c.buffers) {
    memory.emplace_back(t);
    pointers.push_back(memory.back().data());
  }
  auto scratch_bytes = value_of(c.kernel.scratch_bytes(), c.kernel.symbols(), c.dims);
  HostTensor empty(DType::u8, {std::max<std::int64_t>(scratch_bytes, 64)});
  GuardedMemory scratch(empty);
  std::int64_t begin = 0;
  auto ends = cuts;
  ends.push_back(grid_of(c));
  for (std::int64_t end : ends) {
    code(pointers.data(), c.dims.data(), begin, end, static_cast<std::byte*>(scratch.data()));
    begin = end;
  }
  std::vector<HostTensor> result = c.buffers;
  for (std::size_t b = 0; b < result.size(); ++b) memory[b].copy_to(result[b]);
  return result;
}

std::vector<HostTensor> reference(const Case& c) {
  std::vector<HostTensor> result = c.buffers;
  std::vector<void*> pointers;
  for (HostTensor& t : result) pointers.push_back(t.data());
  interp::eval_kernel(c.kernel, pointers, c.dims);
  return result;
}

double distance(const HostTensor& a, const HostTensor& b) {
  double worst = 0;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    if (!is_float(a.dtype())) {
      if (a.get_int(i) != b.get_int(i)) return kInf;
      continue;
    }
    double x = a.get(i), y = b.get(i);
    if (std::isnan(x) != std::isnan(y)) return kInf;
    if (std::isnan(x) || x == y) continue;
    worst = std::max(worst, std::fabs(x - y) / std::max(std::fabs(y), 1.0));
  }
  return worst;
}

void check(const Case& c, double tolerance_in_eps) {
  SCOPED_TRACE(loop::print(c.kernel));
  std::string sizes;
  for (std::int64_t d : c.dims) sizes += std::to_string(d) + " ";
  SCOPED_TRACE("dims " + sizes);
  auto generic = generator().compile({&c.kernel, 1}, {})[0];
  auto fixed = generator().compile({&c.kernel, 1}, all_constant(c))[0];
  auto got = run(c, generic);
  auto want = reference(c);
  for (std::size_t b = 0; b < got.size(); ++b)
    EXPECT_LE(distance(got[b], want[b]), tolerance_in_eps * epsilon_of(got[b].dtype()))
        << "generic code against the reference, buffer " << c.kernel.buffers[b].name;
  EXPECT_EQ(run(c, fixed), got) << "static code gives other bits than generic code";
  std::int64_t grid = grid_of(c);
  if (grid < 2) return;
  EXPECT_EQ(run(c, generic, {grid / 2}), got) << "two ranges give other bits than one";
  std::vector<std::int64_t> cuts;
  for (std::int64_t at = 1; at < grid; at += 1 + at % 7 * (grid / 16 + 1)) cuts.push_back(at);
  EXPECT_EQ(run(c, generic, cuts), got) << "many ranges give other bits than one";
  EXPECT_EQ(run(c, fixed, cuts), got) << "static code in many ranges";
}

}  // namespace gex::codegen
