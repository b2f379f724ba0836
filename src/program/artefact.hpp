#pragma once
// The binary container for what is kept between processes: a header that says who wrote it and for
// which machine, then named sections, each with size and checksum.
//
//   "GEXART\r\n"  version  |  header: fields, then name, size and checksum of each section  |
//   contents of the sections, each aligned to 64 bytes
//
// Readers decide by the header whether they can use it; a reader never reads past the end.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.hpp"

namespace gex::program {

inline constexpr std::uint32_t kArtefactVersion = 3;
inline constexpr std::string_view kArtefactMagic = "GEXART\r\n";  // the first bytes of every file

struct Artefact {
  struct Section {
    std::string name;
    std::string bytes;
    // Replaces `bytes`: borrowed memory, a constant to be written or a part of a file that was
    // read. It must outlive the artefact.
    std::string_view borrowed = {};
    std::string_view content() const { return borrowed.data() != nullptr ? borrowed : bytes; }
  };
  std::string kind;    // "program", "object", "tuning"
  std::string key;     // what the store finds it by
  std::string build;   // of the engine that wrote it
  std::string target;  // the processor and its features
  std::string label;   // for people: the name of a graph or kernel
  std::vector<Section> sections;

  std::string_view section(std::string_view name) const;  // UserError(parse_error) if absent
};

std::string write(const Artefact& artefact);
// In parts, so that large sections are never copied.
void write(const Artefact& artefact, const std::function<void(std::string_view)>& sink);
// UserError(parse_error): not an artefact, another version, truncated or damaged.
Artefact read_artefact(std::string_view bytes);
// As above, with sections that borrow from `bytes`.
Artefact view_artefact(std::string_view bytes);

// A Program without its functions: section "program" (its text) and one for each constant, which
// borrows from the program.
void save(const Program& program, Artefact& artefact);
Program load(const Artefact& artefact);  // UserError

}  // namespace gex::program
