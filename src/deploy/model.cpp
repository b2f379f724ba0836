#include "deploy/model.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "backend/cpu/attached.hpp"
#include "backend/parsed_codes.hpp"
#include "base/error.hpp"
#include "base/file_problem.hpp"
#include "cache/atomic_file.hpp"
#include "cache/bounds_check.hpp"
#include "cache/mapped_file.hpp"
#include "deploy/code_image.hpp"
#include "deploy/device_code.hpp"
#include "deploy/signature.hpp"
#include "deploy/text_code.hpp"
#include "runtime/session/index_check.hpp"
#include "runtime/session/user_kernels.hpp"
#include "target/target.hpp"

namespace gex::deploy {

namespace {

using program::BufferDesc;
using program::Program;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::size_t find_model(const Container& container, const std::string& wanted) {
  const std::vector<std::string> names = model_names(container);
  if (names.empty()) fail(ErrorCode::parse_error, "it holds no model");
  if (wanted.empty()) return 0;
  const auto at = std::find(names.begin(), names.end(), wanted);
  if (at == names.end())
    fail(ErrorCode::not_found, "it holds no model \"", wanted, "\"; there are: ", listed(names));
  return static_cast<std::size_t>(at - names.begin());
}

// Checks that the file has a weight of the right size for every slot of a frozen constant.
void check_slots(const Program& program, const Metadata& metadata, std::string_view weights) {
  for (const WeightPlace& place : metadata.weights)
    if (place.offset > weights.size() || place.bytes > weights.size() - place.offset ||
        place.offset % kAlignment != 0)
      fail(ErrorCode::parse_error, "a weight lies outside of the weights section");
  for (const BufferDesc& buffer : program.buffers) {
    if (buffer.kind != BufferDesc::Kind::constant || buffer.slot < 0) continue;
    const auto slot = static_cast<std::size_t>(buffer.slot);
    if (slot >= metadata.weights.size() || !buffer.bytes.is_const() ||
        buffer.bytes.constant() < 0 ||
        static_cast<std::uint64_t>(buffer.bytes.constant()) > metadata.weights[slot].bytes)
      fail(ErrorCode::parse_error, "constant \"", buffer.name, "\" is larger than its weight");
  }
}

// Checks that all steps need only this library and registered kernels.
void check_steps(const Program& program) {
  std::vector<std::string> calls, missing;
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps) {
      const auto* call = std::get_if<program::Call>(&step.op);
      if (call == nullptr || is_index_check(*call)) continue;
      if (!runtime::is_kernel_call(*call))
        calls.push_back(call->name);
      else if (!runtime::has_user_kernel(runtime::kernel_of_call(*call).name))
        missing.push_back(runtime::kernel_of_call(*call).name);
    }
  if (!calls.empty())
    fail(ErrorCode::unsupported,
         "it has steps that only run in the process that wrote it: ", listed(calls));
  if (!missing.empty())
    fail(ErrorCode::not_found,
         "it needs kernels that this process does not have: ", listed(missing),
         "; load the library that has them first (gex_load_kernels, --kernels)");
}

// The processor level or GPU architecture whose code to run. UserError if there is none.
std::string choose_level(const std::vector<std::string>& levels, const std::string& wanted,
                         const Program& program) {
  const bool is_cpu = program.target == "cpu";
  std::string best;
  for (const std::string& level : levels) {
    const bool runs = is_cpu ? !is_architecture(level) && runs_here(level)
                             : is_architecture(level) && runs_on_device(level, program.target);
    if (runs && (wanted.empty() || wanted == level)) best = level;
  }
  if (best.empty())
    fail(ErrorCode::unsupported, "it has machine code for ",
         levels.empty() ? "no processor" : listed(levels),
         wanted.empty() ? ", none of which this machine runs" : ", not for " + wanted,
         is_cpu ? "; compile the model with --cpu for this machine, or load it without trust"
                : "; compile the model with --gpu for the GPU of this machine");
  return best;
}

// Buffer sizes and accesses stated by a file are accepted only if they can be proven safe.
void refuse_unproven(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  fail(ErrorCode::unsupported,
       "it can't be proven that it stays inside its memory: ", problems.front(),
       problems.size() > 1 ? str(" (and ", problems.size() - 1, " more)") : "",
       "; load it with trust if you know where it comes from");
}

void add_machine_code(const Container& container, std::size_t number, const LoadOptions& options,
                      std::shared_ptr<const Program> program, Model& model) {
  const std::string level = choose_level(model.levels, options.level, *program);
  const std::string_view section =
      container.section(section_name(number, str(kCodeSections, level)));
  model.code = str("machine code (", level, ")");
  if (program->target != "cpu") {
    model.executable =
        std::make_shared<const program::Executable>(parse_device_code(section, std::move(program)));
    return;
  }
  const CodeImage image = parse_code_image(section);
  if (image.kernels.size() != program->kernels.size())
    fail(ErrorCode::parse_error, "it has machine code of ", image.kernels.size(), " kernels, but ",
         program->kernels.size(), " kernels");
  auto executable = std::make_shared<program::Executable>();
  executable->functions =
      backend::cpu::functions_of_codes(backend::parse_problems(*program), load_code(image));
  executable->program = std::move(program);
  model.executable = std::move(executable);
}

void add_text_code(std::shared_ptr<const Program> program, const LoadOptions& options,
                   Model& model) {
  if (program->target != "cpu")
    fail(ErrorCode::unsupported, "it is for ", program->target,
         ", and the code of GPUs runs only with trust; load it with trust or a key if you know "
         "where it comes from");
  refuse_unproven(unproven_parts(*program, backend::parse_codes(*program)));
  TextCode code = code_of_text(std::move(program), model.metadata.fast_math, options.autotune);
  model.executable = std::make_shared<const program::Executable>(std::move(code.executable));
  model.specialiser = std::move(code.specialiser);
  model.code = std::move(code.generator);
}

template <class Desc>
std::vector<TensorInfo> infos(const std::vector<Desc>& program, std::vector<TensorInfo> given,
                              const char* what) {
  given.resize(program.size());
  for (std::size_t k = 0; k < given.size(); ++k) {
    given[k].dtype = program[k].dtype;
    given[k].shape = program[k].shape;
    if (given[k].name.empty()) given[k].name = program[k].name;
    if (given[k].name.empty()) given[k].name = str(what, "_", k);
    if (given[k].type.empty()) given[k].type = std::string(name_of(program[k].dtype));
  }
  return given;
}

// Maps the symbols that the file names to the program's own.
runtime::GearOptions gears_of(const Program& program, runtime::GearOptions gears) {
  for (runtime::GearOptions::Ladder& ladder : gears.ladders)
    for (Dim& symbol : ladder.symbols) {
      if (!symbol.is_symbol()) continue;
      const auto same = std::find_if(program.symbols.begin(), program.symbols.end(),
                                     [&](Dim known) { return known.name() == symbol.name(); });
      if (same == program.symbols.end())
        fail(ErrorCode::parse_error, "its gears refer to the size ", symbol.name(),
             ", which its program does not have");
      symbol = *same;
    }
  return gears;
}

// Contents of weights are compared only on request, as their checksums are.
void check_signature(const Container& container, const LoadOptions& options) {
  const Digest weights = verify_signature(container, options.key);
  if (!options.check_weights) return;
  std::vector<Metadata> models;
  for (std::size_t k = 0; k < model_names(container).size(); ++k)
    models.push_back(parse_metadata(container.section(section_name(k, "meta"))));
  const std::string_view bytes =
      container.has(kWeightsSection) ? container.section(kWeightsSection) : std::string_view();
  if (digest_of_weights(models, bytes) != weights)
    fail(ErrorCode::invalid_argument, "its weights are not those that were signed");
}

std::shared_ptr<const Model> load(std::shared_ptr<const void> owner, std::string_view bytes,
                                  const LoadOptions& options) {
  check_processor();
  const Container container = Container::view(bytes);
  const std::size_t number = find_model(container, options.model);
  if (!options.key.empty()) check_signature(container, options);
  auto model = std::make_shared<Model>();
  model->metadata = parse_metadata(container.section(section_name(number, "meta")));
  auto program = std::make_shared<const Program>(
      program::parse_program(container.section(section_name(number, "program"))));
  program::verify(*program);
  parse_target(program->target);  // UserError for one that this version does not know
  const std::string_view weights =
      container.has(kWeightsSection) ? container.section(kWeightsSection) : std::string_view();
  check_slots(*program, model->metadata, weights);
  check_steps(*program);
  if (options.check_weights) check_weights(model->metadata, weights);
  model->levels = code_levels(container, number);
  model->inputs = infos(program->inputs, model->metadata.inputs, "input");
  model->outputs = infos(program->outputs, model->metadata.outputs, "output");
  model->gears = gears_of(*program, model->metadata.gears);
  for (const WeightPlace& place : model->metadata.weights) {
    model->frozen.emplace_back(owner, weights.data() + place.offset);
    model->weight_bytes += place.bytes;
  }
  if (options.trust || !options.key.empty())
    add_machine_code(container, number, options, std::move(program), *model);
  else
    add_text_code(std::move(program), options, *model);
  return model;
}

}  // namespace

void check_weights(const Metadata& metadata, std::string_view weights) {
  for (std::size_t k = 0; k < metadata.weights.size(); ++k) {
    const WeightPlace& place = metadata.weights[k];
    if (place.offset > weights.size() || place.bytes > weights.size() - place.offset ||
        checksum_of(weights.substr(place.offset, place.bytes)) != place.checksum)
      fail(ErrorCode::parse_error, "weight ", k, " \"", place.name, "\" is damaged");
  }
}

Digest digest_of_weights(const std::vector<Metadata>& models, std::string_view weights) {
  std::map<std::uint64_t, std::uint64_t> places;  // offset, bytes
  for (const Metadata& model : models)
    for (const WeightPlace& place : model.weights) {
      if (place.offset > weights.size() || place.bytes > weights.size() - place.offset)
        fail(ErrorCode::parse_error, "a weight lies outside of the section of the weights");
      std::uint64_t& bytes = places[place.offset];
      bytes = std::max(bytes, place.bytes);
    }
  Digester digester;
  for (const auto& [offset, bytes] : places) digester.add(weights.substr(offset, bytes));
  return digester.digest();
}

OpenFile open_model_file(const std::string& path) {
  try {
    const std::optional<FileHandle> file = open_regular_file(AT_FDCWD, path, Links::follow);
    if (!file) fail(ErrorCode::io_error, file_problem(path, ENOENT));
    auto mapped = std::make_shared<const MappedFile>(*file);
    const std::string_view bytes = mapped->bytes();
    return {std::move(mapped), bytes};
  } catch (const UserError& error) {
    fail(error.code(), "'", path, "' can't be read: ", error.what());
  }
}

bool is_model_file(const std::string& path) {
  try {
    const std::optional<FileHandle> file = open_regular_file(AT_FDCWD, path, Links::follow);
    return file && read_bytes(*file, static_cast<std::int64_t>(kMagic.size())) == kMagic;
  } catch (const UserError&) {
    return false;  // opening it for reading reports the reason
  }
}

std::shared_ptr<const Model> load_model(const std::string& path, const LoadOptions& options) {
  OpenFile file = open_model_file(path);
  try {
    return load(std::move(file.owner), file.bytes, options);
  } catch (const UserError& error) {
    fail(error.code(), "'", path, "' can't be loaded: ", error.what());
  }
}

std::shared_ptr<const Model> load_model(std::shared_ptr<const void> owner, std::string_view bytes,
                                        const LoadOptions& options) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment != 0) {
    const std::size_t room = (bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
    std::shared_ptr<void> copy(std::aligned_alloc(kAlignment, room), std::free);
    if (copy == nullptr)
      fail(ErrorCode::out_of_memory, "no memory for a model of ", room, " bytes");
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    bytes = {static_cast<const char*>(copy.get()), bytes.size()};
    owner = std::move(copy);
  }
  try {
    return load(std::move(owner), bytes, options);
  } catch (const UserError& error) {
    fail(error.code(), "the model can't be loaded: ", error.what());
  }
}

}  // namespace gex::deploy
