// gex compile: a model or graph as a file that runs without the compiler.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "backend/cuda/cuda_backend.hpp"
#include "base/activity.hpp"
#include "base/error.hpp"
#include "commands.hpp"
#include "compile/index_checks.hpp"
#include "compiling.hpp"
#include "deploy/build/save_model.hpp"
#include "files.hpp"
#include "frontend/onnx/session.hpp"
#include "frontend/onnx/tensor_outputs.hpp"
#include "model_file.hpp"
#include "python_module.hpp"
#include "shapes.hpp"
#include "target/target.hpp"
#include "tensorflow.hpp"

namespace gex::tool {
namespace {

struct Built {
  Compiled compiled;
  deploy::Metadata metadata;
  std::set<std::string> updatable;
};

deploy::TensorInfo info(const std::string& name, std::string type) {
  deploy::TensorInfo result;
  result.name = name;
  result.type = std::move(type);
  return result;
}

// The element type of an item, as the model names it.
void add_infos(const std::vector<onnx::Item>& items, const std::vector<std::string>& names,
               const char* what, std::vector<deploy::TensorInfo>& infos) {
  for (std::size_t k = 0; k < items.size(); ++k) {
    if (items[k].kind != onnx::Item::Kind::tensor)
      fail(ErrorCode::unsupported, what, " '", names[k],
           "' is a sequence or optional; model files hold models of tensors");
    if (items[k].elem == onnx::Elem::string)
      fail(ErrorCode::unsupported, what, " '", names[k],
           "' holds strings, which are numbered per process; model files can't "
           "have them");
    infos.push_back(info(names[k], std::string(onnx::name_of(items[k].elem))));
  }
}

// The initialisers that --updatable names. Small ones that are named become weights too; "all"
// means every initialiser that is a weight without being named.
std::set<std::string> updatable_of(const onnx::ModelProto& model, const Arguments& arguments,
                                   std::int64_t& weight_elements) {
  std::set<std::string> wanted, found;
  for (const std::string& name : arguments.list("--updatable")) wanted.insert(name);
  const bool all = wanted.erase("all") != 0;
  for (const onnx::TensorProto& tensor : model.graph.initialisers) {
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.dims) elements *= size;
    if (wanted.erase(tensor.name) != 0)
      weight_elements = std::min(weight_elements, elements);
    else if (!all || elements < onnx::kWeightElements)
      continue;
    found.insert(tensor.name);
  }
  if (!wanted.empty())
    fail(ErrorCode::not_found, "--updatable: the model has no initialiser '", *wanted.begin(), "'");
  return found;
}

Built build_onnx(const std::string& file, const Arguments& arguments,
                 const CompileOptions& options) {
  const auto model = onnx::read_model(file);
  onnx::ImportOptions import_options;
  import_options.weight_elements = onnx::kWeightElements;
  const std::set<std::string> updatable =
      updatable_of(*model, arguments, import_options.weight_elements);
  import_options.inputs = shapes_given(*model, arguments);
  try {
    onnx::Import import = onnx::import_model(model, import_options);
    Built built;
    for (const std::string& note : onnx::make_tensor_outputs(import, *model))
      std::cerr << "gex: note: " << note << "\n";
    add_infos(import.inputs, import.input_names, "input", built.metadata.inputs);
    add_infos(import.outputs, import.output_names, "output", built.metadata.outputs);
    built.compiled = onnx::compile_import(import, options, updatable);
    built.updatable = updatable;
    return built;
  } catch (const UserError& error) {
    if (arguments.has("--shape")) throw;
    fail(error.code(), error.what(),
         "; if this concerns varying sizes, give them numbers or ranges with --shape NAME=SIZES");
  } catch (const onnx::ValueNeeded& needed) {
    fail(ErrorCode::unsupported, arguments.file(), " can't be compiled ahead of time: ", needed.why,
         "; sizes and branches must not depend on input values (--shape fixes sizes)");
  }
}

Built build_graph(const std::string& file, const Arguments& arguments,
                  const CompileOptions& options) {
  if (arguments.has("--shape") || arguments.has("--updatable"))
    fail(
        ErrorCode::invalid_argument,
        "--shape and --updatable are for ONNX models; a graph's text says its sizes itself and has "
        "no weights");
  std::unique_ptr<Graph> graph = read_graph(file);
  if (user_options(arguments).api.check_indices) add_index_checks(*graph);
  Built built;
  const Signature signature = Signature::of(*graph);
  for (const Signature::Input& input : signature.inputs)
    built.metadata.inputs.push_back(info(input.name, ""));
  for (const Signature::Output& output : signature.outputs) {
    const Value* value = graph->outputs()[static_cast<std::size_t>(output.graph_output)];
    built.metadata.outputs.push_back(info(value->name(), ""));
  }
  built.compiled = compile(std::move(graph), signature, options);
  return built;
}

std::vector<std::string> levels_of(const Arguments& arguments) {
  std::vector<std::string> levels = arguments.list("--cpu");
  if (levels.empty()) levels = {"v3", "v4"};
  for (const std::string& level : levels)
    if (level != "v2" && level != "v3" && level != "v4")
      fail(ErrorCode::invalid_argument, "--cpu takes v2, v3 and v4, got '", level, "'");
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

Target target_given(const Arguments& arguments) {
  try {
    return parse_target(compile_options(arguments).target);
  } catch (const UserError& error) {
    fail(error.code(), "--target: ", error.what());
  }
}

// Which of --cpu and --gpu is for the target of --target.
void choose_gpu(const Arguments& arguments) {
  const bool is_cpu = target_given(arguments).is_cpu();
  const auto architecture = arguments.value("--gpu");
  if (is_cpu && architecture) fail(ErrorCode::invalid_argument, "--gpu is for --target cuda");
  if (!is_cpu && arguments.has("--cpu"))
    fail(ErrorCode::invalid_argument, "--cpu is for --target cpu; use --gpu sm_90");
  if (architecture) backend::cuda::compile_for(*architecture);
}

Built build(const std::string& file, const Arguments& arguments, const CompileOptions& options) {
  if (is_onnx(file)) return build_onnx(file, arguments, options);
  if (!is_tensorflow(file)) return build_graph(file, arguments, options);
  const ConvertedModel converted(file, arguments);
  return build_onnx(converted.onnx(), arguments, options);
}

// One model has the name of the file that is written, several those of their own files.
std::vector<Built> build_all(const Arguments& arguments, const std::string& path) {
  const CompileOptions options = cached(compile_options(arguments));
  const bool single = arguments.files().size() == 1;
  if (!single && arguments.has("--name"))
    fail(ErrorCode::invalid_argument, "--name is for one model; several have their files' names");
  std::vector<Built> models;
  for (const std::string& file : arguments.files()) {
    Built built = build(file, arguments, options);
    built.metadata.name = arguments.value("--name").value_or(
        std::filesystem::path(single ? path : file).stem().string());
    for (const Built& other : models)
      if (other.metadata.name == built.metadata.name)
        fail(ErrorCode::invalid_argument, "two models would be called '", other.metadata.name,
             "'; rename one of the files");
    built.metadata.source = std::filesystem::path(file).filename().string();
    built.metadata.gears = gears_given(*built.compiled.program, arguments);
    models.push_back(std::move(built));
  }
  return models;
}

int run(const Arguments& arguments) {
  if (arguments.files().empty()) arguments.file();  // says that one is needed
  const auto output = arguments.has("-o") ? arguments.value("-o") : arguments.value("--output");
  if (!output && arguments.files().size() > 1)
    fail(ErrorCode::invalid_argument, "several models need -o FILE");
  const std::string path =
      output ? *output
             : std::filesystem::path(arguments.file()).replace_extension(".gexe").string();
  deploy::SaveOptions save;
  save.levels = levels_of(arguments);
  choose_gpu(arguments);
  save.key = key_given(arguments);
  auto activity = std::make_unique<Activity>(str("compiling ", path));
  const std::vector<Built> built = build_all(arguments, path);
  std::vector<deploy::NewModel> models;
  for (const Built& model : built)
    models.push_back({&model.compiled, model.metadata, model.updatable});
  Activity::note("code for each instruction set, and the file");
  const deploy::SaveReport report = deploy::save_models(models, save, path);
  activity.reset();
  if (!report.unproven.empty())
    std::cerr << "gex: note: " << path << " loads with --trust only: " << report.unproven.front()
              << "\n";
  std::cout << path << ": " << report.file_bytes << " bytes, " << report.weight_bytes
            << " of weights, " << report.code_bytes << " of machine code for";
  for (const std::string& level : report.levels) std::cout << " " << level;
  std::cout << "\n";
  return 0;
}

Command declared() {
  return {
      "compile",
      "MODEL.onnx|GRAPH.gex|PROGRAM.pt2|SAVED_MODEL/... -o MODEL.gexe [options]",
      "compiles a model ahead of time into one file",
      "The file holds the program, machine code for the named processors (with --target cuda\n"
      "for a GPU; loading it then needs neither NVRTC nor a compiler), the weights and the\n"
      "names, types and sizes of inputs and outputs. gex run, gex bench, gex serve, gex.load\n"
      "and the C and C++ interface load it in milliseconds, without a compiler and without\n"
      "Python. docs/artifact.md has the format. Sizes of --shape are numbers, ranges (1..32) or\n"
      "names. .pt2 files and TensorFlow models go through Python (GEX_PYTHON, else python3).\n"
      "Several models become one file, in which equal weights are stored once; gex run --model\n"
      "chooses one. Weights of --updatable can be replaced by gex update.",
      with_compile_options(with_flags_of(
          {"check_indices"},
          {{"-o", "FILE", "where to write it (the model's name with .gexe)"},
           {"--output", "FILE", "the same"},
           {"--cpu", "v2,v3,v4", "x86-64 levels to generate machine code for (v3,v4)"},
           {"--gpu", "sm_90", "architecture, for --target cuda (this machine's, else sm_90)"},
           {"--shape", "NAME=SIZES", "sizes of an input: 1..32,3,224,224; may be repeated"},
           {"--gears", "SIZE=1,8,32", "sizes that calls are rounded up to, or auto"},
           {"--name", "NAME", "of the model (the file's)"},
           {"--key", "FILE", "signs the file with the contents of FILE"},
           {"--updatable", "NAMES|all", "ONNX: weights that gex update may replace"},
           {"--inputs", "NAMES", "frozen TensorFlow graphs: inputs, as x:0,y:0"},
           {"--outputs", "NAMES", "frozen TensorFlow graphs: outputs"}})),
      64,
      run};
}

int run_words(const std::vector<std::string>& words) {
  const Command command = declared();
  const Arguments arguments(command, words);
  if (!arguments.files().empty() && arguments.files().front().ends_with(".pt2")) {
    check_exists(arguments.files().front());
    return run_python_module("gex.export.convert", words);
  }
  return run(arguments);
}

}  // namespace

Command compile_command() {
  Command command = declared();
  command.run_words = run_words;
  return command;
}

}  // namespace gex::tool
