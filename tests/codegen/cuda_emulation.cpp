#include "cuda_emulation.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "cuda_emulation_text.hpp"

namespace gex::codegen {

std::string temporary_folder() {
  char name[] = "/tmp/gex_cuda_text_XXXXXX";
  EXPECT_NE(mkdtemp(name), nullptr);
  return name;
}

int run_command(const std::string& command) { return std::system(command.c_str()); }

EmulatedKernels::~EmulatedKernels() {
  if (library_ != nullptr) dlclose(library_);
}

int EmulatedKernels::add(const backend::cuda::KernelText& kernel) {
  if (const auto same = numbers_.find(kernel.source); same != numbers_.end()) return same->second;
  const int number = static_cast<int>(names_.size());
  numbers_[kernel.source] = number;
  const std::string attribute = "__cluster_dims__(";
  const std::size_t cluster = kernel.source.find(attribute);
  clusters_.push_back(kernel.name == "gex_super_kernel" ? 0
                      : cluster == std::string::npos
                          ? 1
                          : std::stoi(kernel.source.substr(cluster + attribute.size())));
  names_.push_back(str(kernel.name, "_", number));
  std::string body = kernel.source.substr(backend::cuda::prelude().size());
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = 0; (at = body.find(kernel.name, at)) != std::string::npos;) {
    const std::size_t end = at + kernel.name.size();
    if (end >= body.size() || !is_part(body[end])) body.insert(end, str("_", number));
    at = end;
  }
  bodies_.push_back(std::move(body));
  return number;
}

std::string EmulatedKernels::device_source(int first, int parts) const {
  std::string text(backend::cuda::prelude());
  for (std::size_t i = static_cast<std::size_t>(first); i < bodies_.size();
       i += static_cast<std::size_t>(parts))
    text += bodies_[i];
  return text;
}

void EmulatedKernels::compile() {
  const std::string folder = temporary_folder();
  const bool together = std::find(clusters_.begin(), clusters_.end(), 0) != clusters_.end();
  std::ofstream(folder + "/kernels.cpp") << (together ? "#define GEX_BLOCKS_RUN_TOGETHER\n" : "")
                                         << kCheckFunctions << kEmulation << "#line 1\n"
                                         << device_source() << kEmulatedRun;
  const std::string compiler = "c++ -std=c++20 -O1 -ffp-contract=off -w -fPIC -pthread ";
  const std::string object = folder + "/kernels.o";
  ASSERT_EQ(
      run_command(str(compiler, kEmulationChecks, " -c -o ", object, " ", folder,
                      "/kernels.cpp && ", compiler, "-shared -o ", folder, "/kernels.so ", object)),
      0);
  library_ = dlopen((folder + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library_, nullptr) << dlerror();
  EXPECT_EQ(run_command("rm -r " + folder), 0);
}

void EmulatedKernels::run(int kernel, std::span<const std::int64_t> words, std::int64_t blocks,
                          int threads, std::int64_t shared_bytes) const {
  using Kernel = void (*)(const std::int64_t*);
  using Run = void (*)(Kernel, const std::int64_t*, unsigned, unsigned, long long, unsigned);
  const auto function = reinterpret_cast<Kernel>(dlsym(library_, name(kernel).c_str()));
  const auto run_kernel = reinterpret_cast<Run>(dlsym(library_, "run_kernel"));
  ASSERT_NE(function, nullptr) << name(kernel);
  ASSERT_NE(run_kernel, nullptr);
  run_kernel(function, words.data(), static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
             shared_bytes, static_cast<unsigned>(clusters_[static_cast<std::size_t>(kernel)]));
}

}  // namespace gex::codegen
