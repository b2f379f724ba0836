#pragma once
// The binary form of what is kept between processes: a header that says who wrote it and for which
// machine, then named sections, each with its size and checksum.
//
//   "GEXART\r\n"  version  |  header: fields, then name, size and checksum of each section  |
//   contents of the sections, each from a multiple of 64 bytes on
//
// Whoever reads one decides by the header whether it is theirs; a reader never goes past the end.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.hpp"

namespace gex::program {

inline constexpr std::uint32_t kArtefactVersion = 2;
inline constexpr std::string_view kArtefactMagic = "GEXART\r\n";  // what every file starts with

struct Artefact {
  struct Section {
    std::string name;
    std::string bytes;
    // Instead of `bytes`: memory of somebody else, a constant to be written or a part of a file
    // that was read. It must live as long as the artefact is used.
    std::string_view borrowed = {};
    std::string_view content() const { return borrowed.data() != nullptr ? borrowed : bytes; }
  };
  std::string kind;    // "program", "object", "tuning"
  std::string key;     // of what it is, as whoever keeps it calls it
  std::string build;   // of the engine that wrote it
  std::string target;  // the processor and its features
  std::string label;   // for people: the name of a graph or kernel
  std::vector<Section> sections;

  std::string_view section(std::string_view name) const;  // UserError(parse_error) if absent
};

std::string write(const Artefact& artefact);
// In pieces, so that large sections are never copied.
void write(const Artefact& artefact, const std::function<void(std::string_view)>& sink);
// UserError(parse_error): not an artefact, of another version, cut short or damaged.
Artefact read_artefact(std::string_view bytes);
// The same with sections that borrow from `bytes`.
Artefact view_artefact(std::string_view bytes);

// A Program without its functions: section "program" (its text) and one for each constant, which
// borrows from the program.
void save(const Program& program, Artefact& artefact);
Program load(const Artefact& artefact);  // UserError

}  // namespace gex::program
