#include "cache/program_file.hpp"

#include <fcntl.h>

#include <optional>

#include "backend/backend.hpp"
#include "base/error.hpp"
#include "cache/atomic_file.hpp"
#include "cache/device_bounds.hpp"
#include "cache/mapped_file.hpp"
#include "cache/program_cache.hpp"
#include "program/artefact.hpp"

namespace gex {

namespace {

constexpr const char* kKind = "program file";
constexpr const char* kFastMath = "fast_math";

// The backend's description of the device that a program runs on.
std::string device_of(const program::Program& program) {
  const Target target = backend::find_target(program.target);
  return backend::backend_for(target.kind).fingerprint(target, {});
}

std::shared_ptr<const MappedFile> mapped(const std::string& path) {
  try {
    const std::optional<FileHandle> file = open_regular_file(AT_FDCWD, path, Links::follow);
    if (!file) fail(ErrorCode::io_error, "there is no such file");
    check_owner_and_mode(file->get(), Trust::own_or_root);
    return std::make_shared<const MappedFile>(*file);
  } catch (const UserError& error) {
    fail(error.code(), "'", path, "' can't be loaded: ", error.what());
  }
}

program::Artefact artefact_in(const MappedFile& file, const std::string& path) {
  try {
    return program::view_artefact(file.bytes());
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::parse_error) throw;
    fail(ErrorCode::parse_error, "'", path, "' is not a compiled program: ", error.what());
  }
}

void check_origin(const program::Artefact& artefact, const std::string& path) {
  if (artefact.kind != kKind)
    fail(ErrorCode::invalid_argument, "'", path, "' is not a compiled program but a ",
         artefact.kind);
  if (artefact.build != engine_build())
    fail(ErrorCode::unsupported, "'", path,
         "' was written by another build of gex; compile the graph again");
}

void check_device(const program::Artefact& artefact, const program::Program& program,
                  const std::string& path) {
  const std::string device = device_of(program);
  if (artefact.target != device)
    fail(ErrorCode::unsupported, "'", path, "' was compiled for ", artefact.target,
         ", this device is ", device, "; compile the graph again");
}

// Constants of at least so many bytes are read from the mapped file in place; others are copied.
constexpr std::size_t kReadInPlace = 64 << 10;

std::string section_of(std::size_t slot) { return str("memory ", slot); }

// The program as it is written: its large constants become frozen memory, each in a section.
program::Program with_memory_apart(const Compiled& compiled,
                                   std::vector<std::string_view>& memory) {
  using Kind = program::BufferDesc::Kind;
  program::Program program = *compiled.program;
  memory.resize(compiled.frozen.size());
  const bool reads_in_place = program.target == "cpu";
  for (program::BufferDesc& buffer : program.buffers) {
    if (buffer.kind != Kind::constant || buffer.alias_of >= 0) continue;
    if (buffer.data == nullptr && buffer.slot >= 0) {
      const auto bytes = static_cast<std::size_t>(buffer.bytes.constant());
      std::string_view& place = memory.at(static_cast<std::size_t>(buffer.slot));
      const void* start = compiled.frozen[static_cast<std::size_t>(buffer.slot)].get();
      if (place.size() < bytes) place = {static_cast<const char*>(start), bytes};
    } else if (reads_in_place && buffer.data != nullptr && buffer.bytes.is_const() &&
               buffer.data->bytes() >= kReadInPlace) {
      buffer.slot = static_cast<int>(memory.size());
      memory.emplace_back(reinterpret_cast<const char*>(buffer.data->data()), buffer.data->bytes());
    }
  }
  for (program::BufferDesc& buffer : program.buffers)
    if (buffer.kind == Kind::constant && buffer.slot >= 0) buffer.data = nullptr;
  return program;
}

// The memory of each slot, in the mapped file.
std::vector<std::shared_ptr<const void>> memory_in(const std::shared_ptr<const MappedFile>& file,
                                                   const program::Artefact& artefact,
                                                   const program::Program& program) {
  std::vector<std::shared_ptr<const void>> memory;
  for (const program::BufferDesc& buffer : program.buffers) {
    if (buffer.kind != program::BufferDesc::Kind::constant || buffer.slot < 0) continue;
    const auto slot = static_cast<std::size_t>(buffer.slot);
    const std::string_view section = artefact.section(section_of(slot));
    if (!buffer.bytes.is_const() || buffer.bytes.constant() < 0 ||
        static_cast<std::uint64_t>(buffer.bytes.constant()) > section.size())
      fail(ErrorCode::parse_error, "constant \"", buffer.name, "\" of ", buffer.bytes,
           " bytes is larger than its memory of ", section.size());
    if (memory.size() <= slot) memory.resize(slot + 1);
    memory[slot] = std::shared_ptr<const void>(file, section.data());
  }
  return memory;
}

// Memory sizes and accesses that a file declares must be provable.
void check_bounds(const program::Program& program, const std::string& path, const char* cant) {
  const std::vector<std::string> problems = unproven_program(program);
  if (!problems.empty())
    fail(ErrorCode::unsupported, "'", path, "' ", cant,
         ": it may access memory out of bounds: ", problems.front(),
         problems.size() > 1 ? str(" (and ", problems.size() - 1, " more)") : "");
}

}  // namespace

void save_program_file(const Compiled& compiled, const std::string& path) {
  if (!compiled.frozen.empty() && !compiled.frozen_is_own)
    fail(ErrorCode::unsupported, "program \"", compiled.program->name,
         "\" has frozen inputs, whose memory belongs to the caller; it can't be saved");
  // Checked here already, so that the user who saves it gets the error.
  check_bounds(*compiled.program, path, "can't be saved");
  std::vector<std::string_view> memory;
  program::Artefact artefact =
      compile_detail::save_program(with_memory_apart(compiled, memory), {}, compiled.report);
  artefact.kind = kKind;
  artefact.build = engine_build();
  artefact.target = device_of(*compiled.program);
  artefact.sections.push_back({kFastMath, compiled.fast_math ? "1" : "0"});
  for (std::size_t slot = 0; slot < memory.size(); ++slot)
    artefact.sections.push_back({section_of(slot), {}, memory[slot]});
  UserFileWriter file(path);
  program::write(artefact, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

Compiled load_program_file(const std::string& path, CompileOptions options) {
  const std::shared_ptr<const MappedFile> file = mapped(path);
  const program::Artefact artefact = artefact_in(*file, path);
  check_origin(artefact, path);
  options.fast_math = artefact.section(kFastMath) == "1";
  compile_detail::KeptProgram kept = compile_detail::load_program(artefact);
  check_device(artefact, kept.program, path);
  check_bounds(kept.program, path, "is not safe to run");
  std::vector<std::shared_ptr<const void>> memory = memory_in(file, artefact, kept.program);
  Compiled compiled = compile_detail::restored(std::move(kept), options);
  compiled.frozen = std::move(memory);
  compiled.frozen_is_own = true;
  return compiled;
}

}  // namespace gex
