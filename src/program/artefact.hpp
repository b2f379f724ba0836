#pragma once
// The binary form of what is kept between processes: a header that says who wrote it and for which
// machine, then named sections, each with its size and checksum.
//
//   "GEXART\r\n"  version  sections  |  header fields  |  (name, size, checksum, bytes)...
//
// Whoever reads one decides by the header whether it is theirs; a reader never goes past the end.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.hpp"

namespace gex::program {

inline constexpr std::uint32_t kArtefactVersion = 1;

struct Artefact {
  struct Section {
    std::string name;
    std::string bytes;
  };
  std::string kind;    // "program", "object", "tuning"
  std::string key;     // of what it is, as whoever keeps it calls it
  std::string build;   // of the engine that wrote it
  std::string target;  // the processor and its features
  std::string label;   // for people: the name of a graph or kernel
  std::vector<Section> sections;

  const std::string& section(std::string_view name) const;  // UserError(parse_error) if absent
};

std::string write(const Artefact& artefact);
// UserError(parse_error): not an artefact, of another version, cut short or damaged.
Artefact read_artefact(std::string_view bytes);

// A Program without its functions: sections "program" (its text) and "constants".
void save(const Program& program, Artefact& artefact);
Program load(const Artefact& artefact);  // UserError

}  // namespace gex::program
