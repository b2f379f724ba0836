// Writes the CUDA text of every tested problem and loop kernel, with operands and expected results,
// and of kernels to be timed, for run.py: FOLDER/kernels_*.cu, cases.json, data.bin.

#include <cstdio>
#include <fstream>
#include <functional>

#include "base/error.hpp"
#include "base/precision.hpp"
#include "codegen/cuda_cases.hpp"
#include "codegen/cuda_emulation.hpp"
#include "codegen/cuda_problems.hpp"

namespace gex::codegen {
namespace {

using std::int64_t;

class KernelDump {
 public:
  explicit KernelDump(const std::string& folder)
      : folder_(folder), data_(folder + "/data.bin", std::ios::binary) {}

  int64_t write(const HostTensor& tensor) {
    const int64_t at = offset_;
    data_.write(reinterpret_cast<const char*>(tensor.data()),
                static_cast<std::streamsize>(tensor.bytes()));
    offset_ += static_cast<int64_t>(tensor.bytes());
    return at;
  }

  void kernel(const std::string& name, const cuda::KernelText& text,
              const std::function<int64_t(Dim)>& evaluate, const std::vector<int64_t>& dims,
              const std::string& rest) {
    const int number = unit_.add(text);
    std::string list;
    for (int64_t d : dims) list += str(list.empty() ? "" : ", ", d);
    cases_ +=
        str(cases_.empty() ? "" : ",\n", "{\"name\": \"", name, "\", \"function\": \"",
            unit_.name(number), "\", \"block\": ", text.block, ", \"grid\": ", evaluate(text.grid),
            ", \"shared\": ", evaluate(text.shared_bytes), ", \"workspace\": ",
            text.workspace_bytes == Dim(0) ? int64_t{-1} : evaluate(text.workspace_bytes),
            ", \"dims\": [", list, "], ", rest, "}");
  }

  // `allowed`: for each buffer, or below 0 if it is not compared.
  void checked(const std::string& name, const cuda::KernelText& text,
               const std::function<int64_t(Dim)>& evaluate, const std::vector<int64_t>& dims,
               const std::vector<HostTensor>& before, const std::vector<HostTensor>& after,
               const std::vector<double>& allowed) {
    std::string buffers;
    for (std::size_t b = 0; b < before.size(); ++b)
      buffers += str(b == 0 ? "" : ", ", "[\"", before[b].dtype(), "\", ", before[b].numel(), ", ",
                     write(before[b]), ", ", write(after[b]), ", ", allowed[b], "]");
    kernel(name, text, evaluate, dims, "\"buffers\": [" + buffers + "]");
  }

  void finish() {
    constexpr int kParts = 16;  // compiled at the same time
    for (int i = 0; i < kParts; ++i)
      std::ofstream(str(folder_, "/kernels_", i, ".cu")) << unit_.device_source(i, kParts);
    std::ofstream(folder_ + "/cases.json") << "[" << cases_ << "]\n";
  }

 private:
  std::string folder_;
  std::ofstream data_;
  int64_t offset_ = 0;
  EmulatedKernels unit_;
  std::string cases_;
};

void dump_checked(KernelDump& dump) {
  for (const ProblemCase& c : problem_cases()) {
    const cuda::KernelText text = cuda::emit(c.problem, c.attached(), c.dim_values());
    const std::vector<HostTensor> after = expected(c);
    std::vector<double> allowed;
    for (std::size_t b = 0; b < after.size(); ++b)
      allowed.push_back(
          c.written[b] ? c.tolerance + (c.tolerance > 0 ? epsilon_of(after[b].dtype()) : 0) : 0);
    dump.checked(
        c.name + ": " + problems::print(c.problem), text, [&](Dim d) { return c.evaluate(d); },
        c.dims, c.buffers, after, allowed);
  }
  for (const CudaCase& c : cuda_cases()) {
    const std::vector<HostTensor> after = reference(c.data);
    std::vector<double> tolerances;
    for (const HostTensor& tensor : after) tolerances.push_back(allowed(c, tensor.dtype()));
    dump.checked(
        c.data.kernel.name, cuda::emit(c.data.kernel), [&](Dim d) { return evaluate(c, d); },
        c.data.dims, c.data.buffers, after, tolerances);
  }
}

// ---- kernels to be timed: operands are made where they run ----

int64_t constant(Dim d) { return d.constant(); }

void timed(KernelDump& dump, const std::string& name, const problems::Problem& problem,
           const std::vector<int64_t>& dims, const std::string& what) {
  const std::vector<Dim> sizes(dims.begin(), dims.end());
  dump.kernel(name, cuda::emit(problem, {}, sizes), constant, dims, what);
}

void dump_products(KernelDump& dump) {
  const problems::MatmulProblem f16{DType::f16, DType::f16, DType::f16};
  const problems::MatmulProblem f32;
  const auto product = [&](const problems::MatmulProblem& p, int64_t m, int64_t n, int64_t k,
                           bool linear) {
    timed(dump, str("product ", p.a, " ", m, "x", n, "x", k, linear ? " linear" : " plain"), p,
          {1, 1, m, n, k, 0, 0, k, 1, 0, 0, linear ? 1 : n, linear ? k : 1, 0, 0, n, 1},
          str("\"timed\": \"product\", \"dtype\": \"", p.a, "\", \"sizes\": [", m, ", ", n, ", ", k,
              "], \"linear\": ", linear ? 1 : 0));
  };
  for (const int64_t m : {1, 8, 16})
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1024, 1024},
                               {3072, 1024},
                               {1024, 3072},
                               {151936, 1024},
                               {4096, 4096}})
      product(f16, m, n, k, true);
  product(f16, 1, 4096, 4096, false);
  for (const int64_t m : {24, 64, 128, 512, 2048})
    for (const bool linear : {true, false}) product(f16, m, 4096, 4096, linear);
  for (const int64_t m : {1, 128, 2048}) product(f32, m, 4096, 4096, true);
}

void dump_attention(KernelDump& dump) {
  problems::AttentionProblem p;
  p.qkv = p.out = DType::f16;
  const auto attention = [&](int64_t b, int64_t h, int64_t kv, int64_t q, int64_t k, int64_t d) {
    std::vector<int64_t> dims = {b, h, kv, q, k, d, d};
    for (const auto& [heads, tokens] : {std::pair{h, q}, {kv, k}, {kv, k}, {h, q}})
      for (const int64_t stride : {heads * tokens * d, tokens * d, d, int64_t{1}})
        dims.push_back(stride);
    timed(
        dump,
        str("attention ", b, "x", h, "/", kv, "x", q, "x", k, "x", d,
            p.causal == problems::Causal::none ? "" : " causal"),
        p, dims,
        str("\"timed\": \"attention\", \"causal\": ", p.causal == problems::Causal::none ? 0 : 1));
  };
  attention(1, 16, 16, 1, 4096, 128);
  attention(1, 16, 8, 1, 4096, 128);
  attention(1, 16, 8, 1, 512, 128);
  attention(16, 16, 8, 1, 1024, 128);
  for (int causal = 0; causal < 2; ++causal) {
    attention(1, 16, 8, 2048, 2048, 128);
    attention(2, 16, 16, 1024, 1024, 64);
    p.causal = problems::Causal::top_left;
  }
}

// s: n, c, h, w, o, kernel
void dump_convolution(KernelDump& dump, problems::Conv2dProblem p, const std::vector<int64_t>& s,
                      const std::string& form) {
  const int64_t pad = s[5] / 2, oh = (s[2] + 2 * pad - s[5]) / p.stride[0] + 1;
  const int64_t ow = (s[3] + 2 * pad - s[5]) / p.stride[1] + 1;
  p.pad = {pad, pad};
  std::vector<int64_t> dims = {s[0], s[1], s[2], s[3], s[4], oh, ow, s[5], s[5]};
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{s[1], s[2], s[3]}, {s[1] / p.groups, s[5], s[5]}, {s[4], oh, ow}})
    for (const int64_t stride :
         {shape[0] * shape[1] * shape[2], shape[1] * shape[2], shape[2], int64_t{1}})
      dims.push_back(stride);
  const problems::Problem problem = form == "forward" ? problems::Problem(p)
                                    : form == "weight_grad"
                                        ? problems::Problem(problems::Conv2dWeightGradProblem{p})
                                        : problems::Problem(problems::Conv2dInputGradProblem{p});
  timed(dump,
        str("conv ", form, " ", p.x, " ", s[0], "x", s[1], "x", s[2], "x", s[3], " to ", s[4], ", ",
            s[5], "x", s[5], p.stride[0] == 1 ? "" : " stride 2", p.groups == 1 ? "" : " groups"),
        problem, dims,
        str("\"timed\": \"conv\", \"form\": \"", form, "\", \"dtype\": \"", p.x,
            "\", \"stride\": ", p.stride[0], ", \"pad\": ", pad, ", \"groups\": ", p.groups));
}

void dump_convolutions(KernelDump& dump) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    problems::Conv2dProblem p{dtype, dtype, dtype};
    for (const int64_t n : {1, 32}) {
      dump_convolution(dump, p, {n, 64, 56, 56, 64, 3}, "forward");
      dump_convolution(dump, p, {n, 64, 56, 56, 256, 1}, "forward");
      dump_convolution(dump, p, {n, 1024, 14, 14, 256, 1}, "forward");
      dump_convolution(dump, p, {n, 256, 14, 14, 256, 3}, "forward");
      dump_convolution(dump, p, {n, 512, 7, 7, 512, 3}, "forward");
    }
    dump_convolution(dump, p, {32, 256, 14, 14, 256, 3}, "weight_grad");
    dump_convolution(dump, p, {32, 64, 56, 56, 64, 3}, "weight_grad");
    dump_convolution(dump, p, {32, 256, 14, 14, 256, 3}, "input_grad");
    p.stride = {2, 2};
    dump_convolution(dump, p, {32, 3, 224, 224, 64, 7}, "forward");
    dump_convolution(dump, p, {32, 128, 56, 56, 128, 3}, "forward");
    dump_convolution(dump, p, {32, 128, 56, 56, 128, 3}, "input_grad");
    p.stride = {1, 1};
    p.groups = 96;
    dump_convolution(dump, p, {32, 96, 56, 56, 96, 3}, "forward");
    dump_convolution(dump, p, {32, 96, 56, 56, 96, 3}, "weight_grad");
  }
}

void dump_loops(KernelDump& dump) {
  const auto loop = [&](const std::string& name, const std::string& text, std::vector<int64_t> dims,
                        const std::string& buffers, int64_t bytes) {
    const loop::Kernel kernel = loop::parse_kernel(text);
    const std::vector<Dim> symbols = kernel.symbols();
    const auto value = [&](Dim d) {
      return d.eval([&](Dim s) {
        for (std::size_t i = 0; i < symbols.size(); ++i)
          if (symbols[i] == s) return dims[i];
        fail(ErrorCode::not_found, s);
      });
    };
    dump.kernel(name, cuda::emit(kernel), value, dims,
                str("\"timed\": \"loop\", \"operands\": [", buffers, "], \"bytes\": ", bytes));
  };
  const int64_t n = 64 << 20;
  loop("add f16", R"(kernel add(a: in f16[n], b: in f16[n], y: out f16[n]) grid(i < n) {
  stage {
    x = load a[i]
    z = load b[i]
    s = add x, z
    store y[i] = s
  }
})",
       {n}, str("[\"f16\", ", n, "], [\"f16\", ", n, "], [\"f16\", ", n, "]"), 6 * n);
  loop(
      "gelu bias f16",
      R"(kernel gelu(x: in f16[m, 4096], bias: in f16[4096], y: out f16[m, 4096]) grid(i < m, j < 4096) {
  stage {
    a = load x[i, j]
    b = load bias[j]
    s = add a, b
    f = cast s : f32
    half = const 0.5 : f32
    r = const 0.70710678 : f32
    q = mul f, r
    e = erf q
    one = const 1 : f32
    e1 = add e, one
    h = mul f, half
    g = mul h, e1
    o = cast g : f16
    store y[i, j] = o
  }
})",
      {n / 4096}, str("[\"f16\", ", n, "], [\"f16\", 4096], [\"f16\", ", n, "]"), 4 * n);
  const std::string softmax =
      R"(kernel softmax(x: in f16[s0, s1], y: out f16[s0, s1]) grid(i < s0) {
  local m: f32[]
  local s: f32[]
  stage reduce(j < s1) {
    v = load x[i, j]
    f = cast v : f32
    acc a: f32 = -inf <- f
    combine max
    r = acc a
    store m[] = r
  }
  stage reduce(j < s1) {
    v = load x[i, j]
    f = cast v : f32
    t = load m[]
    d = sub f, t
    e = exp d
    acc a: f32 = 0 <- e
    combine sum
    r = acc a
    store s[] = r
  }
  stage domain(j < s1) {
    v = load x[i, j]
    f = cast v : f32
    t = load m[]
    d = sub f, t
    e = exp d
    u = load s[]
    q = div e, u
    o = cast q : f16
    store y[i, j] = o
  }
})";
  loop("softmax f16 8192x4096", softmax, {8192, 4096},
       str("[\"f16\", ", 8192 * 4096, "], [\"f16\", ", 8192 * 4096, "]"), 4LL * 8192 * 4096);
  loop("softmax f16 65536x256", softmax, {65536, 256},
       str("[\"f16\", ", 65536 * 256, "], [\"f16\", ", 65536 * 256, "]"), 4LL * 65536 * 256);
  loop("layer_norm 8192x4096", loop::print(hand_written("layer_norm")), {8192, 4096},
       str("[\"f32\", ", 8192 * 4096, "], [\"f32\", 4096], [\"f32\", 4096], [\"f32\", ",
           8192 * 4096, "]"),
       8LL * 8192 * 4096);
  loop("sum of columns f32", R"(kernel sums(x: in f32[s0, s1], y: out f32[s1]) grid(j < s1) {
  stage reduce(i < s0) {
    v = load x[i, j]
    acc a: f32 = 0 <- v
    combine sum
    r = acc a
    store y[j] = r
  }
})",
       {8192, 4096}, str("[\"f32\", ", 8192 * 4096, "], [\"f32\", 4096]"), 4LL * 8192 * 4096);
  loop("sum of all f32", R"(kernel total(x: in f32[n], y: out f32[]) {
  stage reduce(i < n) {
    v = load x[i]
    acc a: f32 = 0 <- v
    combine sum
    r = acc a
    store y[] = r
  }
})",
       {n}, str("[\"f32\", ", n, "], [\"f32\", 1]"), 4 * n);
}

}  // namespace
}  // namespace gex::codegen

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: dump FOLDER\n");
    return 1;
  }
  gex::codegen::KernelDump dump(arguments[1]);
  gex::codegen::dump_checked(dump);
  gex::codegen::dump_products(dump);
  gex::codegen::dump_attention(dump);
  gex::codegen::dump_convolutions(dump);
  gex::codegen::dump_loops(dump);
  dump.finish();
}
