// gex ops: prints the op definitions as a table.

#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "ir/op_def.hpp"
#include "ops/rows/aten.hpp"

namespace gex::tool {
namespace {

constexpr std::pair<Trait, const char*> kTraits[] = {
    {Trait::pure, "pure"},
    {Trait::elementwise, "elementwise"},
    {Trait::reduction, "reduction"},
    {Trait::scan, "scan"},
    {Trait::scatter, "scatter"},
    {Trait::view, "view"},
    {Trait::commutative, "commutative"},
    {Trait::random, "random"},
    {Trait::effect, "effect"},
    {Trait::contraction, "contraction"},
    {Trait::composite, "composite"},
    {Trait::control, "control"},
    {Trait::constant, "constant"},
    {Trait::cheap, "cheap"},
    {Trait::idempotent, "idempotent"},
    {Trait::concatenation, "concatenation"},
};

// "add(a, b)", "cat(xs...)", "batch_norm(x, weight?, bias?, mean, variance; eps = 1e-05)"
std::string signature(const OpDef& op) {
  std::string text = op.name + "(";
  const char* separator = "";
  for (const InputSpec& input : op.inputs) {
    text += str(separator, input.name,
                input.arity == InputSpec::Arity::optional   ? "?"
                : input.arity == InputSpec::Arity::variadic ? "..."
                                                            : "");
    separator = ", ";
  }
  separator = "; ";
  for (const AttrField& attr : op.attrs) {
    text += str(separator, attr.name, " = ", attr_text(attr.default_value));
    separator = ", ";
  }
  return text + ")";
}

std::string traits_of(const OpDef& op) {
  std::string text;
  for (const auto& [trait, name] : kTraits) {
    if (op.has(trait)) text += str(text.empty() ? "" : " ", name);
  }
  return text;
}

int run(const Arguments& arguments) {
  if (arguments.has("--aten")) {
    for (const std::string& overload : all_aten_overloads()) std::cout << overload << "\n";
    return 0;
  }
  if (!arguments.files().empty()) {
    const OpDef& wanted = op(arguments.file());
    std::cout << signature(wanted) << "\n  " << wanted.doc << "\n  " << traits_of(wanted) << "\n";
    for (const AtenRow& row : wanted.aten) std::cout << "  " << row.overload << "\n";
    return 0;
  }
  std::cout << "| op | what it computes | traits |\n|---|---|---|\n";
  for (const OpDef* op : all_ops()) {
    std::cout << "| `" << signature(*op) << "` | " << op->doc << " | " << traits_of(*op) << " |\n";
  }
  return 0;
}

}  // namespace

Command ops_command() {
  return {"ops",
          "[NAME] [--aten]",
          "lists the ops",
          "Prints every op as a Markdown table: inputs, attributes with defaults, what it\n"
          "computes, traits. With a name: that op and its ATen overloads.",
          {{"--aten", "", "the ATen overloads that become native nodes instead"}},
          1,
          run};
}

}  // namespace gex::tool
