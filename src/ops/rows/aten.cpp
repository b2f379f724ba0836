#include "ops/rows/aten.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/error.hpp"

namespace gex {

namespace {

[[noreturn]] void wrong_kind(const AtenCall& call, std::size_t i, const char* expected) {
  fail(ErrorCode::invalid_argument, call.overload(), ": argument ", i, " is not ", expected);
}

template <class T>
const T& get_arg(const AtenCall& call, std::size_t i, const char* expected) {
  if (i >= call.size()) wrong_kind(call, i, expected);
  const T* value = std::get_if<T>(&call.arg(i).v);
  if (value == nullptr) wrong_kind(call, i, expected);
  return *value;
}

struct RowTable {
  std::mutex mutex;
  std::unordered_map<std::string, AtenRow> free_rows;
  std::unordered_map<std::string_view, const AtenRow*> by_overload;
  std::size_t ops_seen = 0;
};

RowTable& table() {
  static RowTable* t = new RowTable;  // never destroyed: rows are looked up until the process ends
  return *t;
}

struct FactTable {
  std::mutex mutex;
  std::map<std::string, AtenFacts, std::less<>> by_name;
};

FactTable& fact_table() {
  static FactTable* t = new FactTable;
  return *t;
}

void refresh(RowTable& t, const std::vector<const OpDef*>& ops) {
  if (t.ops_seen == ops.size()) return;
  t.by_overload.clear();
  auto claim = [&](const AtenRow& row) {
    GEX_CHECK(t.by_overload.emplace(row.overload, &row).second, row.overload, " has two rows");
  };
  for (const OpDef* op : ops) {
    for (const AtenRow& row : op->aten) claim(row);
  }
  for (const auto& [name, row] : t.free_rows) claim(row);
  t.ops_seen = ops.size();
}

}  // namespace

Value* AtenCall::tensor(std::size_t i) const { return get_arg<Value*>(*this, i, "a tensor"); }

std::vector<Value*> AtenCall::tensors(std::size_t i) const {
  std::vector<Value*> values;
  for (const AtenArg& a : get_arg<std::vector<AtenArg>>(*this, i, "a list of tensors")) {
    if (!a.is_tensor() && !a.is_none()) wrong_kind(*this, i, "a list of tensors");
    values.push_back(a.is_tensor() ? std::get<Value*>(a.v) : nullptr);
  }
  return values;
}

bool AtenCall::flag(std::size_t i) const {
  if (const Dim* d = i < size() ? std::get_if<Dim>(&args_[i].v) : nullptr; d && d->is_const()) {
    return d->constant() != 0;
  }
  return get_arg<bool>(*this, i, "a bool");
}

Dim AtenCall::dim(std::size_t i) const {
  if (i < size() && std::holds_alternative<bool>(args_[i].v)) return Dim(flag(i) ? 1 : 0);
  return get_arg<Dim>(*this, i, "an integer");
}

std::int64_t AtenCall::integer(std::size_t i) const {
  const Dim d = dim(i);
  if (!d.is_const()) {
    fail(ErrorCode::unsupported, overload_, ": argument ", i, " must be a constant integer, got ",
         d);
  }
  return d.constant();
}

bool AtenCall::is_constant_number(std::size_t i) const {
  if (i >= size()) return false;
  const auto& v = args_[i].v;
  if (const Dim* d = std::get_if<Dim>(&v)) return d->is_const();
  return std::holds_alternative<double>(v) || std::holds_alternative<bool>(v);
}

double AtenCall::number(std::size_t i) const {
  if (i < size()) {
    const auto& v = args_[i].v;
    if (const double* d = std::get_if<double>(&v)) return *d;
    if (const bool* b = std::get_if<bool>(&v)) return *b ? 1 : 0;
  }
  return static_cast<double>(integer(i));
}

DType AtenCall::dtype(std::size_t i) const { return get_arg<DType>(*this, i, "a dtype"); }

const std::string& AtenCall::string(std::size_t i) const {
  return get_arg<std::string>(*this, i, "a string");
}

std::vector<Dim> AtenCall::dims(std::size_t i) const {
  if (i < size() && std::holds_alternative<Dim>(args_[i].v)) return {dim(i)};
  std::vector<Dim> dims;
  for (const AtenArg& a : get_arg<std::vector<AtenArg>>(*this, i, "a list of integers")) {
    const Dim* d = std::get_if<Dim>(&a.v);
    if (d == nullptr) wrong_kind(*this, i, "a list of integers");
    dims.push_back(*d);
  }
  return dims;
}

std::vector<std::int64_t> AtenCall::integers(std::size_t i) const {
  std::vector<std::int64_t> values;
  for (Dim d : dims(i)) {
    if (!d.is_const()) {
      fail(ErrorCode::unsupported, overload_, ": argument ", i, " must hold constants, got ", d);
    }
    values.push_back(d.constant());
  }
  return values;
}

void register_aten_row(std::string overload, std::function<std::vector<Value*>(AtenCall&)> import) {
  RowTable& t = table();
  std::lock_guard lock(t.mutex);
  AtenRow row{overload, std::move(import)};
  GEX_CHECK(t.free_rows.emplace(overload, std::move(row)).second, overload, " has two rows");
  t.ops_seen = 0;
}

const AtenRow* find_aten_row(std::string_view overload) {
  const auto ops = all_ops();  // before the lock: loading the built-in ops registers rows
  RowTable& t = table();
  std::lock_guard lock(t.mutex);
  refresh(t, ops);
  auto it = t.by_overload.find(overload);
  return it == t.by_overload.end() ? nullptr : it->second;
}

const AtenFacts& aten_facts(std::string_view name) {
  static const AtenFacts kNothing;
  all_ops();  // loads the built-in ops, which register facts
  FactTable& t = fact_table();
  std::lock_guard lock(t.mutex);
  const auto it = t.by_name.find(name);
  return it == t.by_name.end() ? kNothing : it->second;
}

void register_aten_facts(std::initializer_list<const char*> names, const AtenFacts& facts) {
  FactTable& t = fact_table();
  std::lock_guard lock(t.mutex);
  for (const char* name : names)
    GEX_CHECK(t.by_name.emplace(name, facts).second, name, " has facts twice");
}

std::vector<std::string> all_aten_overloads() {
  const auto ops = all_ops();
  RowTable& t = table();
  std::lock_guard lock(t.mutex);
  refresh(t, ops);
  std::vector<std::string> names;
  for (const auto& [name, row] : t.by_overload) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace gex
