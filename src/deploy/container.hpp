#pragma once
// The container of a model file (.gexe): a table of named sections, then their contents, each from
// a multiple of 64 bytes on (weights: of 4096). docs/artifact.md has the format byte by byte.
// Reads stay inside the file for any contents of the table.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gex::deploy {

inline constexpr std::string_view kMagic = "GEXE\r\n\x1a\n";
inline constexpr std::uint32_t kFormat = 4;
inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kPageAlignment = 4096;

struct Section {
  std::string name;
  std::string_view bytes;
  std::uint64_t checksum = 0;
  bool checked_at_use = false;  // its parts have their own checksums; the section has none
};

class Container {
 public:
  // UserError(parse_error): not a model file, another format version, truncated or damaged. The
  // contents of sections are not checked.
  static Container view(std::string_view file);

  const std::vector<Section>& sections() const { return sections_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // UserError(parse_error) if it is absent or its checksum is wrong.
  std::string_view section(std::string_view name) const;

 private:
  const Section* find(std::string_view name) const;
  std::vector<Section> sections_;
};

// The parts of a section, in order.
struct Part {
  std::string_view bytes;
  std::size_t alignment = 1;
};

struct NewSection {
  std::string name;  // at most 31 bytes
  std::vector<Part> parts;
  bool checked_at_use = false;
};

// The bytes of the parts must stay valid.
void write_container(const std::vector<NewSection>& sections,
                     const std::function<void(std::string_view)>& sink);

std::uint64_t checksum_of(std::string_view bytes);

}  // namespace gex::deploy
