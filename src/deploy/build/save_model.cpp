#include "deploy/build/save_model.hpp"

#include <map>
#include <set>

#include "backend/backend.hpp"
#include "backend/cpu/generator.hpp"
#include "backend/parsed_codes.hpp"
#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/version.hpp"
#include "cache/atomic_file.hpp"
#include "cache/bounds_check.hpp"
#include "deploy/build/elf_objects.hpp"
#include "deploy/device_code.hpp"
#include "deploy/signature.hpp"
#include "program/bytes.hpp"
#include "runtime/session/index_check.hpp"
#include "runtime/session/user_kernels.hpp"

namespace gex::deploy {

namespace {

using program::BufferDesc;
using program::Program;

// The weights of all models of a file; equal weights are stored once.
class Weights {
 public:
  WeightPlace add(std::string_view bytes, std::string name) {
    const Digest digest = digest_of(bytes);
    const auto [at, is_new] = places_.try_emplace(digest.hex());
    if (is_new) {
      at->second = {size_, bytes.size(), checksum_of(bytes), std::move(name)};
      parts_.push_back({bytes, kAlignment});
      size_ = (size_ + bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
    }
    return at->second;
  }
  const std::vector<Part>& parts() const { return parts_; }
  std::uint64_t bytes() const { return size_; }

 private:
  std::map<std::string, WeightPlace> places_;
  std::vector<Part> parts_;
  std::uint64_t size_ = 0;
};

// Index checks and registered kernels run in any process.
bool needs_process(const program::Call& call) {
  return !is_index_check(call) && !runtime::is_kernel_call(call);
}

void refuse_calls(const Program& program) {
  std::set<std::string> names;
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      if (const auto* call = std::get_if<program::Call>(&step.op); call && needs_process(*call))
        names.insert(step.location.empty() ? call->name
                                           : str(call->name, " (", step.location, ")"));
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) list += "\n  " + name;
  fail(ErrorCode::unsupported, "program \"", program.name,
       "\" can't be saved as a model file: ", names.size(),
       " of its steps need the process that it was compiled in:", list);
}

// Buffers whose memory some step reads, or that others share.
std::vector<bool> read_buffers(const Program& program) {
  std::vector<bool> read(program.buffers.size(), false);
  for (const program::Segment& segment : program.segments)
    for (const program::Step& step : segment.steps)
      for (program::BufferId id : program::reads_of(step))
        read[static_cast<std::size_t>(program::root_of(program, id))] = true;
  for (std::size_t id = 0; id < program.buffers.size(); ++id)
    if (program.buffers[id].alias_of >= 0)
      read[static_cast<std::size_t>(program::root_of(program, static_cast<int>(id)))] = true;
  return read;
}

// A weight that is only used in a packed layout is not stored in its original one.
void forget_contents(BufferDesc& buffer) {
  buffer.shape = {Dim(0)};
  buffer.strides.clear();
  buffer.bytes = Dim(0);
}

// Memory behind frozen constants: large ones of the program itself, and those it is bound to.
Program with_weights_apart(const Compiled& compiled, Weights& weights, Metadata& metadata) {
  Program program = *compiled.program;
  metadata.weights.resize(compiled.frozen.size());
  const std::vector<bool> read = read_buffers(program);
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    BufferDesc& buffer = program.buffers[id];
    if (buffer.kind != BufferDesc::Kind::constant || buffer.alias_of >= 0) continue;
    if (!read[id]) forget_contents(buffer);
    if (!buffer.bytes.is_const())
      fail(ErrorCode::unsupported, "constant \"", buffer.name, "\" has no fixed size");
    const auto bytes = static_cast<std::size_t>(buffer.bytes.constant());
    const void* memory = nullptr;
    if (buffer.data != nullptr) {
      GEX_CHECK(buffer.data->bytes() >= bytes, "constant ", buffer.name);
      memory = buffer.data->data();
      buffer.slot = static_cast<int>(metadata.weights.size());
      buffer.data = nullptr;
      metadata.weights.emplace_back();
    } else {
      memory = compiled.frozen.at(static_cast<std::size_t>(buffer.slot)).get();
    }
    WeightPlace& place = metadata.weights[static_cast<std::size_t>(buffer.slot)];
    if (place.bytes > bytes) continue;
    place = weights.add({static_cast<const char*>(memory), bytes}, buffer.name);
    place.name = buffer.name;  // an equal weight may have another
  }
  return program;
}

std::string machine_code(const std::vector<loop::Kernel>& kernels, bool fast_math,
                         const std::string& level) {
  std::string why_not;
  codegen::Generator* generator = codegen::llvm_generator(&why_not);
  if (generator == nullptr)
    fail(ErrorCode::unsupported, "machine code for a model file can't be made: ", why_not);
  codegen::GeneratorOptions options;
  options.fast_math = fast_math;
  return serialise(link_objects(generator->objects(kernels, options, level)));
}

// By level. Code for a GPU exists already, for the architecture that the program was compiled for.
std::vector<std::pair<std::string, std::string>> codes_of(const Compiled& compiled,
                                                          const std::vector<loop::Kernel>& kernels,
                                                          const SaveOptions& options) {
  std::vector<std::pair<std::string, std::string>> codes;
  const std::string& target = compiled.program->target;
  if (target != "cpu") {
    codes.emplace_back(backend::find_target(target).architecture,
                       serialise_device_code(*compiled.executable));
    return codes;
  }
  for (const std::string& level : options.levels)
    codes.emplace_back(level, machine_code(kernels, compiled.fast_math, level));
  return codes;
}

// The slots of weights that may be replaced, each a u64.
std::string updatable_slots(const NewModel& model, const Metadata& metadata) {
  program::ByteWriter slots;
  std::set<std::string> missing = model.updatable;
  for (std::size_t slot = 0; slot < metadata.weights.size(); ++slot)
    if (model.updatable.contains(metadata.weights[slot].name)) {
      slots.u64(slot);
      missing.erase(metadata.weights[slot].name);
    }
  if (!missing.empty())
    fail(ErrorCode::not_found, "the program does not read a weight \"", *missing.begin(), "\"");
  return slots.take();
}

// The section of the weights as it is in the file.
std::string joined(const std::vector<Part>& weights) {
  std::string all;
  for (const Part& part : weights) {
    all.resize((all.size() + part.alignment - 1) / part.alignment * part.alignment, '\0');
    all += part.bytes;
  }
  return all;
}

}  // namespace

std::uint64_t write_model_file(std::vector<std::pair<std::string, std::string>> contents,
                               const std::vector<Metadata>& models, std::vector<Part> weights,
                               const std::string& key, const std::string& path) {
  if (!key.empty()) {
    std::vector<SignedPart> parts;
    for (const auto& [name, bytes] : contents) parts.push_back({name, bytes});
    const std::string signature =
        signature_of(parts, digest_of_weights(models, joined(weights)), key);
    contents.emplace_back(kSignatureSection, signature);
  }
  std::vector<NewSection> sections;
  for (const auto& [name, bytes] : contents) sections.push_back({name, {{bytes, 1}}, false});
  sections.push_back({std::string(kWeightsSection), std::move(weights), true});
  std::uint64_t size = 0;
  UserFileWriter file(path);
  write_container(sections, [&](std::string_view bytes) {
    size += bytes.size();
    file.write(bytes);
  });
  file.commit();
  return size;
}

SaveReport save_models(const std::vector<NewModel>& models, const SaveOptions& options,
                       const std::string& path) {
  SaveReport report;
  Weights weights;
  std::vector<std::pair<std::string, std::string>> contents;  // section, bytes
  std::vector<Metadata> written;
  for (std::size_t k = 0; k < models.size(); ++k) {
    const Compiled& compiled = *models[k].compiled;
    refuse_calls(*compiled.program);
    Metadata metadata = models[k].metadata;
    metadata.engine = version();
    metadata.fast_math = compiled.fast_math;
    const Program program = with_weights_apart(compiled, weights, metadata);
    const backend::ParsedCodes codes = backend::parse_codes(program);
    for (std::string& problem : unproven_parts(program, codes))
      report.unproven.push_back(std::move(problem));
    contents.emplace_back(section_name(k, "meta"), serialise(metadata));
    written.push_back(metadata);
    if (const std::string slots = updatable_slots(models[k], metadata); !slots.empty())
      contents.emplace_back(section_name(k, kUpdatableSection), slots);
    contents.emplace_back(section_name(k, "program"), program::print(program));
    for (auto& [level, bytes] : codes_of(compiled, codes.kernels, options)) {
      report.code_bytes += bytes.size();
      report.levels.insert(level);
      contents.emplace_back(section_name(k, str(kCodeSections, level)), std::move(bytes));
    }
  }
  report.file_bytes =
      write_model_file(std::move(contents), written, weights.parts(), options.key, path);
  report.weight_bytes = weights.bytes();
  return report;
}

}  // namespace gex::deploy
