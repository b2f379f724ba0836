#include "cache/program_file.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "backend/backend.hpp"
#include "base/error.hpp"
#include "cache/program_cache.hpp"
#include "program/artefact.hpp"

namespace gex {

namespace {

constexpr const char* kKind = "program file";
constexpr const char* kFastMath = "fast_math";

// The device that a program's code runs on, as its backend describes it.
std::string device_of(const program::Program& program) {
  const Target target = backend::find_target(program.target);
  return backend::backend_for(target.kind).fingerprint(target, {});
}

std::string read(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    fail(ErrorCode::io_error, "'", path, "' is a folder, not a file");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (!file) fail(ErrorCode::io_error, "'", path, "' can't be read; is it there?");
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

program::Artefact artefact_of(const std::string& path) {
  try {
    return program::read_artefact(read(path));
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::parse_error) throw;
    fail(ErrorCode::parse_error, "'", path, "' is no compiled program: ", error.what());
  }
}

void check_origin(const program::Artefact& artefact, const std::string& path) {
  if (artefact.kind != kKind)
    fail(ErrorCode::invalid_argument, "'", path, "' is no compiled program but a ", artefact.kind);
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

}  // namespace

void save_program_file(const Compiled& compiled, const std::string& path) {
  if (!compiled.frozen.empty())
    fail(ErrorCode::unsupported, "program \"", compiled.program->name,
         "\" has frozen inputs, whose memory is the caller's; it can't be saved");
  program::Artefact artefact = compile_detail::save_program(*compiled.program, {}, compiled.report);
  artefact.kind = kKind;
  artefact.build = engine_build();
  artefact.target = device_of(*compiled.program);
  artefact.sections.push_back({kFastMath, compiled.fast_math ? "1" : "0"});
  // Under another name first: nobody reads half a file.
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  file << program::write(artefact);
  file.close();
  std::error_code error, ignored;
  if (file) std::filesystem::rename(part, path, error);
  if (file && !error) return;
  std::filesystem::remove(part, ignored);
  fail(ErrorCode::io_error, "'", path, "' can't be written");
}

Compiled load_program_file(const std::string& path, CompileOptions options) {
  const program::Artefact artefact = artefact_of(path);
  check_origin(artefact, path);
  options.fast_math = artefact.section(kFastMath) == "1";
  compile_detail::KeptProgram kept = compile_detail::load_program(artefact);
  check_device(artefact, kept.program, path);
  return compile_detail::restored(std::move(kept), options);
}

}  // namespace gex
