// gex ops: prints the op definitions as a table.

#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "ir/op_def.hpp"
#include "json.hpp"
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

std::vector<std::string> trait_names(const OpDef& op) {
  std::vector<std::string> names;
  for (const auto& [trait, name] : kTraits)
    if (op.has(trait)) names.emplace_back(name);
  return names;
}

std::string traits_of(const OpDef& op) {
  std::string text;
  for (const std::string& name : trait_names(op)) text += (text.empty() ? "" : " ") + name;
  return text;
}

const char* arity_of(const InputSpec& input) {
  return input.arity == InputSpec::Arity::optional   ? "optional"
         : input.arity == InputSpec::Arity::variadic ? "variadic"
                                                     : "one";
}

std::string json_of(const OpDef& op) {
  std::vector<std::string> inputs, attributes, overloads;
  for (const InputSpec& input : op.inputs)
    inputs.push_back(
        json_object({{"name", json_text(str(input.name))}, {"arity", json_text(arity_of(input))}}));
  for (const AttrField& attr : op.attrs)
    attributes.push_back(json_object({{"name", json_text(str(attr.name))},
                                      {"default", json_text(attr_text(attr.default_value))}}));
  for (const AtenRow& row : op.aten) overloads.push_back(str(row.overload));
  return json_object({{"name", json_text(op.name)},
                      {"inputs", json_list(inputs)},
                      {"attributes", json_list(attributes)},
                      {"doc", json_text(str(op.doc))},
                      {"traits", json_texts(trait_names(op))},
                      {"aten", json_texts(overloads)}});
}

int print_json(const Arguments& arguments) {
  std::vector<std::string> items;
  if (arguments.has("--aten")) {
    const auto overloads = all_aten_overloads();
    std::cout << json_object({{"aten", json_texts({overloads.begin(), overloads.end()})}});
  } else {
    if (!arguments.files().empty())
      items.push_back(json_of(op(arguments.file())));
    else
      for (const OpDef* op : all_ops()) items.push_back(json_of(*op));
    std::cout << json_object({{"ops", json_list(items)}});
  }
  std::cout << "\n";
  return 0;
}

int run(const Arguments& arguments) {
  if (arguments.has("--json")) return print_json(arguments);
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
          "[NAME] [--aten] [--json]",
          "lists the ops",
          "Prints every op as a Markdown table: inputs, attributes with defaults, what it\n"
          "computes, traits. With a name: that op and its ATen overloads. With --json: {\"ops\":\n"
          "[{\"name\", \"inputs\": [{\"name\", \"arity\"}], \"attributes\": [{\"name\", "
          "\"default\"}], \"doc\",\n"
          "\"traits\", \"aten\"}]}, or {\"aten\": [...]} with --aten.",
          {{"--aten", "", "the ATen overloads that become native nodes instead"},
           {"--json", "", "print them as JSON"}},
          1,
          run};
}

}  // namespace gex::tool
