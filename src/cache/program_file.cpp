#include "cache/program_file.hpp"

#include <fcntl.h>

#include <optional>

#include "backend/backend.hpp"
#include "backend/parsed_codes.hpp"
#include "base/error.hpp"
#include "cache/atomic_file.hpp"
#include "cache/bounds_check.hpp"
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

MappedFile mapped(const std::string& path) {
  try {
    const std::optional<FileHandle> file = open_regular_file(AT_FDCWD, path, Links::follow);
    if (!file) fail(ErrorCode::io_error, "there is no such file");
    check_owner_and_mode(file->get(), Trust::own_or_root);
    return MappedFile(*file);
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

// Memory sizes and accesses that a file declares must be provable.
void check_bounds(const program::Program& program, const std::string& path, const char* cant) {
  const std::vector<std::string> problems = unproven_parts(program, backend::parse_codes(program));
  if (!problems.empty())
    fail(ErrorCode::unsupported, "'", path, "' ", cant,
         ": it may access memory out of bounds: ", problems.front(),
         problems.size() > 1 ? str(" (and ", problems.size() - 1, " more)") : "");
}

}  // namespace

void save_program_file(const Compiled& compiled, const std::string& path) {
  if (!compiled.frozen.empty())
    fail(ErrorCode::unsupported, "program \"", compiled.program->name,
         "\" has frozen inputs, whose memory belongs to the caller; it can't be saved");
  // Checked here already, so that the user who saves it gets the error.
  check_bounds(*compiled.program, path, "can't be saved");
  program::Artefact artefact = compile_detail::save_program(*compiled.program, {}, compiled.report);
  artefact.kind = kKind;
  artefact.build = engine_build();
  artefact.target = device_of(*compiled.program);
  artefact.sections.push_back({kFastMath, compiled.fast_math ? "1" : "0"});
  UserFileWriter file(path);
  program::write(artefact, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

Compiled load_program_file(const std::string& path, CompileOptions options) {
  const MappedFile file = mapped(path);
  const program::Artefact artefact = artefact_in(file, path);
  check_origin(artefact, path);
  options.fast_math = artefact.section(kFastMath) == "1";
  compile_detail::KeptProgram kept = compile_detail::load_program(artefact);
  check_device(artefact, kept.program, path);
  check_bounds(kept.program, path, "is not safe to run");
  return compile_detail::restored(std::move(kept), options);
}

}  // namespace gex
