#include "backend/cpu/llvm/jit.hpp"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Object/SymbolSize.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/cpu/llvm/code_names.hpp"
#include "backend/cpu/llvm/debug_lines.hpp"
#include "backend/cpu/llvm/fork_guard.hpp"
#include "base/error.hpp"

#if defined(__x86_64__)
// Functions of the runtime library of the C++ compiler that built gex.
extern "C" {
float __extendhfsf2(_Float16);
_Float16 __truncsfhf2(float);
_Float16 __truncdfhf2(double);
}
#endif

namespace gex::codegen {
namespace {

#if LLVM_VERSION_MAJOR >= 18
using Level = llvm::CodeGenOptLevel;
constexpr auto kObject = llvm::CodeGenFileType::ObjectFile;
constexpr auto kAssembly = llvm::CodeGenFileType::AssemblyFile;
#else
using Level = llvm::CodeGenOpt::Level;
constexpr auto kObject = llvm::CGFT_ObjectFile;
constexpr auto kAssembly = llvm::CGFT_AssemblyFile;
#endif

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // Strength reduction takes a fifth of the time and changes nothing: addresses are already base
    // plus index. LLVM offers no other way to disable it.
    auto& options = llvm::cl::getRegisteredOptions();
    if (auto at = options.find("disable-lsr"); at != options.end())
      static_cast<llvm::cl::opt<bool>*>(at->second)->setValue(true);
  });
}

std::string message_of(llvm::Error error) { return llvm::toString(std::move(error)); }

template <class T>
T must(llvm::Expected<T> value, const char* what) {
  if (!value) GEX_CHECK(false, what, ": ", message_of(value.takeError()));
  return std::forward<T>(*value);
}

// Functions that generated code may call. No other symbols of the process are visible to it.
llvm::orc::SymbolMap known_functions(llvm::orc::LLJIT& jit) {
  llvm::orc::SymbolMap map;
  auto add = [&](const char* name, auto* address) {
    map[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                      llvm::JITSymbolFlags::Exported};
  };
  using F1 = double(double);
  using F2 = double(double, double);
  add("exp", static_cast<F1*>(&std::exp));
  add("exp2", static_cast<F1*>(&std::exp2));
  add("expm1", static_cast<F1*>(&std::expm1));
  add("log", static_cast<F1*>(&std::log));
  add("log2", static_cast<F1*>(&std::log2));
  add("log10", static_cast<F1*>(&std::log10));
  add("log1p", static_cast<F1*>(&std::log1p));
  add("sin", static_cast<F1*>(&std::sin));
  add("cos", static_cast<F1*>(&std::cos));
  add("tan", static_cast<F1*>(&std::tan));
  add("asin", static_cast<F1*>(&std::asin));
  add("acos", static_cast<F1*>(&std::acos));
  add("atan", static_cast<F1*>(&std::atan));
  add("sinh", static_cast<F1*>(&std::sinh));
  add("cosh", static_cast<F1*>(&std::cosh));
  add("tanh", static_cast<F1*>(&std::tanh));
  add("erf", static_cast<F1*>(&std::erf));
  add("pow", static_cast<F2*>(&std::pow));
  add("atan2", static_cast<F2*>(&std::atan2));
  add("fmod", static_cast<F2*>(&std::fmod));
  add("fmodf", static_cast<float (*)(float, float)>(&::fmodf));
  add("fma", static_cast<double (*)(double, double, double)>(&std::fma));
  add("fmaf", static_cast<float (*)(float, float, float)>(&::fmaf));
  add("memcpy", static_cast<void* (*)(void*, const void*, std::size_t)>(&std::memcpy));
  add("memset", static_cast<void* (*)(void*, int, std::size_t)>(&std::memset));
#if defined(__x86_64__)
  // Conversions of f16 without F16C.
  add("__extendhfsf2", &__extendhfsf2);
  add("__truncsfhf2", &__truncsfhf2);
  add("__truncdfhf2", &__truncdfhf2);
#endif
  return map;
}

llvm::orc::LLJIT& jit() {
  // Never destroyed: code may still run on other threads when the process ends.
  static llvm::orc::LLJIT* const instance = [] {
    initialise_llvm();
    auto builder = must(llvm::orc::JITTargetMachineBuilder::detectHost(), "host detection");
    llvm::orc::LLJITBuilder options;
    options.setJITTargetMachineBuilder(builder);
    options.setPlatformSetUp(llvm::orc::setUpInactivePlatform);
    options.setLinkProcessSymbolsByDefault(false);
    auto made = must(options.create(), "LLJIT");
    auto failed =
        made->getMainJITDylib().define(llvm::orc::absoluteSymbols(known_functions(*made)));
    if (failed) GEX_CHECK(false, "libm symbols: ", message_of(std::move(failed)));
    return made.release();
  }();
  return *instance;
}

}  // namespace

namespace {

std::unique_ptr<llvm::TargetMachine> machine_for(const Target& target, Effort effort, bool jit) {
  initialise_llvm();
  std::string triple = llvm::sys::getProcessTriple(), error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  GEX_CHECK(found != nullptr, error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::optional<llvm::CodeModel::Model> model;
  if (!jit) model = llvm::CodeModel::Small;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_, model,
      effort == Effort::quick ? Level::Less : Level::Default, jit));
  GEX_CHECK(machine != nullptr, "no code generator for ", triple);
  return machine;
}

}  // namespace

Compiler::Compiler(Effort effort)
    : effort_(effort), machine_(machine_for(host_target(), effort, true)) {}

Compiler::Compiler(const Target& target)
    : effort_(Effort::thorough), machine_(machine_for(target, effort_, false)) {}

Compiler::~Compiler() = default;

void Compiler::prepare(llvm::Module& module) {
  module.setTargetTriple(machine_->getTargetTriple().str());
  module.setDataLayout(machine_->createDataLayout());
}

void Compiler::optimise(llvm::Module& module) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine_.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);
  // The emitter already hoists, shares and vectorises; this only cleans up.
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass());
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) passes.run(f, functions);
}

// As LLVM's addPassesToEmitFile, without passes that cost more than they gain, because the
// emitter's code is already hoisted, shared and in order.
void Compiler::write(llvm::Module& module, llvm::SmallVectorImpl<char>& bytes, bool object) {
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  auto& machine = static_cast<llvm::LLVMTargetMachine&>(*machine_);
  auto* info = new llvm::MachineModuleInfoWrapperPass(&machine);  // owned by `passes`
  llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  config->setDisableVerify(true);
  // Constants stay memory operands where they are used: sharing them across the function makes live
  // ranges that keep the register allocator busy for little gain.
  if (effort_ == Effort::quick)
    for (llvm::AnalysisID pass : {&llvm::EarlyMachineLICMID, &llvm::MachineLICMID,
                                  &llvm::MachineCSEID, &llvm::MachineSinkingID})
      config->disablePass(pass);
  passes.add(config);
  passes.add(info);
  bool unable = config->addISelPasses();
  config->addMachinePasses();
  config->setInitialized();
  auto kind = object ? kObject : kAssembly;
  unable = unable || machine.addAsmPrinter(passes, out, nullptr, kind, info->getMMI().getContext());
  GEX_CHECK(!unable, "the target can't write code");
  passes.add(llvm::createFreeMachineFunctionPass());
  passes.run(module);
}

std::unique_ptr<llvm::MemoryBuffer> Compiler::object(llvm::Module& module) {
  llvm::SmallVector<char, 0> bytes;
  write(module, bytes, true);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), module.getName(), false);
}

std::string Compiler::assembly(llvm::Module& module) {
  llvm::SmallVector<char, 0> text;
  write(module, text, false);
  return std::string(text.begin(), text.end());
}

namespace {

// By the name of the function, of those that the object defines.
std::map<std::string, std::size_t> sizes_of_functions(const llvm::object::ObjectFile& object) {
  std::map<std::string, std::size_t> sizes;
  for (const auto& [symbol, bytes] : llvm::object::computeSymbolSizes(object)) {
    const auto kind = must(symbol.getType(), "type of a symbol");
    if (kind == llvm::object::SymbolRef::ST_Function)
      sizes.emplace(must(symbol.getName(), "name of a function").str(), bytes);
  }
  return sizes;
}

}  // namespace

LinkedCode link(std::unique_ptr<llvm::MemoryBuffer> object,
                std::span<const FunctionNames> functions) {
  auto& j = jit();
  const auto file =
      must(llvm::object::ObjectFile::createObjectFile(object->getMemBufferRef()), "object");
  const std::map<std::string, std::size_t> sizes = sizes_of_functions(*file);
  std::map<std::string, FunctionLines> lines;
  if (!folder_of_lines().empty()) lines = lines_of_functions(*file);
  // A scope of its own: functions of different objects may have the same name.
  static std::atomic<std::int64_t> number{0};
  auto& scope =
      must<llvm::orc::JITDylib&>(j.createJITDylib(str("object_", number++)), "a scope for code");
  scope.addToLinkOrder(j.getMainJITDylib());
  LinkedCode result;
  result.owner = std::shared_ptr<const void>(&scope, [&j, &scope](const void*) {
    const ForkGuard guard;
    // A failure to free code does not end the program.
    llvm::consumeError(j.getExecutionSession().removeJITDylib(scope));
  });
  if (auto failed = j.addObjectFile(scope, std::move(object)))
    GEX_CHECK(false, "adding code: ", message_of(std::move(failed)));
  std::vector<NamedCode> named;
  for (const FunctionNames& function : functions) {
    void* const address = must(j.lookup(scope, function.symbol), "linking").toPtr<void*>();
    result.functions.push_back(address);
    named.push_back(
        {function.shown, address, sizes.at(function.symbol), std::move(lines[function.symbol])});
  }
  // Destroyed before the code is.
  struct Owner {
    std::shared_ptr<const void> code, names;
  };
  result.owner = std::make_shared<const Owner>(result.owner, announce_code(named));
  return result;
}

}  // namespace gex::codegen
