// The generator behind the entry point of this library: a cache of code by structure, batches
// compiled on two threads.

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "backend/cpu/generator.hpp"
#include "backend/cpu/llvm/code_cache.hpp"
#include "backend/cpu/llvm/debug_lines.hpp"
#include "backend/cpu/llvm/fork_guard.hpp"
#include "backend/cpu/llvm/jit.hpp"
#include "backend/cpu/llvm/kernel_emitter.hpp"
#include "base/build_id.hpp"
#include "base/error.hpp"
#include "cache/object_store.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {
namespace {

using loop::Kernel;
using program::Callable;

// The name of every cached function: each has a separate object.
constexpr const char* kStoredName = "gex_kernel";

// Everything that the machine code of a job depends on.
std::string stored_key(const Job& job) {
  static const std::string build = build_id_at(kStoredName);
  const Target& host = host_target();
  Kernel nameless = job.kernel;
  nameless.name = kStoredName;
  std::string key = str("object of ", build, " llvm ", LLVM_VERSION_STRING, " for ", host.cpu, " ",
                        host.features, "\nfast ", job.fast_math, " thorough ",
                        job.effort() == Effort::thorough, "\n", loop::print(nameless));
  for (const auto& [symbol, value] : job.constants) key += str(symbol, " = ", value, "\n");
  return key;
}

void emit(Ir& ir, const Job& job, DebugLines* lines) {
  if (job.fast_math) {
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    flags.setAllowReciprocal();
    ir.b.setFastMathFlags(flags);
  } else {
    ir.b.clearFastMathFlags();
  }
  Kernel merged = merge_loops(drop_dead_stores(job.kernel));
  KernelPlan plan = make_plan(merged, ir.target.lanes());
  emit_kernel(ir, specialise(merged, job.constants), job.symbols, plan, job.name, lines);
}

std::unique_ptr<llvm::Module> emit_module(llvm::LLVMContext& context, Compiler& compiler,
                                          std::span<const JobPtr> jobs, bool with_lines,
                                          const Target& target = host_target()) {
  auto module = std::make_unique<llvm::Module>(jobs[0]->name, context);
  compiler.prepare(*module);
  Ir ir(*module, target);
  std::optional<DebugLines> lines;
  if (with_lines) lines.emplace(*module);
  for (const JobPtr& job : jobs) {
    if (lines) lines->set_label(job->label);
    emit(ir, *job, lines ? &*lines : nullptr);
  }
  if (lines) lines->finish();
  return module;
}

void check(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (llvm::verifyModule(module, &out)) GEX_CHECK(false, "invalid LLVM IR: ", out.str());
}

// "gex::add_relu" or, with sizes that are constants in the code, "gex::add_relu[8,1024]".
std::string shown_name(const Job& job) {
  std::string sizes;
  for (const auto& [symbol, value] : job.constants) sizes += str(sizes.empty() ? "[" : ",", value);
  return str("gex::", job.label, sizes, sizes.empty() ? "" : "]");
}

void link_jobs(std::unique_ptr<llvm::MemoryBuffer> object, std::span<const JobPtr> jobs) {
  std::vector<FunctionNames> names;
  for (const JobPtr& job : jobs) names.push_back({job->name, shown_name(*job)});
  LinkedCode code = link(std::move(object), names);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i]->code.fn = reinterpret_cast<program::KernelFn>(code.functions[i]);
    jobs[i]->code.owner = code.owner;
  }
}

void compile_jobs(Compiler& compiler, std::span<const JobPtr> jobs) {
  llvm::LLVMContext context;
  auto module = emit_module(context, compiler, jobs, !folder_of_lines().empty());
  check(*module);
  compiler.optimise(*module);
  auto object = compiler.object(*module);
  if (jobs[0]->objects != nullptr)
    jobs[0]->objects->save(stored_key(*jobs[0]), jobs[0]->kernel.name, object->getBuffer().str());
  link_jobs(std::move(object), jobs);
}

bool load_job(const JobPtr& job) {
  const std::string key = stored_key(*job);
  const std::optional<std::string> object = job->objects->load(key);
  if (!object) return false;
  try {
    link_jobs(llvm::MemoryBuffer::getMemBufferCopy(*object, job->name), {&job, 1});
  } catch (const Error& problem) {
    job->objects->discard(key, problem.what());
    return false;
  }
  return true;
}

std::string object_for(const JobPtr& job, Compiler& compiler, const Target& target) {
  llvm::LLVMContext context;
  auto module = emit_module(context, compiler, {&job, 1}, false, target);
  check(*module);
  compiler.optimise(*module);
  return compiler.object(*module)->getBuffer().str();
}

// The position of each of the canonical kernel's symbols in the caller's; empty: the same order.
std::vector<int> positions_of(const Kernel& kernel, const std::vector<Dim>& originals) {
  const std::vector<Dim> theirs = kernel.symbols();
  std::vector<int> positions;
  if (theirs == originals) return positions;
  for (Dim symbol : originals) {
    const auto at = std::ranges::find(theirs, symbol);
    GEX_CHECK(at != theirs.end(), "symbol ", symbol, " of the canonical kernel");
    positions.push_back(static_cast<int>(at - theirs.begin()));
  }
  return positions;
}

// For callers whose dims have another order than the canonical kernel's.
struct Reordered {
  Callable inner;
  std::vector<int> position;  // in the caller's dims, of each canonical symbol
};

void call_reordered(const void* context, void* const* buffers, const std::int64_t* dims,
                    std::int64_t begin, std::int64_t end, std::byte* scratch) {
  const auto& r = *static_cast<const Reordered*>(context);
  constexpr std::size_t kMany = 32;
  std::int64_t few[kMany];
  std::vector<std::int64_t> many;
  std::int64_t* ordered = few;
  if (r.position.size() > kMany) {
    many.resize(r.position.size());
    ordered = many.data();
  }
  for (std::size_t i = 0; i < r.position.size(); ++i) ordered[i] = dims[r.position[i]];
  r.inner(buffers, ordered, begin, end, scratch);
}

class LlvmGenerator final : public Generator {
 public:
  LlvmGenerator() {
    ForkGuard::install([this] { cache_.forget_unfinished(); });
  }

  std::vector<Callable> compile(std::span<const Kernel> kernels,
                                const GeneratorOptions& options) override {
    auto start = std::chrono::steady_clock::now();
    std::vector<Wanted> wanted;
    std::vector<JobPtr> mine;
    for (const Kernel& k : kernels) {
      wanted.push_back(want(k, options));
      if (wanted.back().is_new) mine.push_back(wanted.back().job);
    }
    const std::size_t added = mine.size();
    load_stored(mine);
    compile_all(mine);
    std::vector<Callable> result;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      wanted[i].job->ready.get();
      result.push_back(in_callers_order(kernels[i], wanted[i]));
    }
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::lock_guard lock(stats_mutex_);
    stats_.seconds += elapsed.count();
    stats_.compiled += static_cast<std::int64_t>(mine.size());
    stats_.loaded += static_cast<std::int64_t>(added - mine.size());
    stats_.reused += static_cast<std::int64_t>(kernels.size() - added);
    return result;
  }

  std::string dump(const Kernel& kernel, const GeneratorOptions& options, Dump what) override {
    JobPtr job = want(kernel, options, false).job;
    const ForkGuard guard;
    CompilerPool& compilers = compilers_for(*job);
    auto compiler = compilers.take();
    llvm::LLVMContext context;
    auto module = emit_module(context, *compiler, {&job, 1}, false);
    std::string text;
    if (what != Dump::ir) compiler->optimise(*module);
    if (what == Dump::assembly) {
      text = compiler->assembly(*module);
    } else {
      llvm::raw_string_ostream out(text);
      module->print(out, nullptr);
    }
    compilers.give(std::move(compiler));
    return text;
  }

  std::string target() const override {
    return str(host_target().cpu, ", ", host_target().vector_bytes, "-byte vectors");
  }
  GeneratorStats stats() const override {
    std::lock_guard lock(stats_mutex_);
    return stats_;
  }

  KernelObjects objects(std::span<const Kernel> kernels, const GeneratorOptions& options,
                        std::string_view level) override {
    const Target& target = target_of_level(level);
    const ForkGuard guard;
    Compiler compiler(target);
    KernelObjects result;
    std::vector<JobPtr> made;
    for (const Kernel& kernel : kernels) {
      Wanted wanted = want(kernel, options, false);
      wanted.job->name = KernelObjects::kFunction;
      const auto same =
          std::ranges::find_if(made, [&](const JobPtr& job) { return job->same_as(*wanted.job); });
      const auto object = static_cast<std::size_t>(same - made.begin());
      if (same == made.end()) {
        result.objects.push_back(object_for(wanted.job, compiler, target));
        made.push_back(wanted.job);
      }
      result.kernels.push_back({object, positions_of(kernel, wanted.originals)});
    }
    return result;
  }

 private:
  struct Wanted {
    JobPtr job;
    std::vector<Dim> originals;  // the caller's symbols in the order of the function's dims
    bool is_new = false;
  };

  Wanted want(const Kernel& kernel, const GeneratorOptions& options, bool cached = true) {
    Wanted w;
    w.job = std::make_shared<Job>();
    w.job->kernel = loop::canonical(kernel, w.originals);
    w.job->label = kernel.name;
    w.job->symbols = w.job->kernel.symbols();
    w.job->fast_math = options.fast_math;
    GEX_CHECK(w.job->symbols.size() == w.originals.size(), "symbols of the canonical kernel");
    Hash key = hash_combine(loop::structural_hash(kernel), options.fast_math);
    for (std::size_t i = 0; i < w.originals.size(); ++i) {
      for (const auto& [symbol, value] : options.constants) {
        if (symbol != w.originals[i]) continue;
        if (value < 0) fail(ErrorCode::invalid_argument, "size ", symbol, " can't be ", value);
        w.job->constants.emplace_back(w.job->symbols[i], value);
        key = hash_combine(hash_combine(key, i), static_cast<Hash>(value));
        break;
      }
    }
    // Code with lines refers to files of this process's folder, so it is not stored.
    const bool stored = cached && folder_of_lines().empty();
    w.job->objects = stored ? options.objects : nullptr;
    w.job->name = w.job->objects ? kStoredName : str("gex_kernel_", next_name_++);
    if (cached) {
      const ForkGuard guard;
      std::tie(w.job, w.is_new) = cache_.find_or_add(w.job, key);
    }
    return w;
  }

  // Jobs found in a cache are done; the others stay in the list.
  void load_stored(std::vector<JobPtr>& jobs) {
    std::erase_if(jobs, [](const JobPtr& job) {
      if (job->objects == nullptr) return false;
      const ForkGuard guard;
      if (!load_job(job)) return false;
      job->done.set_value();
      return true;
    });
  }

  CompilerPool& compilers_for(const Job& job) {
    return job.effort() == Effort::quick ? quick_ : thorough_;
  }

  // Two threads share the new jobs, a few in each module: LLVM has a cost for each module, and each
  // module keeps its code until all its users are gone.
  void compile_all(const std::vector<JobPtr>& jobs) {
    std::vector<std::vector<JobPtr>> chunks;
    for (Effort effort : {Effort::quick, Effort::thorough}) {
      std::vector<JobPtr> alike;
      std::ranges::copy_if(jobs, std::back_inserter(alike),
                           [&](const JobPtr& job) { return job->effort() == effort; });
      // The cache stores each kernel separately.
      const std::size_t most = !alike.empty() && alike[0]->objects ? 1 : kJobsInModule;
      std::size_t size = std::clamp<std::size_t>((alike.size() + 1) / 2, 1, most);
      for (std::size_t first = 0; first < alike.size(); first += size) {
        std::size_t count = std::min(size, alike.size() - first);
        chunks.emplace_back(alike.begin() + static_cast<std::ptrdiff_t>(first),
                            alike.begin() + static_cast<std::ptrdiff_t>(first + count));
      }
    }
    std::atomic<std::size_t> next{0};
    auto work = [&] {
      for (std::size_t c = next++; c < chunks.size(); c = next++) compile_chunk(chunks[c]);
    };
    if (chunks.size() > 1) {
      std::thread helper(work);
      work();
      helper.join();
    } else {
      work();
    }
  }

  void compile_chunk(std::span<const JobPtr> jobs) {
    const ForkGuard guard;
    try_chunk(jobs);
  }

  void try_chunk(std::span<const JobPtr> jobs) {
    CompilerPool& compilers = compilers_for(*jobs[0]);
    auto compiler = compilers.take();
    try {
      compile_jobs(*compiler, jobs);
      for (const JobPtr& job : jobs) job->done.set_value();
    } catch (...) {
      if (jobs.size() > 1) {  // find the one that can't be compiled; the others are used
        for (const JobPtr& job : jobs) try_chunk({&job, 1});
      } else {
        cache_.forget(jobs[0]);
        jobs[0]->done.set_exception(std::current_exception());
      }
    }
    compilers.give(std::move(compiler));
    std::lock_guard lock(stats_mutex_);
    stats_.modules += 1;
  }

  static Callable in_callers_order(const Kernel& kernel, const Wanted& wanted) {
    const Job& job = *wanted.job;
    std::vector<int> positions = positions_of(kernel, wanted.originals);
    if (positions.empty()) return job.code;
    auto reordered = std::make_shared<Reordered>();
    reordered->inner = job.code;
    reordered->position = std::move(positions);
    return {&call_reordered, reordered.get(), reordered};
  }

  static constexpr std::size_t kJobsInModule = 8;
  Cache cache_;
  CompilerPool quick_{Effort::quick}, thorough_{Effort::thorough};
  std::atomic<std::int64_t> next_name_{0};
  mutable std::mutex stats_mutex_;
  GeneratorStats stats_;
};

}  // namespace
}  // namespace gex::codegen

extern "C" __attribute__((visibility("default"))) gex::codegen::Generator* gex_llvm_generator(
    int version, const char** why_not) {
  using namespace gex::codegen;
  if (version != kGeneratorVersion) {
    *why_not = "it belongs to another version of gex: reinstall both libraries";
    return nullptr;
  }
  if (!host_target().why_not.empty()) {
    *why_not = host_target().why_not.c_str();
    return nullptr;
  }
  // Never destroyed: callers may hold code beyond the end of main.
  static auto* const generator = new LlvmGenerator;
  return generator;
}
