#include "backend/cpu/llvm/line_tables.hpp"

#include <llvm/BinaryFormat/Dwarf.h>

#include <cstdint>

namespace gex::codegen {
namespace {

namespace dwarf = llvm::dwarf;

// The numbers of the two kinds of entries in .debug_info.
enum Abbreviation : std::uint8_t { unit_entry = 1, function_entry = 2 };
constexpr std::uint16_t kDwarfVersion = 4;

class Bytes {
 public:
  template <class T>
  Bytes& fixed(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& byte(unsigned value) { return fixed(static_cast<std::uint8_t>(value)); }
  Bytes& unsigned_leb(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<unsigned>(value & 0x7f) | 0x80);
    return byte(static_cast<unsigned>(value));
  }
  Bytes& signed_leb(std::int64_t value) {
    while (value < -0x40 || value >= 0x40) {
      byte(static_cast<unsigned>(value & 0x7f) | 0x80);
      value >>= 7;
    }
    return byte(static_cast<unsigned>(value & 0x7f));
  }
  Bytes& text(const std::string& value) {
    out_.append(value).push_back('\0');
    return *this;
  }
  // A block that begins with its length in four bytes.
  Bytes& with_length(const Bytes& block) {
    fixed(static_cast<std::uint32_t>(block.out_.size()));
    out_ += block.out_;
    return *this;
  }
  std::size_t size() const { return out_.size(); }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

std::string abbreviation_table() {
  Bytes out;
  const auto attribute = [&](unsigned name, unsigned form) { out.unsigned_leb(name).byte(form); };
  out.byte(unit_entry).byte(dwarf::DW_TAG_compile_unit).byte(dwarf::DW_CHILDREN_yes);
  attribute(dwarf::DW_AT_producer, dwarf::DW_FORM_string);
  attribute(dwarf::DW_AT_language, dwarf::DW_FORM_data2);
  attribute(dwarf::DW_AT_name, dwarf::DW_FORM_string);
  attribute(dwarf::DW_AT_stmt_list, dwarf::DW_FORM_sec_offset);
  attribute(dwarf::DW_AT_low_pc, dwarf::DW_FORM_addr);
  attribute(dwarf::DW_AT_high_pc, dwarf::DW_FORM_data8);
  attribute(0, 0);
  out.byte(function_entry).byte(dwarf::DW_TAG_subprogram).byte(dwarf::DW_CHILDREN_no);
  attribute(dwarf::DW_AT_name, dwarf::DW_FORM_string);
  attribute(dwarf::DW_AT_decl_file, dwarf::DW_FORM_data1);
  attribute(dwarf::DW_AT_decl_line, dwarf::DW_FORM_udata);
  attribute(dwarf::DW_AT_external, dwarf::DW_FORM_flag_present);
  attribute(dwarf::DW_AT_low_pc, dwarf::DW_FORM_addr);
  attribute(dwarf::DW_AT_high_pc, dwarf::DW_FORM_data8);
  attribute(0, 0);
  out.byte(0);
  return out.str();
}

// A unit for each function: each has its own file.
void add_unit(Bytes& info, const NamedCode& function, std::size_t lines_at) {
  const auto address = reinterpret_cast<std::uint64_t>(function.address);
  const auto bytes = static_cast<std::uint64_t>(function.bytes);
  Bytes unit;
  unit.fixed(kDwarfVersion).fixed(std::uint32_t{0}).byte(sizeof address);
  unit.byte(unit_entry).text("gex").fixed(static_cast<std::uint16_t>(dwarf::DW_LANG_C));
  unit.text(function.lines.file).fixed(static_cast<std::uint32_t>(lines_at));
  unit.fixed(address).fixed(bytes);
  unit.byte(function_entry).text(function.name).byte(1);
  unit.unsigned_leb(function.lines.starts.front().line).fixed(address).fixed(bytes);
  unit.byte(0);
  info.with_length(unit);
}

void add_lines(Bytes& lines, const NamedCode& function) {
  Bytes header;
  header.byte(1).byte(1).byte(1);  // bytes and operations of an instruction; statements
  header.byte(static_cast<std::uint8_t>(-5)).byte(14);  // of special opcodes, which are not used
  header.byte(13);
  for (const unsigned operands : {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}) header.byte(operands);
  header.byte(0);  // no folders
  header.text(function.lines.file).byte(0).byte(0).byte(0);
  header.byte(0);
  Bytes table;
  table.fixed(kDwarfVersion).with_length(header);
  table.byte(0).unsigned_leb(1 + sizeof(std::uint64_t)).byte(dwarf::DW_LNE_set_address);
  table.fixed(reinterpret_cast<std::uint64_t>(function.address));
  std::uint64_t offset = 0;
  std::int64_t line = 1;
  for (const LineStart& start : function.lines.starts) {
    table.byte(dwarf::DW_LNS_advance_pc).unsigned_leb(start.offset - offset);
    table.byte(dwarf::DW_LNS_advance_line).signed_leb(start.line - line);
    table.byte(dwarf::DW_LNS_copy);
    offset = start.offset;
    line = start.line;
  }
  table.byte(dwarf::DW_LNS_advance_pc).unsigned_leb(function.bytes - offset);
  table.byte(0).byte(1).byte(dwarf::DW_LNE_end_sequence);
  lines.with_length(table);
}

}  // namespace

LineTables line_tables(std::span<const NamedCode> functions) {
  Bytes info, lines;
  for (const NamedCode& function : functions) {
    if (function.lines.starts.empty()) continue;
    add_unit(info, function, lines.size());
    add_lines(lines, function);
  }
  if (info.size() == 0) return {};
  return {abbreviation_table(), info.str(), lines.str()};
}

}  // namespace gex::codegen
