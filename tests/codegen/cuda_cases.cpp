#include "cuda_cases.hpp"

#include "base/error.hpp"
#include "base/precision.hpp"
#include "loop/builder.hpp"
#include "loop/scalar.hpp"

namespace gex::codegen {

namespace {

// out[i, k] = primitive k of (a[i], b[i]) for everything the dtype accepts.
loop::Kernel all_primitives(DType dtype) {
  using loop::Prim;
  loop::Kernel kernel;
  kernel.name = str("primitives_", dtype);
  const Dim n = Dim::symbol("n");
  const Dim i = Dim::index("i", n);
  kernel.grid = {{i}};
  kernel.buffers = {{"a", loop::Buffer::Role::in, dtype, {n}, {}},
                    {"b", loop::Buffer::Role::in, dtype, {n}, {}}};
  loop::Stage stage;
  loop::ScalarBuilder s(stage.exprs);
  const loop::Scalar a = s.load(0, dtype, {i}), b = s.load(1, dtype, {i});
  const auto add_store = [&](loop::Scalar value) {
    kernel.buffers.push_back(
        {str("y", kernel.buffers.size()), loop::Buffer::Role::out, value.dtype, {n}, {}});
    loop::Store store;
    store.buffer = static_cast<int>(kernel.buffers.size()) - 1;
    store.index = {i};
    store.value = value.id;
    stage.stores.push_back(store);
  };
  for (int p = 0; loop::arity_of(static_cast<Prim>(p)) > 0; ++p) {
    const auto prim = static_cast<Prim>(p);
    if (prim == Prim::select || prim == Prim::philox) break;
    if (!loop::accepts(prim, dtype)) continue;
    const loop::Scalar args[] = {a, b};
    add_store(s.prim(prim, std::span(args).first(static_cast<std::size_t>(loop::arity_of(prim)))));
  }
  for (int d = 0; d < kDTypeCount; ++d) add_store(s.cast(a, static_cast<DType>(d)));
  kernel.stages.push_back(std::move(stage));
  loop::verify(kernel);
  return kernel;
}

std::vector<std::int64_t> same(const loop::Kernel& kernel, std::int64_t n) {
  return std::vector<std::int64_t>(kernel.symbols().size(), n);
}

}  // namespace

std::vector<CudaCase> cuda_cases() {
  std::vector<CudaCase> cases;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> dims, double tolerance) {
    cases.push_back({random_case(hand_written(name), std::move(dims)), tolerance});
  };
  for (const std::int64_t cols : {1, 17, 300, 1000}) add("softmax", {5, cols}, 32);
  add("layer_norm", {4, 129}, 128);
  cases.push_back(
      {random_case(hand_written("variance"), same(hand_written("variance"), 257)), 128});
  add("argmax", {9, 200}, 0);
  add("cumsum", {6, 40}, 32);
  add("cumsum", {3, 700}, 256);
  add("sum_axis0", {33, 100}, 64);
  add("cat", {7, 33, 20}, 0);
  cases.push_back({random_case(hand_written("matmul"), same(hand_written("matmul"), 40)), 128});
  add("max_pool", {3, 20, 37}, 0);
  cases.push_back({random_case(hand_written("bilinear"), same(hand_written("bilinear"), 19)), 32});
  add("embedding_gradient", {50, 37, 10}, 32);
  add("rotary_kv", {2, 3, 5, 8, 10}, 16);
  cases.push_back({random_case(hand_written("dropout"), same(hand_written("dropout"), 1000)), 1});
  cases.push_back({random_case(loop::parse_kernel(R"(
kernel triangle(x: in f32[n], y: out f32[n]) grid(i < n) {
  stage reduce(j < i + 1) {
    v = load x[j]
    acc s: f32 = 0 <- v
    combine sum
    t = acc s
    store y[i] = t
  }
})"),
                               {300}),
                   64});
  // Wide loads and stores: one range with a tail, rows, rows that are not aligned, gathered rows.
  for (const std::int64_t n : {4096, 4099}) {
    cases.push_back({random_case(loop::parse_kernel(R"(
kernel flat(x: in f16[n], y: in f32[n], z: out f16[n], w: out i8[n]) grid(i < n) {
  stage {
    a = load x[i]
    b = load y[i]
    c = cast b : f16
    d = add a, c
    store z[i] = d
    e = cast d : i8
    store w[i] = e
  }
})"),
                                 {n}),
                     1});
  }
  for (const std::int64_t cols : {64, 67}) {
    cases.push_back({random_case(loop::parse_kernel(R"(
kernel rows(x: in f16[m, n], ids: in i64[m], table: in f16[10, n], bias: in f16[n], y: out f16[m, n]) grid(i < m, j < n) {
  stage {
    a = load x[i, j]
    id = load ids[i] in [0, 9]
    t = load table[id, j]
    b = load bias[j]
    c = add a, t
    d = add c, b
    store y[i, j] = d
  }
})"),
                                 {9, cols}),
                     2});
    cases.push_back({random_case(loop::parse_kernel(R"(
kernel cube(x: in f32[a, b, c], y: out f32[a, b, c]) grid(i < a, j < b, k < c) {
  stage {
    v = load x[i, j, k]
    w = add v, v
    store y[i, j, k] = w
  }
})"),
                                 {3, 5, cols}),
                     1});
  }
  // Locals of 60000 elements lie in the workspace.
  cases.push_back({random_case(loop::parse_kernel(R"(
kernel kept(x: in f32[m, n], y: out f32[m, n]) grid(i < m) {
  local row: f32[n]
  local top: f32[]
  stage reduce(j < n) {
    v = load x[i, j]
    w = mul v, v
    store row[j] = w
    acc a: f32 = -inf <- w
    combine max
    r = acc a
    store top[] = r
  }
  stage domain(j < n) {
    w = load row[j]
    t = load top[]
    d = div w, t
    store y[i, j] = d
  }
})"),
                               {2, 60000}),
                   4});
  cases.push_back({random_case(loop::parse_kernel(R"(
kernel histogram(ids: in i64[n], y: inout i64[10]) grid(i < n) {
  stage {
    id = load ids[i] in [0, 9]
    one = const 1 : i64
    store y[id] = one mode add shared
  }
})"),
                               {3000}),
                   0});
  // Stores in order: to any place, to the columns of a table, with a predicate.
  for (const char* mode : {"add", "mul", "max"})
    cases.push_back({random_case(loop::parse_kernel(str(R"(
kernel ordered(ids: in i64[n], v: in f16[n], y: inout f16[10]) grid(i < n) {
  stage {
    id = load ids[i] in [0, 9]
    x = load v[i]
    one = const 1 : i64
    p = gt id, one
    store y[id] = x mode )",
                                                        mode, R"( if p shared ordered
  }
})")),
                                 {700}),
                     1});
  cases.push_back({random_case(loop::parse_kernel(R"(
kernel table(ids: in i64[n], v: in f32[n, m], y: inout f32[10, m]) grid(i < n, j < m) {
  stage {
    id = load ids[i] in [0, 9]
    x = load v[i, j]
    store y[id, j] = x mode add shared ordered
  }
})"),
                               {50, 300}),
                   1});
  // Integers reach past zero on both sides, floats stay where every function is defined.
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    CudaCase c{random_case(all_primitives(dtype), {200}), is_low_float(dtype) ? 2.0 : 64.0};
    for (int b = 0; b < 2; ++b) {
      const bool is_unsigned = dtype == DType::u8 || dtype == DType::boolean;
      fill(c.data.buffers[static_cast<std::size_t>(b)], 7U + static_cast<unsigned>(b),
           is_float(dtype) ? 0.05 : (is_unsigned ? 1 : -9), is_float(dtype) ? 0.95 : 9);
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

double allowed(const CudaCase& c, DType dtype) { return c.tolerance_in_eps * epsilon_of(dtype); }

std::int64_t evaluate(const CudaCase& c, Dim dim) {
  const std::vector<Dim> symbols = c.data.kernel.symbols();
  return dim.eval([&](Dim symbol) {
    for (std::size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i] == symbol) return c.data.dims[i];
    fail(ErrorCode::not_found, "no value for ", symbol);
  });
}

std::vector<std::int64_t> launch_words(const CudaCase& c, const std::vector<void*>& buffers) {
  std::vector<std::int64_t> words;
  for (void* buffer : buffers) words.push_back(reinterpret_cast<std::int64_t>(buffer));
  words.insert(words.end(), c.data.dims.begin(), c.data.dims.end());
  return words;
}

}  // namespace gex::codegen
