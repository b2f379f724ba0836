#include "backend/cpu/code.hpp"

#include <mutex>

#include "backend/cpu/attached.hpp"
#include "backend/cpu/generator.hpp"
#include "backend/cpu/kernels/make.hpp"
#include "backend/cpu/tuner.hpp"
#include "backend/parsed_codes.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cache/object_store.hpp"
#include "interp/eval_kernel.hpp"

namespace gex::backend::cpu {

namespace {

using program::Callable;

std::unique_ptr<ObjectStore> objects_in(const std::shared_ptr<Store>& store) {
  if (store == nullptr) return nullptr;
  return std::make_unique<ObjectStore>(store);
}

// Static code for hot shapes: the generic kernels compiled again with their sizes as constants.
class KernelSpecialiser final : public program::Specialiser {
 public:
  KernelSpecialiser(codegen::Generator& generator, std::shared_ptr<const ParsedCodes> codes,
                    const CodeOptions& options)
      : generator_(generator),
        codes_(std::move(codes)),
        fast_math_(options.fast_math),
        objects_(objects_in(options.keep_static_code ? options.cache : nullptr)),
        tuner_(options.autotune ? std::make_unique<Tuner>(options.cache, generator.target())
                                : nullptr) {}

  Callable specialise(int code, std::span<const std::int64_t> dims) override {
    const ParsedCode& parsed = codes_->codes[static_cast<std::size_t>(code)];
    if (parsed.problem) return tuner_ == nullptr ? Callable{} : tuned(parsed, dims);
    if (kernel(parsed.kernel).symbols().empty()) return {};
    return compiled_for(kernel(parsed.kernel), dims);
  }

  std::vector<std::string> findings() const override {
    return tuner_ == nullptr ? std::vector<std::string>() : tuner_->findings();
  }

 private:
  const loop::Kernel& kernel(int number) const {
    return codes_->kernels[static_cast<std::size_t>(number)];
  }

  Callable compiled_for(const loop::Kernel& kernel, std::span<const std::int64_t> dims) {
    codegen::GeneratorOptions options;
    options.fast_math = fast_math_;
    options.objects = objects_.get();
    const std::vector<Dim> symbols = kernel.symbols();
    for (std::size_t k = 0; k < symbols.size(); ++k)
      options.constants.push_back({symbols[k], dims[k]});
    return generator_.compile(std::span(&kernel, 1), options).front();
  }

  // The dims of an epilogue follow those of its problem.
  Callable tuned(const ParsedCode& code, std::span<const std::int64_t> dims) {
    const kernels::TuningCandidate candidate = tuner_->best(*code.problem, dims);
    if (candidate == kernels::TuningCandidate{}) return {};
    GEX_CHECK(code.prologues.empty(), "tuning of a problem with computed operands");
    const auto function_of = [&](int number) {
      return compiled_for(kernel(number), dims.last(kernel(number).symbols().size()));
    };
    return kernels::make(*code.problem, attached_to(code, function_of), candidate);
  }

  codegen::Generator& generator_;
  std::shared_ptr<const ParsedCodes> codes_;
  bool fast_math_;
  std::unique_ptr<ObjectStore> objects_;
  std::unique_ptr<Tuner>
      tuner_;  // null: matmuls and convolutions use the form that their heuristic selects
};

std::vector<Callable> functions_of(const std::vector<loop::Kernel>& kernels,
                                   const CodeOptions& options, codegen::Generator* generator) {
  if (generator != nullptr) {
    codegen::GeneratorOptions generator_options;
    generator_options.fast_math = options.fast_math;
    const std::unique_ptr<ObjectStore> objects = objects_in(options.cache);
    generator_options.objects = objects.get();
    return generator->compile(kernels, generator_options);
  }
  std::vector<Callable> functions;
  for (const loop::Kernel& kernel : kernels) functions.push_back(interp::interpreted(kernel));
  return functions;
}

// After the code that uses them first, for debuggers and profilers: the kernels of a Program have
// no names, since several launches share one.
void name_kernels(ParsedCodes& codes) {
  std::vector<bool> named(codes.kernels.size());
  const auto name = [&](int number, const std::string& text) {
    const auto k = static_cast<std::size_t>(number);
    if (number < 0 || named[k]) return;
    codes.kernels[k].name = text;
    named[k] = true;
  };
  for (const ParsedCode& code : codes.codes) {
    name(code.kernel, code.problem ? str(code.name, " epilogue") : code.name);
    for (const program::Code::Prologue& prologue : code.prologues)
      name(prologue.kernel, str(code.name, " operand ", prologue.operand));
  }
}

// Once in a process: everything still works, but kernels are interpreted.
void warn_of_missing_generator(const std::string& why_not) {
  static std::once_flag once;
  std::call_once(once, [&] {
    log(LogArea::code, LogLevel::warning,
        "kernels run in the reference executor, many times slower: ", why_not);
  });
}

}  // namespace

CompiledCode compile_for_cpu(std::shared_ptr<const program::Program> program,
                             const CodeOptions& options) {
  std::string why_not = "switched off";
  codegen::Generator* generator =
      options.generate_code ? codegen::llvm_generator(&why_not) : nullptr;
  if (options.generate_code && generator == nullptr) warn_of_missing_generator(why_not);
  ParsedCodes parsed = parse_codes(*program);
  name_kernels(parsed);
  auto codes = std::make_shared<const ParsedCodes>(std::move(parsed));
  CompiledCode result;
  result.generator =
      generator != nullptr ? str("llvm (", generator->target(), ")") : "interpreter: " + why_not;
  const std::vector<Callable> functions = functions_of(codes->kernels, options, generator);
  result.executable.functions = functions_of_codes(codes->codes, functions);
  result.executable.program = std::move(program);
  if (generator != nullptr)
    result.specialiser = std::make_shared<KernelSpecialiser>(*generator, std::move(codes), options);
  return result;
}

}  // namespace gex::backend::cpu
