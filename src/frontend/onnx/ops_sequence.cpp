// Sequences and optionals. They are lists of values of the importer, so their operators make no
// nodes: the number of items is known at import.

#include "frontend/onnx/expr.hpp"

namespace gex::onnx {
namespace {

const Item& sequence(const Row& r, std::size_t i) {
  const Item* item = &r.item(i);
  if (item->kind == Item::Kind::optional && item->items.size() == 1) item = &item->items[0];
  if (item->kind != Item::Kind::sequence) r.refuse(str("input ", i, " is not a sequence"));
  return *item;
}

Item make_sequence(std::vector<Item> items, Elem elem) {
  Item s;
  s.kind = Item::Kind::sequence;
  s.elem = items.empty() ? elem : items[0].elem;
  s.items = std::move(items);
  return s;
}

std::size_t position(const Row& r, std::size_t i, std::size_t size, bool may_be_end) {
  std::int64_t at = r.integer(i, "position in a sequence");
  const auto n = static_cast<std::int64_t>(size);
  if (at < 0) at += n;
  if (at < 0 || at > n || (at == n && !may_be_end))
    r.refuse(str("position ", at, " in a sequence of ", n));
  return static_cast<std::size_t>(at);
}

Items insert(Row& r) {
  Item s = sequence(r, 0);
  const std::size_t at = r.has(2) ? position(r, 2, s.items.size(), true) : s.items.size();
  s.items.insert(s.items.begin() + static_cast<std::ptrdiff_t>(at), r.item(1));
  return {make_sequence(std::move(s.items), r.elem(1))};
}

Items erase(Row& r) {
  Item s = sequence(r, 0);
  if (s.items.empty()) r.refuse("the sequence is empty");
  const std::size_t at = r.has(1) ? position(r, 1, s.items.size(), false) : s.items.size() - 1;
  s.items.erase(s.items.begin() + static_cast<std::ptrdiff_t>(at));
  return {make_sequence(std::move(s.items), s.elem)};
}

Items split_to_sequence(Row& r) {
  Graph& g = r.g;
  const std::int64_t axis = r.axis_attr("axis", 0, r.rank());
  const auto size = r.shape()[static_cast<std::size_t>(axis)].as_const();
  if (!size) r.refuse("the size of the split axis is not known at import");
  const bool keep = r.has(1) || r.int_attr("keepdims", 1) != 0;
  Ints sizes;
  if (!r.has(1)) {
    sizes.assign(static_cast<std::size_t>(*size), 1);
  } else {
    const Ints given = r.integers(1, "sizes of the parts");
    if (r.rank(1) > 0) {
      sizes = given;
    } else {
      if (given[0] < 1) r.refuse("parts of size below 1");
      for (std::int64_t at = 0; at < *size; at += given[0])
        sizes.push_back(std::min(given[0], *size - at));
    }
  }
  std::vector<Item> items;
  std::int64_t at = 0;
  for (const std::int64_t n : sizes) {
    Value* part = ops::slice(g, r.in(0), axis, at, n);
    items.push_back(Item::tensor(keep ? part : ops::squeeze(g, part, axis), r.elem()));
    at += n;
  }
  return {make_sequence(std::move(items), r.elem())};
}

Items concat_from_sequence(Row& r) {
  const Item& s = sequence(r, 0);
  const bool stack = r.int_attr("new_axis", 0) != 0;
  if (s.items.empty()) r.refuse("the sequence is empty");
  const int rank = s.items[0].value->type().rank();
  const std::int64_t axis = normal_axis(r.int_attr("axis", 0), rank + (stack ? 1 : 0));
  std::vector<Value*> parts;
  for (const Item& item : s.items)
    parts.push_back(stack ? ops::unsqueeze(r.g, item.value, axis) : item.value);
  return r.one(parts.size() == 1 ? parts[0] : ops::cat(r.g, parts, axis), s.items[0].elem);
}

Items sequence_map(Row& r) {
  const GraphProto& body = r.graph_attr("body");
  const std::size_t count = sequence(r, 0).items.size();
  std::vector<std::vector<Item>> results(body.outputs.size());
  for (std::size_t k = 0; k < count; ++k) {
    Items inputs;
    for (std::size_t i = 0; i < r.num_inputs(); ++i) {
      const bool per_item = r.item(i).kind == Item::Kind::sequence;
      inputs.push_back(per_item ? r.item(i).items.at(k) : r.item(i));
    }
    const Items outputs = r.state.import_subgraph(body, inputs);
    for (std::size_t o = 0; o < outputs.size(); ++o) results[o].push_back(outputs[o]);
  }
  Items sequences;
  for (std::size_t o = 0; o < results.size(); ++o)
    sequences.push_back(make_sequence(std::move(results[o]), body.outputs[o].type.elem));
  return sequences;
}

Items optional_row(Row& r) {
  Item o;
  o.kind = Item::Kind::optional;
  if (r.has(0)) o.items.push_back(r.item(0));
  return {o};
}

Items flag(Row& r, bool value) {
  return {r.state.constant(HostTensor::scalar(DType::boolean, value ? 1 : 0), Elem::boolean)};
}

Items optional_has(Row& r) {
  if (!r.has(0)) return flag(r, false);
  const Item& o = r.item(0);
  return flag(r, o.kind != Item::Kind::optional || !o.items.empty());
}

Items optional_get(Row& r) {
  const Item& o = r.item(0);
  if (o.kind != Item::Kind::optional) return {o};
  if (o.items.empty()) r.refuse("the optional is empty");
  return {o.items[0]};
}

}  // namespace

void add_sequence_rows() {
  add_row("SequenceEmpty", [](Row& r) {
    return Items{make_sequence({}, static_cast<Elem>(r.int_attr("dtype", 1)))};
  });
  add_row("SequenceConstruct", [](Row& r) {
    std::vector<Item> items;
    for (std::size_t i = 0; i < r.num_inputs(); ++i) items.push_back(r.item(i));
    return Items{make_sequence(std::move(items), Elem::f32)};
  });
  add_row("SequenceInsert", insert);
  add_row("SequenceErase", erase);
  add_row("SequenceAt", [](Row& r) {
    const Item& s = sequence(r, 0);
    return Items{s.items[position(r, 1, s.items.size(), false)]};
  });
  add_row("SequenceLength", [](Row& r) {
    const auto n = static_cast<std::int64_t>(sequence(r, 0).items.size());
    return Items{r.state.constant(HostTensor::of_i64({}, std::vector{n}), Elem::i64)};
  });
  add_row("SplitToSequence", split_to_sequence);
  add_row("ConcatFromSequence", concat_from_sequence);
  add_row("SequenceMap", sequence_map);
  add_row("Optional", optional_row);
  add_row("OptionalHasElement", optional_has);
  add_row("OptionalGetElement", optional_get);
}

}  // namespace gex::onnx
