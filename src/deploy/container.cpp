#include "deploy/container.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "program/bytes.hpp"

namespace gex::deploy {

namespace {

using program::ByteReader;
using program::ByteWriter;

constexpr std::size_t kNameBytes = 32;
constexpr std::size_t kEntryBytes = 64;
// Magic, format version, number of sections, file size, checksum of these fields and of the table.
constexpr std::size_t kStartBytes = 8 + 4 + 4 + 8 + 8;
constexpr std::uint32_t kCheckedAtUse = 1;
constexpr std::uint32_t kMostSections = 1 << 16;

std::size_t aligned(std::size_t position, std::size_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}

std::size_t alignment_of(const NewSection& section) {
  return section.checked_at_use ? kPageAlignment : kAlignment;
}

// Calls `piece` with each part and with the zeros before it; returns where the section ends.
std::size_t each_piece(const NewSection& section,
                       const std::function<void(std::string_view)>& piece) {
  static const std::string zeros(kPageAlignment, '\0');
  std::size_t at = 0;
  for (const Part& part : section.parts) {
    const std::size_t begin = aligned(at, part.alignment);
    piece(std::string_view(zeros).substr(0, begin - at));
    piece(part.bytes);
    at = begin + part.bytes.size();
  }
  return at;
}

std::uint64_t checksum_of(const NewSection& section) {
  if (section.checked_at_use) return 0;
  std::string all;
  each_piece(section, [&](std::string_view bytes) { all += bytes; });
  return deploy::checksum_of(all);
}

std::string name_in(std::string_view field) {
  return std::string(field.substr(0, field.find('\0')));
}

}  // namespace

std::uint64_t checksum_of(std::string_view bytes) { return hash_text(bytes, kFormat); }

void write_container(const std::vector<NewSection>& sections,
                     const std::function<void(std::string_view)>& sink) {
  ByteWriter table;
  std::size_t at = kStartBytes + sections.size() * kEntryBytes;
  std::vector<std::size_t> begins;
  for (const NewSection& section : sections) {
    GEX_CHECK(section.name.size() < kNameBytes, "section name ", section.name);
    const std::size_t size = each_piece(section, [](std::string_view) {});
    at = aligned(at, alignment_of(section));
    begins.push_back(at);
    std::string name = section.name;
    name.resize(kNameBytes, '\0');
    table.raw(name);
    table.u64(at);
    table.u64(size);
    table.u64(checksum_of(section));
    table.u64(section.checked_at_use ? kCheckedAtUse : 0);
    at += size;
  }
  const std::string entries = table.take();
  ByteWriter start;
  start.raw(kMagic);
  start.u32(kFormat);
  start.u32(static_cast<std::uint32_t>(sections.size()));
  start.u64(at);
  std::string head = start.take();
  ByteWriter sum;
  sum.u64(checksum_of(head + entries));
  head += sum.take() + entries;
  sink(head);
  std::size_t position = head.size();
  for (std::size_t k = 0; k < sections.size(); ++k) {
    sink(std::string(begins[k] - position, '\0'));
    position = begins[k] + each_piece(sections[k], sink);
  }
}

Container Container::view(std::string_view file) {
  ByteReader reader(file);
  if (file.size() < kStartBytes || reader.raw(kMagic.size()) != kMagic)
    fail(ErrorCode::parse_error, "it is not a gex model file");
  const std::uint32_t format = reader.u32();
  if (format != kFormat)
    fail(ErrorCode::parse_error, "it has format ", format, ", this gex reads ", kFormat,
         "; compile the model again");
  const std::uint32_t count = reader.u32();
  const std::uint64_t size = reader.u64();
  const std::uint64_t expected = reader.u64();
  if (size != file.size())
    fail(ErrorCode::parse_error, "it should have ", size, " bytes but has ", file.size());
  if (count > kMostSections) fail(ErrorCode::parse_error, "its header is damaged");
  const std::string_view table = reader.raw(count * kEntryBytes);
  const std::size_t sum_at = kStartBytes - 8;
  if (deploy::checksum_of(std::string(file.substr(0, sum_at)) + std::string(table)) != expected)
    fail(ErrorCode::parse_error, "its header is damaged");
  Container container;
  ByteReader entries(table);
  for (std::uint32_t k = 0; k < count; ++k) {
    Section section;
    section.name = name_in(entries.raw(kNameBytes));
    const std::uint64_t begin = entries.u64(), bytes = entries.u64();
    section.checksum = entries.u64();
    section.checked_at_use = (entries.u64() & kCheckedAtUse) != 0;
    if (begin > file.size() || bytes > file.size() - begin)
      fail(ErrorCode::parse_error, "its section \"", section.name, "\" lies outside of the file");
    section.bytes = file.substr(begin, bytes);
    container.sections_.push_back(std::move(section));
  }
  return container;
}

const Section* Container::find(std::string_view name) const {
  for (const Section& section : sections_)
    if (section.name == name) return &section;
  return nullptr;
}

std::string_view Container::section(std::string_view name) const {
  const Section* found = find(name);
  if (found == nullptr) fail(ErrorCode::parse_error, "it has no section \"", name, "\"");
  if (!found->checked_at_use && deploy::checksum_of(found->bytes) != found->checksum)
    fail(ErrorCode::parse_error, "its section \"", name, "\" is damaged");
  return found->bytes;
}

}  // namespace gex::deploy
