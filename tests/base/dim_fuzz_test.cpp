// Random expressions: after any simplification, values, text and decisions must agree with
// arithmetic.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <thread>

#include "base/dim/dim.hpp"
#include "base/error.hpp"

namespace gex {
namespace {

// The expression as it was written, evaluated without any rule.
struct Tree {
  char op;  // 'n' number, 'v' variable, '+', '-', '*', '/', '%', 'm' min, 'M' max
  std::int64_t value = 0;
  std::unique_ptr<Tree> a, b;
};

struct DivisionByZero {};

std::int64_t python_div(std::int64_t a, std::int64_t b) {
  if (b == 0) throw DivisionByZero{};
  std::int64_t q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}

std::int64_t run(const Tree& t, const std::vector<std::int64_t>& values) {
  if (t.op == 'n') return t.value;
  if (t.op == 'v') return values[static_cast<std::size_t>(t.value)];
  std::int64_t a = run(*t.a, values), b = run(*t.b, values);
  switch (t.op) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return python_div(a, b);
    case '%':
      return a - b * python_div(a, b);
    case 'm':
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

class DimFuzz : public testing::Test {
 protected:
  DimFuzz() {
    Dim s0 = Dim::symbol("s0"), s1 = Dim::symbol("s1", {1, 9}), z = Dim::symbol("z", {-6, 6});
    Dim i = Dim::index("i", s0), j = Dim::index("j", s1), k = Dim::index("k", 5);
    Dim t = Dim::index("t", s0 + 1), u = Dim::index("u", s0 * s1), v = Dim::index("v", i + 2);
    Dim q = Dim::symbol("q");  // no index depends on it, so it may be 0
    variables_ = {s0, s1, z, i, j, k, t, u, v, q};
  }

  std::int64_t pick(std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(random_);
  }

  std::unique_ptr<Tree> grow(int depth) {
    auto t = std::make_unique<Tree>();
    std::int64_t dice = pick(0, 9);
    if (depth == 0 || dice < 2) {
      if (pick(0, 2) == 0) {
        *t = {'n', pick(0, 3) ? pick(1, 8) : pick(-4, 16), nullptr, nullptr};
      } else {
        *t = {'v', pick(0, static_cast<std::int64_t>(variables_.size()) - 1), nullptr, nullptr};
      }
      return t;
    }
    t->op = "+++-**/%/%mM"[pick(0, 11)];
    t->a = grow(depth - 1);
    t->b = grow(t->op == '/' || t->op == '%' ? std::min(depth - 1, 1) : depth - 1);
    return t;
  }

  Dim build(const Tree& t) {
    if (t.op == 'n') return t.value;
    if (t.op == 'v') return variables_[static_cast<std::size_t>(t.value)];
    Dim a = build(*t.a), b = build(*t.b);
    switch (t.op) {
      case '+':
        return a + b;
      case '-':
        return a - b;
      case '*':
        return a * b;
      case '/':
        return floordiv(a, b);
      case '%':
        return mod(a, b);
      case 'm':
        return min(a, b);
      default:
        return max(a, b);
    }
  }

  // Within ranges and extents, each index in a loop that runs.
  std::vector<std::int64_t> assign() {
    std::int64_t s0 = pick(0, 3) ? pick(1, 12) : pick(1, 2), s1 = pick(1, 9);
    std::int64_t i = pick(0, s0 - 1);
    return {s0,
            s1,
            pick(-6, 6),
            i,
            pick(0, s1 - 1),
            pick(0, 4),
            pick(0, s0),
            pick(0, s0 * s1 - 1),
            pick(0, i + 1),
            pick(0, 5)};
  }

  std::int64_t value(Dim e, const std::vector<std::int64_t>& values) {
    return e.eval([&](Dim s) {
      for (std::size_t i = 0; i < variables_.size(); ++i) {
        if (variables_[i] == s) return values[i];
      }
      throw std::logic_error("foreign symbol");
    });
  }

  Dim parse(const std::string& text) {
    return parse_dim(text, [&](std::string_view name) -> std::optional<Dim> {
      for (Dim v : variables_) {
        if (v.name() == name) return v;
      }
      return std::nullopt;
    });
  }

  // GEX_FUZZ_SEED selects other seeds; the default is the same in every run.
  std::mt19937_64 random_{std::getenv("GEX_FUZZ_SEED")
                              ? std::strtoull(std::getenv("GEX_FUZZ_SEED"), nullptr, 10)
                              : 20240607u};
  std::vector<Dim> variables_;
};

TEST_F(DimFuzz, EqualsPlainArithmetic) {
  int checked = 0;
  for (int round = 0; round < 20000; ++round) {
    auto tree = grow(static_cast<int>(pick(1, 4)));
    Dim e;
    try {
      e = build(*tree);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);  // a divisor that is the number 0
      continue;
    }
    ASSERT_EQ(parse(e.text()), e) << e.text() << "  parsed as  " << parse(e.text()).text();
    DimTape tape(variables_);
    int slot = tape.add(e);
    std::vector<std::int64_t> out(static_cast<std::size_t>(tape.slots()));
    for (int a = 0; a < 6; ++a) {
      auto values = assign();
      std::int64_t expected;
      try {
        expected = run(*tree, values);
      } catch (DivisionByZero) {
        continue;
      }
      std::int64_t got = value(e, values);
      ASSERT_EQ(got, expected) << e.text() << " in round " << round;
      ASSERT_LE(e.range().lo, got) << e.text();
      ASSERT_GE(e.range().hi, got) << e.text();
      tape.eval(values, out);
      ASSERT_EQ(out[static_cast<std::size_t>(slot)], got) << e.text();
      ++checked;
    }
  }
  EXPECT_GT(checked, 60000);
}

TEST_F(DimFuzz, DecisionsNeverContradictValues) {
  int decided = 0;
  for (int round = 0; round < 20000; ++round) {
    std::unique_ptr<Tree> ta = grow(static_cast<int>(pick(1, 3))),
                          tb = grow(static_cast<int>(pick(0, 2)));
    Dim a, b;
    try {
      a = build(*ta), b = build(*tb);
    } catch (const UserError&) {
      continue;
    }
    auto lt = known_lt(a, b), le = known_le(a, b), eq = known_eq(a, b);
    decided += lt.has_value() + le.has_value() + eq.has_value();
    for (int n = 0; n < 6; ++n) {
      auto values = assign();
      std::int64_t x, y;
      try {
        x = run(*ta, values), y = run(*tb, values);
      } catch (DivisionByZero) {
        continue;
      }
      ASSERT_TRUE(!lt || *lt == (x < y)) << a << " < " << b << " at " << x << ", " << y;
      ASSERT_TRUE(!le || *le == (x <= y)) << a << " <= " << b << " at " << x << ", " << y;
      ASSERT_TRUE(!eq || *eq == (x == y)) << a << " == " << b << " at " << x << ", " << y;
    }
  }
  EXPECT_GT(decided, 10000);
}

// A reshape of one shape into another factorisation and back is the identity, for random shapes
// over numbers and sizes.
TEST_F(DimFuzz, ReshapeThereAndBackIsTheIdentity) {
  Dim sizes[] = {Dim::symbol("a"), Dim::symbol("b"), Dim::symbol("c", {1, 64}),
                 Dim(4),           Dim(6),           Dim::symbol("a") + 1};
  for (int round = 0; round < 500; ++round) {
    std::vector<Dim> shape, index;
    for (int d = 0, rank = static_cast<int>(pick(2, 4)); d < rank; ++d) {
      shape.push_back(sizes[pick(0, 5)]);
      index.push_back(Dim::index("i" + std::to_string(d), shape.back()));
    }
    // Join random neighbours: the other factorisation.
    std::vector<Dim> other;
    for (Dim d : shape) {
      if (!other.empty() && pick(0, 1)) {
        other.back() *= d;
      } else {
        other.push_back(d);
      }
    }
    auto linearise = [](const std::vector<Dim>& at, const std::vector<Dim>& in) {
      Dim linear(0);
      for (std::size_t d = 0; d < in.size(); ++d) linear = linear * in[d] + at[d];
      return linear;
    };
    auto delinearise = [](Dim linear, const std::vector<Dim>& in) {
      std::vector<Dim> at(in.size());
      for (std::size_t d = in.size(); d-- > 0;) {
        at[d] = d ? mod(linear, in[d]) : linear;
        linear = floordiv(linear, in[d]);
      }
      return at;
    };
    auto there = delinearise(linearise(index, shape), other);
    auto back = delinearise(linearise(there, other), shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      ASSERT_EQ(back[d], index[d]) << "dim " << d << " of round " << round;
    }
  }
}

TEST_F(DimFuzz, ThreadsGetTheSameHandles) {
  std::vector<std::unique_ptr<Tree>> trees;
  for (int n = 0; n < 2000; ++n) trees.push_back(grow(3));
  std::vector<std::vector<const DimNode*>> results(8);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (const auto& tree : trees) {
        try {
          result.push_back(build(*tree).node());
        } catch (const UserError&) {
          result.push_back(nullptr);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(DimSpeed, SmallOperationsTakeAboutAMicrosecond) {
  Dim s[8];
  for (int n = 0; n < 8; ++n) s[n] = Dim::symbol("speed" + std::to_string(n));
  std::clock_t start = std::clock();  // time of this process: others may be busy
  int operations = 0;
  Dim last;
  for (int n = 0; n < 20000; ++n) {
    Dim a = s[n % 8] * (n + 2) + s[(n + 3) % 8];  // new expressions: nothing is cached
    last = floordiv(a + n, s[(n + 5) % 8]);
    operations += 4;
  }
  double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("operations_per_second", static_cast<int>(operations / seconds));
  std::printf("%.2f million new expressions a second\n", operations / seconds / 1e6);
  EXPECT_GT(operations / seconds,
            1e4);  // far below the usual: for loaded machines and sanitizers
  EXPECT_EQ(last.kind(), Dim::Kind::floordiv);
}

}  // namespace
}  // namespace gex
