// The metadata section: names, types, places of weights, gears.

#include <algorithm>

#include "base/error.hpp"
#include "deploy/model.hpp"
#include "program/bytes.hpp"

namespace gex::deploy {

namespace {

using program::ByteReader;
using program::ByteWriter;

void write_infos(const std::vector<TensorInfo>& infos, ByteWriter& out) {
  out.u64(infos.size());
  for (const TensorInfo& info : infos) {
    out.text(info.name);
    out.text(info.type);
  }
}

std::vector<TensorInfo> read_infos(ByteReader& in) {
  std::vector<TensorInfo> infos(in.count(16));
  for (TensorInfo& info : infos) {
    info.name = in.text();
    info.type = in.text();
  }
  return infos;
}

void write_gears(const runtime::GearOptions& gears, ByteWriter& out) {
  out.u8(static_cast<std::uint8_t>(gears.policy));
  out.u32(static_cast<std::uint32_t>(gears.exact_first));
  out.u8(gears.refuse_others ? 1 : 0);
  out.u64(gears.ladders.size());
  for (const runtime::GearOptions::Ladder& ladder : gears.ladders) {
    out.u64(ladder.symbols.size());
    for (Dim symbol : ladder.symbols) out.text(symbol.is_symbol() ? symbol.name() : "");
    out.u64(ladder.rows.size());
    for (const std::vector<std::int64_t>& row : ladder.rows) {
      GEX_CHECK(row.size() == ladder.symbols.size(), "a row of gears");
      for (std::int64_t size : row) out.i64(size);
    }
  }
}

runtime::GearOptions read_gears(ByteReader& in) {
  using Policy = runtime::GearOptions::Policy;
  runtime::GearOptions gears;
  const std::uint8_t policy = in.u8();
  if (policy > static_cast<std::uint8_t>(Policy::listed))
    fail(ErrorCode::parse_error, "its gears are damaged");
  gears.policy = static_cast<Policy>(policy);
  gears.exact_first = static_cast<int>(in.u32() & 0xffff);
  gears.refuse_others = in.u8() != 0;
  gears.ladders.resize(in.count(16));
  for (runtime::GearOptions::Ladder& ladder : gears.ladders) {
    const std::size_t symbols = in.count(8);
    if (symbols == 0) fail(ErrorCode::parse_error, "its gears are damaged");
    for (std::size_t k = 0; k < symbols; ++k) {
      const std::string name = in.text();
      ladder.symbols.push_back(name.empty() ? Dim(0) : Dim::symbol(name));
    }
    ladder.rows.resize(in.count(8 * symbols));
    for (std::vector<std::int64_t>& row : ladder.rows) {
      for (std::size_t k = 0; k < symbols; ++k) row.push_back(in.i64());
      for (std::int64_t size : row)
        if (size < 0) fail(ErrorCode::parse_error, "its gears are damaged");
    }
  }
  return gears;
}

}  // namespace

std::string serialise(const Metadata& metadata) {
  ByteWriter out;
  out.text(metadata.name);
  out.text(metadata.engine);
  out.text(metadata.source);
  out.u8(metadata.fast_math ? 1 : 0);
  write_infos(metadata.inputs, out);
  write_infos(metadata.outputs, out);
  out.u64(metadata.weights.size());
  for (const WeightPlace& place : metadata.weights) {
    out.u64(place.offset);
    out.u64(place.bytes);
    out.u64(place.checksum);
    out.text(place.name);
  }
  write_gears(metadata.gears, out);
  return out.take();
}

Metadata parse_metadata(std::string_view bytes) {
  ByteReader in(bytes);
  Metadata metadata;
  metadata.name = in.text();
  metadata.engine = in.text();
  metadata.source = in.text();
  metadata.fast_math = in.u8() != 0;
  metadata.inputs = read_infos(in);
  metadata.outputs = read_infos(in);
  metadata.weights.resize(in.count(32));
  for (WeightPlace& place : metadata.weights) {
    place.offset = in.u64();
    place.bytes = in.u64();
    place.checksum = in.u64();
    place.name = in.text();
  }
  metadata.gears = read_gears(in);
  in.must_end();
  return metadata;
}

std::string section_name(std::size_t model, std::string_view what) { return str(model, "/", what); }

std::vector<std::string> code_levels(const Container& container, std::size_t model) {
  const std::string prefix = section_name(model, kCodeSections);
  std::vector<std::string> levels;
  for (const Section& section : container.sections())
    if (section.name.starts_with(prefix)) levels.push_back(section.name.substr(prefix.size()));
  std::ranges::sort(levels);
  return levels;
}

std::vector<std::string> model_names(const Container& container) {
  std::vector<std::string> names;
  while (container.has(section_name(names.size(), "meta")))
    names.push_back(parse_metadata(container.section(section_name(names.size(), "meta"))).name);
  return names;
}

}  // namespace gex::deploy
