// gex inspect: the contents of a model file; runs none of it.

#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "deploy/model.hpp"
#include "json.hpp"

namespace gex::tool {
namespace {

using deploy::Container;
using deploy::Metadata;

std::string sizes_of(const std::vector<Dim>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    text += (d == 0 ? "" : ", ") + shape[d].text();
    const DimRange range = shape[d].range();
    if (shape[d].is_symbol() && (range.lo > 1 || range.hi < DimRange::kInf))
      text += str(" in ", range.lo, "..", range.hi);
  }
  return text + "]";
}

// Names of the file with dtypes and sizes of the program.
template <class Desc>
std::string tensor_json(const std::vector<Desc>& program,
                        const std::vector<deploy::TensorInfo>& infos) {
  std::vector<std::string> items;
  for (std::size_t k = 0; k < program.size(); ++k) {
    const std::string name = k < infos.size() ? infos[k].name : program[k].name;
    std::vector<std::string> sizes;
    for (Dim size : program[k].shape)
      sizes.push_back(size.is_const() ? size.text() : json_text(size.text()));
    items.push_back(json_object({{"name", json_text(name)},
                                 {"dtype", json_text(str(program[k].dtype))},
                                 {"shape", json_list(sizes)}}));
  }
  return json_list(items);
}

template <class Desc>
void print_tensors(const char* what, const std::vector<Desc>& program,
                   const std::vector<deploy::TensorInfo>& infos) {
  for (std::size_t k = 0; k < program.size(); ++k)
    std::cout << "  " << what << " " << (k < infos.size() ? infos[k].name : program[k].name) << ": "
              << program[k].dtype << sizes_of(program[k].shape) << "\n";
}

std::size_t steps_of(const program::Program& program) {
  std::size_t steps = 0;
  for (const program::Segment& segment : program.segments) steps += segment.steps.size();
  return steps;
}

struct Entry {
  Metadata metadata;
  program::Program program;
  std::vector<std::string> levels;
};

std::vector<Entry> entries_of(const Container& container) {
  std::vector<Entry> entries;
  while (container.has(deploy::section_name(entries.size(), "meta"))) {
    const std::size_t k = entries.size();
    Entry entry{deploy::parse_metadata(container.section(deploy::section_name(k, "meta"))),
                program::parse_program(container.section(deploy::section_name(k, "program"))),
                deploy::code_levels(container, k)};
    entries.push_back(std::move(entry));
  }
  return entries;
}

void print_json(const Container& container, const std::vector<Entry>& entries) {
  std::vector<std::string> models, sections;
  for (const Entry& entry : entries) {
    std::vector<std::string> levels;
    for (const std::string& level : entry.levels) levels.push_back(json_text(level));
    models.push_back(
        json_object({{"name", json_text(entry.metadata.name)},
                     {"engine", json_text(entry.metadata.engine)},
                     {"source", json_text(entry.metadata.source)},
                     {"inputs", tensor_json(entry.program.inputs, entry.metadata.inputs)},
                     {"outputs", tensor_json(entry.program.outputs, entry.metadata.outputs)},
                     {"target", json_text(entry.program.target)},
                     {"code", json_list(levels)},
                     {"steps", str(steps_of(entry.program))},
                     {"kernels", str(entry.program.kernels.size())},
                     {"weights", str(entry.metadata.weights.size())}}));
  }
  for (const deploy::Section& section : container.sections())
    sections.push_back(
        json_object({{"name", json_text(section.name)}, {"bytes", str(section.bytes.size())}}));
  std::cout << json_object({{"format", str(deploy::kFormat)},
                            {"models", json_list(models)},
                            {"sections", json_list(sections)}})
            << "\n";
}

int run(const Arguments& arguments) {
  const deploy::OpenFile file = deploy::open_model_file(arguments.file());
  try {
    const Container container = Container::view(file.bytes);
    const std::vector<Entry> entries = entries_of(container);
    if (arguments.has("--verify")) {
      const std::string_view weights =
          container.has(deploy::kWeightsSection) ? container.section(deploy::kWeightsSection) : "";
      for (const deploy::Section& section : container.sections()) container.section(section.name);
      for (const Entry& entry : entries) deploy::check_weights(entry.metadata, weights);
    }
    if (arguments.has("--json")) {
      print_json(container, entries);
      return 0;
    }
    for (const Entry& entry : entries) {
      std::cout << "model " << entry.metadata.name << " (from " << entry.metadata.source
                << ", written by gex " << entry.metadata.engine << ")\n";
      print_tensors("input", entry.program.inputs, entry.metadata.inputs);
      print_tensors("output", entry.program.outputs, entry.metadata.outputs);
      std::cout << "  " << steps_of(entry.program) << " steps, " << entry.program.kernels.size()
                << " kernels, " << entry.metadata.weights.size() << " weights, machine code for";
      for (const std::string& level : entry.levels) std::cout << " " << level;
      std::cout << "\n";
    }
    for (const deploy::Section& section : container.sections())
      std::cout << "section " << section.name << ": " << section.bytes.size() << " bytes\n";
    if (arguments.has("--verify")) std::cout << "all checksums match\n";
    if (arguments.has("--program"))
      for (const Entry& entry : entries) std::cout << program::print(entry.program);
    return 0;
  } catch (const UserError& error) {
    fail(error.code(), "'", arguments.file(), "': ", error.what());
  }
}

}  // namespace

Command inspect_command() {
  return {"inspect",
          "MODEL.gexe [options]",
          "shows the contents of a model file",
          "Names, types and sizes of inputs and outputs, steps, processors and sections. Nothing\n"
          "of the file is run.",
          {{"--json", "", "as JSON"},
           {"--verify", "", "read everything and compare the checksums"},
           {"--program", "", "also print the programs"}},
          1,
          run};
}

}  // namespace gex::tool
