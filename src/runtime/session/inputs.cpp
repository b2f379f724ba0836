#include "runtime/session/inputs.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/error.hpp"
#include "base/strided_copy.hpp"
#include "program/solve_size.hpp"

namespace gex::runtime {

using program::InputDesc;

namespace {

template <class List>
std::string bracketed(const List& list) {
  std::ostringstream out;
  out << "[";
  for (std::size_t i = 0; i < list.size(); ++i) out << (i == 0 ? "" : ", ") << list[i];
  out << "]";
  return out.str();
}

std::string expected_text(const InputDesc& desc) {
  if (desc.kind == InputDesc::Kind::integer) return str("the integer ", desc.value);
  std::string text = str(desc.dtype, bracketed(desc.shape));
  if (!desc.strides.empty()) text += str(" with strides ", bracketed(desc.strides));
  return text;
}

std::string actual_text(const InputDesc& desc, const InputArg& arg) {
  if (desc.kind == InputDesc::Kind::integer) return std::to_string(arg.integer);
  return str(arg.tensor.dtype, bracketed(arg.tensor.shape), " with strides ",
             bracketed(arg.tensor.strides));
}

bool is_empty(const TensorRef& tensor) {
  return std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
}

}  // namespace

InputMatcher::InputMatcher(const Image& image) : image_(image) {
  const auto& program = *image.program;
  sources_.resize(program.symbols.size());
  std::vector<bool> bound(program.symbols.size(), false);
  const auto add = [&](int input, Rule::Where where, int axis, Dim dim, const std::string& place) {
    const auto at = std::find(program.symbols.begin(), program.symbols.end(), dim);
    const auto symbol = static_cast<int>(at - program.symbols.begin());
    if (dim.is_symbol() && !bound[index(symbol)]) {
      bound[index(symbol)] = true;
      sources_[index(symbol)] = place;
      bind_rules_.push_back({input, where, axis, symbol});
    } else {
      check_rules_.push_back({input, where, axis, image.slot(dim)});
    }
  };
  for (const InputDesc& desc : program.inputs) fix(desc);
  std::vector<bool> written(program.buffers.size(), false);
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      for (program::BufferId id : program::writes_of(step))
        written[index(image.root[index(id)])] = true;
  for (const InputDesc& desc : program.inputs)
    written_.push_back(desc.buffer >= 0 && written[index(desc.buffer)]);
  // Sizes and integers first: a stride defines a symbol only if nothing else does.
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const InputDesc& desc = program.inputs[i];
    const auto input = static_cast<int>(i);
    if (desc.kind == InputDesc::Kind::integer) {
      add(input, Rule::Where::integer, 0, desc.value, str("input ", i));
      continue;
    }
    if (fixed_[i].rank >= 0) continue;
    for (std::size_t axis = 0; axis < desc.shape.size(); ++axis)
      add(input, Rule::Where::shape, static_cast<int>(axis), desc.shape[axis],
          str("dim ", axis, " of input ", i));
  }
  bind_by_sums(bound);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const InputDesc& desc = program.inputs[i];
    if (desc.kind == InputDesc::Kind::integer || fixed_[i].rank >= 0) continue;
    if (desc.strides.empty() && !desc.shape.empty()) dense_inputs_.push_back(static_cast<int>(i));
    for (std::size_t axis = 0; axis < desc.strides.size(); ++axis)
      add(static_cast<int>(i), Rule::Where::stride, static_cast<int>(axis), desc.strides[axis],
          str("stride ", axis, " of input ", i));
  }
}

// Symbols that appear only inside sums. Whether the division has a remainder is checked afterwards
// with the size.
void InputMatcher::bind_by_sums(std::vector<bool>& bound) {
  const auto& program = *image_.program;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const InputDesc& desc = program.inputs[i];
    if (desc.kind == InputDesc::Kind::integer) continue;
    for (std::size_t axis = 0; axis < desc.shape.size(); ++axis) {
      const auto solved = program::solve_size(desc.shape[axis]);
      if (!solved) continue;
      const auto at = std::ranges::find(program.symbols, solved->symbol) - program.symbols.begin();
      const auto symbol = static_cast<int>(at);
      if (bound[index(symbol)]) continue;
      bound[index(symbol)] = true;
      sources_[index(symbol)] = str("dim ", axis, " of input ", i);
      bind_rules_.push_back({static_cast<int>(i), Rule::Where::shape, static_cast<int>(axis),
                             symbol, solved->scale, solved->rest});
    }
  }
}

void InputMatcher::fix(const InputDesc& desc) {
  const auto is_number = [](Dim d) { return d.is_const(); };
  fixed_.emplace_back();
  if (desc.kind == InputDesc::Kind::integer || !std::ranges::all_of(desc.shape, is_number) ||
      !std::ranges::all_of(desc.strides, is_number))
    return;
  fixed_.back() = {static_cast<int>(desc.shape.size()), static_cast<int>(fixed_numbers_.size())};
  for (Dim size : desc.shape) fixed_numbers_.push_back(size.constant());
  const std::size_t strides = fixed_numbers_.size();
  for (Dim stride : desc.strides) fixed_numbers_.push_back(stride.constant());
  if (!desc.strides.empty()) return;
  fixed_numbers_.resize(strides + desc.shape.size());
  std::int64_t dense = 1;
  for (std::size_t axis = desc.shape.size(); axis-- > 0; dense *= desc.shape[axis].constant())
    fixed_numbers_[strides + axis] = dense;
}

bool InputMatcher::fits_exactly(std::size_t input, const TensorRef& tensor) const {
  const Fixed& fixed = fixed_[input];
  const auto rank = static_cast<std::size_t>(fixed.rank);
  if (tensor.shape.size() != rank || tensor.strides.size() != rank) return false;
  const std::int64_t* numbers = fixed_numbers_.data() + fixed.first;
  for (std::size_t d = 0; d < rank; ++d)
    if (tensor.shape[d] != numbers[d] || tensor.strides[d] != numbers[rank + d]) return false;
  return tensor.data != nullptr && tensor.dtype == image_.program->inputs[input].dtype;
}

void InputMatcher::check_fixed(std::size_t input, const InputArg& arg) const {
  const Fixed& fixed = fixed_[input];
  const auto rank = static_cast<std::size_t>(fixed.rank);
  const std::int64_t* numbers = fixed_numbers_.data() + fixed.first;
  const auto rule = [&](Rule::Where where, std::size_t axis) {
    return Rule{static_cast<int>(input), where, static_cast<int>(axis), 0};
  };
  for (std::size_t d = 0; d < rank; ++d)
    if (arg.tensor.shape[d] != numbers[d])
      fail_mismatch(rule(Rule::Where::shape, d), arg, numbers[d], "");
  if (is_empty(arg.tensor)) return;
  // The stride of an axis of size 0 or 1 does not matter.
  for (std::size_t d = 0; d < rank; ++d)
    if (numbers[d] > 1 && arg.tensor.strides[d] != numbers[rank + d])
      fail_layout(rule(Rule::Where::stride, d), arg, {numbers + rank, numbers + rank + rank});
}

std::int64_t InputMatcher::actual(const Rule& rule, const InputArg& arg) const {
  switch (rule.where) {
    case Rule::Where::shape:
      return arg.tensor.shape[index(rule.axis)];
    case Rule::Where::stride:
      return arg.tensor.strides[index(rule.axis)];
    case Rule::Where::integer:
      return arg.integer;
  }
  return 0;
}

void InputMatcher::fail_mismatch(const Rule& rule, const InputArg& arg, std::int64_t expected,
                                 const char* why) const {
  throw UserError(ErrorCode::shape_mismatch, mismatch_message(rule, arg, expected, why));
}

void InputMatcher::fail_layout(const Rule& rule, const InputArg& arg,
                               std::vector<std::int64_t> strides) const {
  const std::int64_t expected = strides[index(rule.axis)];
  if (written_[index(rule.input)]) fail_mismatch(rule, arg, expected, "");
  throw LayoutMismatch(mismatch_message(rule, arg, expected, ""), rule.input, std::move(strides));
}

std::string InputMatcher::mismatch_message(const Rule& rule, const InputArg& arg,
                                           std::int64_t expected, const char* why) const {
  const InputDesc& desc = image_.program->inputs[index(rule.input)];
  const char* what = rule.where == Rule::Where::shape    ? "dim "
                     : rule.where == Rule::Where::stride ? "stride "
                                                         : "value";
  const std::string place = rule.where == Rule::Where::integer ? what : str(what, rule.axis);
  const char* advice = rule.where == Rule::Where::stride
                           ? "; pass a copy in the expected layout or compile for this layout"
                           : "; pass an input of the expected size or compile for this one";
  return str("input ", rule.input, " \"", desc.name, "\": expected ", expected_text(desc), ", got ",
             actual_text(desc, arg), ": ", place, " should be ", why, expected, advice);
}

void InputMatcher::check_form(std::size_t i, const InputArg& arg) const {
  const InputDesc& desc = image_.program->inputs[i];
  const TensorRef& tensor = arg.tensor;
  if (tensor.dtype != desc.dtype)
    fail(ErrorCode::type_mismatch, "input ", i, " \"", desc.name, "\": expected ",
         expected_text(desc), ", got ", actual_text(desc, arg), "; convert it to ", desc.dtype);
  if (tensor.shape.size() != desc.shape.size() || tensor.strides.size() != desc.shape.size())
    fail(ErrorCode::shape_mismatch, "input ", i, " \"", desc.name, "\": expected ",
         expected_text(desc), ", got ", actual_text(desc, arg), ": it should have ",
         desc.shape.size(), " dims; reshape it");
  for (std::int64_t size : tensor.shape)
    if (size < 0)
      fail(ErrorCode::shape_mismatch, "input ", i, " \"", desc.name,
           "\" has a negative size: ", actual_text(desc, arg));
  if (tensor.data == nullptr && !is_empty(tensor))
    fail(ErrorCode::invalid_argument, "input ", i, " \"", desc.name,
         "\" has a null data pointer; pass a tensor with memory on this device");
}

void InputMatcher::bind(std::span<const InputArg> inputs, std::span<std::int64_t> key) const {
  const auto& descs = image_.program->inputs;
  if (inputs.size() != descs.size())
    fail(ErrorCode::invalid_argument, "program \"", image_.program->name, "\" takes ", descs.size(),
         " inputs, got ", inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (fixed_[i].rank >= 0) {
      if (fits_exactly(i, inputs[i].tensor)) continue;
      check_form(i, inputs[i]);
      check_fixed(i, inputs[i]);
    } else if (descs[i].kind != InputDesc::Kind::integer) {
      check_form(i, inputs[i]);
    }
  }
  for (const Rule& rule : bind_rules_) {
    const InputArg& arg = inputs[index(rule.input)];
    const std::int64_t value = (actual(rule, arg) - rule.rest) / rule.scale;
    const DimRange range = image_.program->symbols[index(rule.target)].range();
    const auto at = [&](std::int64_t symbol) { return symbol * rule.scale + rule.rest; };
    if (value < range.lo) fail_mismatch(rule, arg, at(range.lo), "at least ");
    if (value > range.hi) fail_mismatch(rule, arg, at(range.hi), "at most ");
    key[index(rule.target)] = value;
  }
}

void InputMatcher::check(std::span<const InputArg> inputs,
                         std::span<const std::int64_t> values) const {
  for (const Rule& rule : check_rules_) {
    const InputArg& arg = inputs[index(rule.input)];
    const std::int64_t value = actual(rule, arg), expected = values[index(rule.target)];
    if (value == expected) continue;
    if (rule.where != Rule::Where::stride) fail_mismatch(rule, arg, expected, "");
    // The stride of an axis of size 0 or 1 does not matter.
    if (arg.tensor.shape[index(rule.axis)] <= 1 || is_empty(arg.tensor)) continue;
    std::vector<std::int64_t> strides;
    for (Dim stride : image_.program->inputs[index(rule.input)].strides)
      strides.push_back(values[index(image_.slot(stride))]);
    fail_layout(rule, arg, std::move(strides));
  }
  for (int input : dense_inputs_) check_dense(input, inputs[index(input)]);
}

void InputMatcher::check_dense(int input, const InputArg& arg) const {
  const TensorRef& tensor = arg.tensor;
  if (is_empty(tensor)) return;
  std::int64_t dense = 1;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != dense)
      fail_layout({input, Rule::Where::stride, static_cast<int>(axis), 0}, arg,
                  dense_strides_of(tensor.shape));
    dense *= tensor.shape[axis];
  }
}

}  // namespace gex::runtime
