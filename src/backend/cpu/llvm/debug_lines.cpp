#include "backend/cpu/llvm/debug_lines.hpp"

#include <fcntl.h>
#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/DebugInfo/DIContext.h>
#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Object/SymbolSize.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cache/atomic_file.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {
namespace {

// "relu+add" as part of a file's name.
std::string file_part(std::string label) {
  constexpr std::size_t kLongest = 60;
  if (label.size() > kLongest) label.resize(kLongest);
  std::ranges::replace_if(
      label, [](unsigned char c) { return std::isalnum(c) == 0 && c != '+' && c != '-'; }, '_');
  return label;
}

// Writes the text of a kernel and returns its path. Kernels with equal text have one file.
std::string loop_file(const std::string& label, const std::string& text) {
  Digester digester;
  digester.add(text);
  const std::filesystem::path folder = std::filesystem::absolute(folder_of_lines()) / "loops";
  const std::string path =
      (folder / str(file_part(label), "-", digester.digest().hex().substr(0, 12), ".loop"))
          .string();
  try {
    std::filesystem::create_directory(folder);  // not its parents: a wrong path is told
    if (std::filesystem::exists(path)) return path;
    AtomicFile file(AT_FDCWD, path, 0644);
    file.write(text);
    file.commit(AtomicFile::Durable::no);
  } catch (const std::exception& problem) {
    log(LogArea::code, LogLevel::warning, "GEX_JITDUMP: ", path, ": ", problem.what(),
        "; tools can't show its lines");
  }
  return path;
}

}  // namespace

const std::string& folder_of_lines() {
  static const std::string folder = [] {
    const char* text = std::getenv("GEX_JITDUMP");
    return std::string(text == nullptr ? "" : text);
  }();
  return folder;
}

DebugLines::DebugLines(llvm::Module& module) : builder_(module) {
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version",
                       static_cast<std::uint32_t>(llvm::DEBUG_METADATA_VERSION));
  module.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4U);
}

KernelLines DebugLines::start(const loop::Kernel& kernel, llvm::Function& function) {
  KernelLines lines;
  loop::Kernel named = kernel;
  named.name = file_part(label_);
  lines.text = loop::print_with_lines(named);
  const std::filesystem::path path = loop_file(label_, lines.text.text);
  llvm::DIFile* const file =
      builder_.createFile(path.filename().string(), path.parent_path().string());
  if (unit_ == nullptr)
    unit_ = builder_.createCompileUnit(llvm::dwarf::DW_LANG_C, file, "gex", true, "", 0, "",
                                       llvm::DICompileUnit::LineTablesOnly);
  llvm::DISubroutineType* const type =
      builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  const auto first = static_cast<unsigned>(lines.text.kernel);
  lines.function =
      builder_.createFunction(file, label_, function.getName(), file, first, type, first,
                              llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  function.setSubprogram(lines.function);
  return lines;
}

std::map<std::string, FunctionLines> lines_of_functions(const llvm::object::ObjectFile& object) {
  std::map<std::string, FunctionLines> found;
  const auto context = llvm::DWARFContext::create(object);
  if (context->getNumCompileUnits() == 0) return found;
  for (const auto& [symbol, bytes] : llvm::object::computeSymbolSizes(object)) {
    auto name = symbol.getName();
    auto address = symbol.getAddress();
    auto section = symbol.getSection();
    if (!name || !address || !section || *section == object.section_end()) continue;
    const llvm::DILineInfoTable table = context->getLineInfoForAddressRange(
        {*address, (*section)->getIndex()}, bytes,
        llvm::DILineInfoSpecifier(llvm::DILineInfoSpecifier::FileLineInfoKind::AbsoluteFilePath));
    FunctionLines lines;
    for (const auto& [at, info] : table) {
      if (info.Line == 0) continue;
      lines.file = info.FileName;
      if (lines.starts.empty() || lines.starts.back().line != info.Line)
        lines.starts.push_back({at - *address, info.Line});
    }
    if (!lines.starts.empty()) found.emplace(name->str(), std::move(lines));
  }
  return found;
}

}  // namespace gex::codegen
