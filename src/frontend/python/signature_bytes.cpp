// Serialises a PythonSignature, for graphs kept between processes. Its constants belong to the
// host.

#include <map>

#include "base/error.hpp"
#include "frontend/python/runner.hpp"
#include "program/bytes.hpp"

namespace gex::python {

using program::ByteReader;
using program::ByteWriter;

namespace {

class Writer {
 public:
  void dim(Dim value) {
    value.collect_symbols(symbols_);
    body_.text(value.text());
  }
  void dims(const std::vector<Dim>& values) {
    body_.u64(values.size());
    for (Dim value : values) dim(value);
  }
  ByteWriter& body() { return body_; }

  nb::bytes finish() {
    ByteWriter out;
    out.u64(symbols_.size());
    for (Dim symbol : symbols_) {
      out.text(symbol.name());
      out.i64(symbol.range().lo);
      out.i64(symbol.range().hi);
    }
    out.raw(body_.take());
    const std::string bytes = out.take();
    return nb::bytes(bytes.data(), bytes.size());
  }

 private:
  std::vector<Dim> symbols_;
  ByteWriter body_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes) {
    const std::size_t count = in_.count(24);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = in_.text();
      const std::int64_t low = in_.i64(), high = in_.i64();
      symbols_.emplace(name, Dim::symbol(name, {low, high}));
    }
  }
  Dim dim() {
    return parse_dim(in_.text(), [&](std::string_view name) -> std::optional<Dim> {
      const auto found = symbols_.find(name);
      return found == symbols_.end() ? std::nullopt : std::optional<Dim>(found->second);
    });
  }
  std::vector<Dim> dims() {
    std::vector<Dim> values(in_.count(8));
    for (Dim& value : values) value = dim();
    return values;
  }
  // A position: an argument, an output, an axis; or -1.
  int small() {
    const std::int64_t value = in_.i64();
    if (value < -1 || value > 1 << 24) fail(ErrorCode::parse_error, "invalid position ", value);
    return static_cast<int>(value);
  }
  ByteReader& in() { return in_; }

 private:
  ByteReader in_;
  std::map<std::string, Dim, std::less<>> symbols_;
};

}  // namespace

nb::bytes save_signature(const PythonSignature& signature) {
  Writer out;
  out.body().i64(signature.num_arguments);
  out.body().u64(signature.tensors.size());
  for (int argument : signature.tensors) out.body().i64(argument);
  out.body().u64(signature.integers.size());
  for (const auto& [value, argument] : signature.integers) {
    out.dim(value);
    out.body().i64(argument);
  }
  out.body().u64(signature.outputs.size());
  for (const OutputItem& item : signature.outputs) {
    out.body().u8(static_cast<std::uint8_t>(item.kind));
    out.body().i64(item.of);
    out.dims(item.shape);
    out.dims(item.strides);
    out.dim(item.offset);
    out.dim(item.value);
  }
  out.body().u64(signature.symbols.size());
  for (const SymbolSource& source : signature.symbols) {
    out.dim(source.symbol);
    for (int number : {source.argument, source.axis, source.output}) out.body().i64(number);
    for (std::int64_t number : {source.scale, source.rest}) out.body().i64(number);
  }
  return out.finish();
}

PythonSignature load_signature(const nb::bytes& bytes, std::vector<nb::object> constants) {
  Reader in(std::string_view(bytes.c_str(), bytes.size()));
  PythonSignature signature;
  signature.constants = std::move(constants);
  signature.num_arguments = in.small();
  const int arguments = signature.num_arguments + static_cast<int>(signature.constants.size());
  const auto argument = [&] {
    const int position = in.small();
    if (position >= arguments) fail(ErrorCode::parse_error, "there is no argument ", position);
    return position;
  };
  signature.tensors.resize(in.in().count(8));
  for (int& position : signature.tensors) position = argument();
  signature.integers.resize(in.in().count(16));
  for (auto& [value, position] : signature.integers) {
    value = in.dim();
    position = argument();
  }
  signature.outputs.resize(in.in().count(8));
  for (OutputItem& item : signature.outputs) {
    const std::uint8_t kind = in.in().u8();
    if (kind > static_cast<std::uint8_t>(OutputItem::Kind::none))
      fail(ErrorCode::parse_error, "unknown kind of output ", int{kind});
    item.kind = static_cast<OutputItem::Kind>(kind);
    item.of = in.small();
    item.shape = in.dims();
    item.strides = in.dims();
    item.offset = in.dim();
    item.value = in.dim();
  }
  signature.symbols.resize(in.in().count(8));
  for (SymbolSource& source : signature.symbols) {
    source.symbol = in.dim();
    source.argument = argument();
    source.axis = in.small();
    source.output = in.small();
    source.scale = in.in().i64();
    source.rest = in.in().i64();
    if (source.scale <= 0) fail(ErrorCode::parse_error, "a scale of ", source.scale);
  }
  in.in().must_end();
  return signature;
}

}  // namespace gex::python
