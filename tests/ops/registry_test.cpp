// Every definition is complete, and its traits match its body.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/op_def.hpp"
#include "loop/body.hpp"
#include "ops/rows/aten.hpp"

namespace gex {
namespace {

bool runs_as_step(const OpDef& op) {
  return op.has(Trait::effect) || (op.has(Trait::control) && !op.expand) || op.name == "constant" ||
         op.name == "call";
}

TEST(Registry, ContainsTheFamilies) {
  EXPECT_GE(all_ops().size(), 80u);
  for (const char* name : {"add", "tanh", "reduce_sum", "reshape", "matmul", "full", "if", "call",
                           "index", "softmax"}) {
    EXPECT_NE(find_op(name), nullptr) << name;
  }
}

TEST(Registry, EveryOpHasDocAndExactlyOneDefinition) {
  for (const OpDef* op : all_ops()) {
    EXPECT_FALSE(op->doc.empty()) << op->name;
    const int meanings = (op->body != nullptr) + (op->expand != nullptr) + runs_as_step(*op);
    EXPECT_EQ(meanings, 1) << op->name;
  }
}

TEST(Registry, TraitsMatchTheBody) {
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(op->name);
    const loop::OpBody* body = op->body.get();
    const bool map = body && body->map;
    const bool reduction = body && body->reduction && !body->reduction->scan;
    const bool scan = body && body->reduction && body->reduction->scan;
    const bool scatter = body && body->scatter;
    EXPECT_EQ(op->has(Trait::reduction), reduction);
    EXPECT_EQ(op->has(Trait::scan), scan);
    EXPECT_EQ(op->has(Trait::scatter), scatter);
    EXPECT_EQ(op->has(Trait::composite), op->expand != nullptr);
    if (op->has(Trait::elementwise) || op->has(Trait::view)) {
      EXPECT_TRUE(map);
    }
    if (op->has(Trait::constant)) {
      EXPECT_TRUE(op->inputs.empty());
    }
    EXPECT_FALSE(op->has(Trait::pure) && op->has(Trait::effect));
    if (op->has(Trait::commutative)) {
      EXPECT_GE(op->inputs.size(), 2u);
    }
  }
}

TEST(Registry, AtenOverloadsAreSpelledInFullAndFound) {
  const auto overloads = all_aten_overloads();
  EXPECT_GE(overloads.size(), 200u);
  EXPECT_EQ(std::set<std::string>(overloads.begin(), overloads.end()).size(), overloads.size());
  for (const std::string& name : overloads) {
    EXPECT_EQ(std::count(name.begin(), name.end(), '.'), 2) << name;
    const AtenRow* row = find_aten_row(name);
    ASSERT_NE(row, nullptr) << name;
    EXPECT_TRUE(row->import) << name;
  }
  EXPECT_EQ(find_aten_row("aten.no_such_op.default"), nullptr);
}

}  // namespace
}  // namespace gex
