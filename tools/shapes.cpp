#include "shapes.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/suggest.hpp"

namespace gex::tool {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool is_number(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_name(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && (letter(text[0]) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || c == '_' || (c >= '0' && c <= '9'); });
}

class Sizes {
 public:
  Dim size(const std::string& text, const std::string& known_as, const std::string& where) {
    if (is_number(text)) return Dim(to_integer(text, where));
    const auto dots = text.find("..");
    if (dots == std::string::npos) {
      if (!is_name(text))
        fail(ErrorCode::invalid_argument, where, ": '", text,
             "' is not a number, a range (1..32) or a name");
      return symbol(text, {1, DimRange::kInf}, where);
    }
    const std::int64_t lowest = to_integer(text.substr(0, dots), where);
    const std::string upper = text.substr(dots + 2);
    const std::int64_t highest = upper.empty() ? DimRange::kInf : to_integer(upper, where);
    if (lowest < 0 || highest < lowest)
      fail(ErrorCode::invalid_argument, where, ": '", text, "' is not a range of sizes");
    return symbol(known_as, {lowest, highest}, where);
  }
  bool knows(const std::string& name) const { return symbols_.contains(name); }
  Dim named(const std::string& name) {
    return symbols_.try_emplace(name, Dim::symbol(name, {1, DimRange::kInf})).first->second;
  }

 private:
  // A name is the same size in all inputs.
  Dim symbol(const std::string& name, DimRange range, const std::string& where) {
    const auto [at, is_new] = symbols_.try_emplace(name, Dim::symbol(name, range));
    if (!is_new && at->second.range() != range) {
      if (range.hi == DimRange::kInf && range.lo == 1) return at->second;
      fail(ErrorCode::invalid_argument, where, ": the size '", name,
           "' has another range elsewhere; give it the same one");
    }
    return at->second;
  }
  std::map<std::string, Dim> symbols_;
};

}  // namespace

namespace {

// An input without --shape: sizes that the file names like those of another input are equal to
// them.
std::optional<onnx::InputFact> same_names(const onnx::ValueInfo& input, Sizes& sizes) {
  const onnx::TypeProto& type = input.type;
  if (type.kind != onnx::TypeProto::Kind::tensor || !type.shape) return std::nullopt;
  if (std::ranges::none_of(*type.shape, [&](const onnx::TypeProto::Size& size) {
        return !size.value && sizes.knows(size.symbol);
      }))
    return std::nullopt;
  onnx::InputFact fact;
  fact.elem = type.elem;
  fact.shape.emplace();
  for (std::size_t d = 0; d < type.shape->size(); ++d) {
    const onnx::TypeProto::Size& size = (*type.shape)[d];
    if (size.value && *size.value >= 0) {
      fact.shape->emplace_back(*size.value);
      continue;
    }
    const std::string name = is_name(size.symbol) ? size.symbol : str("input_", input.name, "_", d);
    fact.shape->push_back(sizes.named(name));
  }
  return fact;
}

}  // namespace

std::vector<std::optional<onnx::InputFact>> shapes_given(const onnx::ModelProto& model,
                                                         const Arguments& arguments) {
  const std::vector<const onnx::ValueInfo*> inputs = onnx::model_inputs(model);
  std::vector<std::optional<onnx::InputFact>> facts(inputs.size());
  Sizes sizes;
  std::vector<std::string_view> names;
  for (const onnx::ValueInfo* input : inputs) names.push_back(input->name);
  for (const auto& [name, text] : arguments.pairs("--shape")) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      fail(ErrorCode::not_found, "the model has no input '", name, "'", suggestion(name, names));
    const auto k = static_cast<std::size_t>(at - names.begin());
    const onnx::TypeProto& type = inputs[k]->type;
    const std::string where = "--shape " + name;
    const std::vector<std::string> parts =
        text.empty() ? std::vector<std::string>() : split(text, ',');
    if (type.shape && type.shape->size() != parts.size())
      fail(ErrorCode::invalid_argument, where, " has ", parts.size(), " sizes, but the input has ",
           type.shape->size(), " axes");
    onnx::InputFact fact;
    fact.kind = onnx::Item::Kind::tensor;
    fact.elem = type.elem;
    fact.shape.emplace();
    for (std::size_t d = 0; d < parts.size(); ++d) {
      std::string known_as = type.shape ? (*type.shape)[d].symbol : "";
      if (!is_name(known_as)) known_as = str(is_name(name) ? name : str("input", k), "_", d);
      fact.shape->push_back(sizes.size(parts[d], known_as, where));
    }
    facts[k] = std::move(fact);
  }
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (!facts[k]) facts[k] = same_names(*inputs[k], sizes);
  return facts;
}

runtime::GearOptions gears_given(const program::Program& program, const Arguments& arguments) {
  using Policy = runtime::GearOptions::Policy;
  runtime::GearOptions gears;
  for (const std::string& text : arguments.values("--gears")) {
    if (text == "auto") {
      gears.policy = Policy::automatic;
      continue;
    }
    const auto equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto symbol = std::find_if(program.symbols.begin(), program.symbols.end(),
                                     [&](Dim known) { return known.name() == name; });
    if (equals == std::string::npos || symbol == program.symbols.end()) {
      std::string known;
      for (Dim dim : program.symbols) known += (known.empty() ? "" : ", ") + dim.name();
      fail(ErrorCode::invalid_argument, "--gears takes auto or SIZE=1,8,32, got '", text,
           "'; sizes that vary: ", known.empty() ? "none" : known);
    }
    gears.policy = Policy::listed;
    runtime::GearOptions::Ladder ladder{{*symbol}, {}};
    for (const std::string& size : split(text.substr(equals + 1), ','))
      ladder.rows.push_back({to_integer(size, "--gears")});
    std::sort(ladder.rows.begin(), ladder.rows.end());
    gears.ladders.push_back(std::move(ladder));
  }
  return gears;
}

}  // namespace gex::tool
