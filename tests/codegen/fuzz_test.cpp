// Random kernels of every shape the generator plans for, against the reference executor.
// GEX_FUZZ_KERNELS sets how many (default 150), GEX_FUZZ_SEED where they start.

#include <cstdlib>

#include "base/error.hpp"
#include "harness.hpp"
#include "loop/builder.hpp"
#include "loop/combines.hpp"

namespace gex::codegen {
namespace {

using loop::Buffer;
using loop::Kernel;
using loop::Prim;
using loop::Range;
using loop::Scalar;
using loop::ScalarBuilder;
using loop::Stage;
using loop::Store;

class Fuzzer {
 public:
  explicit Fuzzer(unsigned seed) : random_(seed) {}

  Case make() {
    rank_ = pick(1, 3);
    grid_axes_ = pick(0, rank_);
    for (int a = 0; a < rank_; ++a) {
      bool constant = chance(4);
      extents_.push_back(constant ? Dim(pick(1, 20)) : Dim::symbol(str("n", a)));
      Dim index = Dim::index(str("i", a), extents_.back());
      indices_.push_back(index);
    }
    for (int a = 0; a < grid_axes_; ++a)
      kernel_.grid.push_back({indices_[static_cast<std::size_t>(a)]});
    kernel_.name = "fuzz";
    dtype_ = any_of(std::vector<DType>{DType::f32, DType::f32, DType::f32, DType::f16, DType::bf16,
                                       DType::f64, DType::i32});
    add_parameters();
    if (grid_axes_ < rank_ && !chance(3)) add_folding_stage();
    if (grid_axes_ < rank_ && chance(3)) add_local_stage();
    add_output_stage();
    loop::verify(kernel_);
    std::vector<std::int64_t> dims;
    for (std::size_t n = kernel_.symbols().size(); n > 0; --n)
      dims.push_back(any_of(std::vector<std::int64_t>{0, 1, 2, 3, 5, 16, 17, 31, 40}));
    Case c = random_case(kernel_, dims, static_cast<unsigned>(pick(1, 1000)));
    for (HostTensor& t : c.buffers)
      if (!is_float(t.dtype())) fill(t, 5, 0, 3);
    return c;
  }

 private:
  int pick(int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random_); }
  bool chance(int one_in) { return pick(1, one_in) == 1; }
  template <class T>
  T any_of(std::vector<T> values) {
    return values[static_cast<std::size_t>(pick(0, static_cast<int>(values.size()) - 1))];
  }

  // A layout over all axes: dense in a random order of axes, some axes broadcast.
  Buffer layout(std::string name, Buffer::Role role, DType dtype, bool may_broadcast) {
    Buffer b{std::move(name), role, dtype, extents_, {}};
    std::vector<std::size_t> order;
    for (int a = 0; a < rank_; ++a) order.push_back(static_cast<std::size_t>(a));
    if (chance(3)) std::shuffle(order.begin(), order.end(), random_);
    b.strides.assign(order.size(), Dim(0));
    Dim stride = chance(6) ? Dim(pick(2, 3)) : Dim(1);
    for (std::size_t k = order.size(); k-- > 0;) {
      if (may_broadcast && chance(5)) continue;
      b.strides[order[k]] = stride;
      stride *= extents_[order[k]];
    }
    return b;
  }

  void add_parameters() {
    inputs_ = pick(1, 3);
    for (int k = 0; k < inputs_; ++k)
      kernel_.buffers.push_back(layout(str("x", k), Buffer::Role::in, dtype_, true));
    // A row of indices into a table that is as long as the last axis.
    Dim last = extents_.back();
    ids_ = static_cast<int>(kernel_.buffers.size());
    kernel_.buffers.push_back({"ids", Buffer::Role::in, DType::i64, {last}, {}});
    table_ = ids_ + 1;
    kernel_.buffers.push_back({"table", Buffer::Role::in, dtype_, {Dim(4), Dim(3)}, {}});
    out_ = table_ + 1;
    kernel_.buffers.push_back(layout("y", Buffer::Role::out, dtype_, false));
    folded_ = out_ + 1;
    kernel_.buffers.push_back({"folded", Buffer::Role::local, dtype_, {}, {}});
    second_ = folded_ + 1;
    kernel_.buffers.push_back({"second", Buffer::Role::local, dtype_, {}, {}});
    std::vector<Dim> inner(extents_.begin() + grid_axes_, extents_.end());
    row_ = second_ + 1;
    kernel_.buffers.push_back({"row", Buffer::Role::local, dtype_, inner, {}});
  }

  std::vector<Range> inner_loops() const {
    std::vector<Range> loops;
    for (int a = grid_axes_; a < rank_; ++a)
      loops.push_back({indices_[static_cast<std::size_t>(a)]});
    return loops;
  }

  Scalar load_input(ScalarBuilder& s) {
    int k = pick(0, inputs_ - 1);
    if (chance(6)) {  // shifted along the last axis, with a fill outside
      std::vector<Dim> index = indices_;
      index.back() = index.back() + Dim(pick(-2, 2));
      Scalar inside = s.in_bounds(index.back(), 0, extents_.back());
      if (!s.is_true(inside)) return s.load(k, dtype_, index, inside, s.constant(dtype_, 1));
    }
    if (chance(6)) {  // through an index that is loaded itself
      Scalar id = s.load(ids_, DType::i64, {indices_.back()});
      return s.load(table_, dtype_, {s.as_dim(id, {0, 3}), mod(indices_[0], 3)});
    }
    return s.load(k, dtype_, indices_);
  }

  Scalar expression(ScalarBuilder& s, int depth, const std::vector<Scalar>& given) {
    if (depth == 0) {
      if (!given.empty() && chance(2)) return any_of(given);
      return chance(5) ? s.cast(s.index(mod(indices_.back(), 5)), dtype_) : load_input(s);
    }
    auto sub = [&] { return expression(s, depth - 1, given); };
    bool real = is_float(dtype_);
    switch (pick(0, real ? 7 : 4)) {
      case 0:
        return s.add(sub(), sub());
      case 1:
        return s.sub(sub(), sub());
      case 2:
        return s.mul(sub(), s.constant(dtype_, 2));
      case 3:
        return s.binary(any_of(std::vector<Prim>{Prim::min, Prim::max}), sub(), sub());
      case 4: {  // compared values are loaded ones: no rounding can turn the choice
        Scalar less = s.binary(Prim::lt, load_input(s), load_input(s));
        return s.select(less, sub(), sub());
      }
      case 5:
        return s.unary(any_of(std::vector<Prim>{Prim::tanh, Prim::sigmoid, Prim::erf, Prim::sin}),
                       sub());
      case 6:
        return s.cast(s.cast(sub(), any_of(std::vector<DType>{DType::f32, DType::f64})), dtype_);
      default:
        return s.unary(Prim::exp, s.unary(Prim::tanh, sub()));
    }
  }

  void add_folding_stage() {
    Stage stage;
    stage.name = "fold";
    stage.reduce = inner_loops();
    ScalarBuilder s(stage.exprs);
    loop::Reduction r;
    bool real = is_float(dtype_);
    int kind = pick(0, real ? 3 : 1);
    std::vector<std::string_view> names;
    auto add = [&](DType d, double init, Scalar element) {
      r.accumulators.push_back(
          {str("a", r.accumulators.size()), d, init, static_cast<std::int64_t>(init)});
      r.elements.push_back(element.id);
    };
    r.scan = chance(5);
    Scalar element = expression(s, 1, {});
    switch (kind) {
      case 0:
        names = {"sum"};
        add(dtype_, 0, element);
        break;
      case 1:
        names = {"max", "sum"};
        add(dtype_, real ? -1e4 : -1000, element);
        add(dtype_, 0, expression(s, 1, {}));
        break;
      case 2:
        names = {"welford"};
        add(dtype_, 0, element);
        add(dtype_, 0, s.constant(dtype_, 0));
        add(dtype_, 0, s.constant(dtype_, 1));
        break;
      default:
        names = {"softmax"};
        add(dtype_, -INFINITY, element);
        add(dtype_, 0, s.constant(dtype_, 1));
    }
    r.combine = *loop::make_combine(names, r.accumulators);
    Scalar result = s.acc(0, dtype_);
    stage.stores.push_back({folded_, {}, result.id});
    if (r.accumulators.size() > 1) stage.stores.push_back({second_, {}, s.acc(1, dtype_).id});
    std::vector<Dim> inner(indices_.begin() + grid_axes_, indices_.end());
    if (r.scan) {
      stage.stores.push_back({row_, inner, result.id});
      has_row_ = true;
    } else if (chance(3)) {
      stage.stores.push_back({row_, inner, element.id});
      has_row_ = true;
    }
    has_second_ = r.accumulators.size() > 1;
    has_folded_ = true;
    stage.reduction = std::move(r);
    kernel_.stages.push_back(std::move(stage));
  }

  void add_local_stage() {
    Stage stage;
    stage.name = "row";
    stage.domain = inner_loops();
    ScalarBuilder s(stage.exprs);
    std::vector<Dim> inner(indices_.begin() + grid_axes_, indices_.end());
    Scalar value = expression(s, 2, locals(s, inner));
    stage.stores.push_back({row_, inner, value.id});
    has_row_ = true;
    kernel_.stages.push_back(std::move(stage));
  }

  std::vector<Scalar> locals(ScalarBuilder& s, const std::vector<Dim>& inner) {
    std::vector<Scalar> given;
    if (has_folded_) given.push_back(s.load(folded_, dtype_, {}));
    if (has_second_) given.push_back(s.load(second_, dtype_, {}));
    if (has_row_) given.push_back(s.load(row_, dtype_, inner));
    return given;
  }

  void add_output_stage() {
    Stage stage;
    stage.name = "out";
    stage.domain = inner_loops();
    ScalarBuilder s(stage.exprs);
    std::vector<Dim> inner(indices_.begin() + grid_axes_, indices_.end());
    Scalar value = expression(s, pick(1, 3), locals(s, inner));
    Store store{out_, indices_, value.id};
    if (chance(4)) store.pred = s.binary(Prim::lt, load_input(s), s.constant(dtype_, 1)).id;
    if (chance(4)) {
      store.mode = any_of(std::vector<Store::Mode>{Store::Mode::add, Store::Mode::max});
      kernel_.buffers[static_cast<std::size_t>(out_)].role = Buffer::Role::inout;
    }
    stage.stores.push_back(store);
    kernel_.stages.push_back(std::move(stage));
  }

  std::mt19937 random_;
  Kernel kernel_;
  int rank_ = 1, grid_axes_ = 0, inputs_ = 1;
  int ids_ = 0, table_ = 0, out_ = 0, folded_ = 0, second_ = 0, row_ = 0;
  bool has_folded_ = false, has_second_ = false, has_row_ = false;
  DType dtype_ = DType::f32;
  std::vector<Dim> extents_, indices_;
};

unsigned setting(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<unsigned>(std::atoi(text)) : otherwise;
}

TEST(Fuzz, RandomKernelsMatchTheReferenceInEveryForm) {
  unsigned first = setting("GEX_FUZZ_SEED", 1), count = setting("GEX_FUZZ_KERNELS", 150);
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    // Long sums of low floats drift: the reference folds one by one.
    check(Fuzzer(seed).make(), 4000);
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace gex::codegen
