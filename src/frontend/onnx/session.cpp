#include "frontend/onnx/session.hpp"

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "compile/execute.hpp"
#include "frontend/onnx/session_host.hpp"
#include "ir/type.hpp"

namespace gex::onnx {
namespace {

constexpr std::size_t kRemembered = 4096;

std::string text_of(const HostValue& value, bool sizes) {
  std::string text = str(static_cast<int>(value.kind), ":", static_cast<int>(value.elem), "[");
  if (value.kind == Item::Kind::tensor) {
    text += str(value.shape.size(), ";");
    if (sizes)
      for (const std::int64_t d : value.shape) text += str(d, ",");
  }
  for (const HostValue& item : value.items) text += text_of(item, true);
  return text + "]";
}

InputFact fact_of(const HostValue& value) {
  InputFact fact;
  fact.kind = value.kind;
  fact.elem = value.elem;
  if (value.kind == Item::Kind::tensor) fact.shape = Shape(value.shape.begin(), value.shape.end());
  for (const HostValue& item : value.items) fact.items.push_back(fact_of(item));
  return fact;
}

// Whether the model's declaration is sufficient: a tensor of this rank without empty axes.
bool told_by_model(const ValueInfo& info, const HostValue& value) {
  if (info.type.kind != TypeProto::Kind::tensor || value.kind != Item::Kind::tensor) return false;
  if (!info.type.shape) return false;
  return std::ranges::none_of(value.shape, [](std::int64_t d) { return d == 0; });
}

void check_input(const ValueInfo& info, const HostValue& value) {
  if (info.type.kind == TypeProto::Kind::tensor) {
    if (value.kind != Item::Kind::tensor)
      fail(ErrorCode::type_mismatch, "input '", info.name, "' is a tensor of ",
           name_of(info.type.elem));
    if (value.elem != info.type.elem)
      fail(ErrorCode::type_mismatch, "input '", info.name, "' is a tensor of ",
           name_of(info.type.elem), ", got ", name_of(value.elem));
    if (info.type.shape && info.type.shape->size() != value.shape.size())
      fail(ErrorCode::shape_mismatch, "input '", info.name, "' has ", info.type.shape->size(),
           " axes, got ", value.shape.size());
    for (std::size_t d = 0; info.type.shape && d < value.shape.size(); ++d) {
      const auto& size = (*info.type.shape)[d].value;
      if (size && *size >= 0 && *size != value.shape[d])
        fail(ErrorCode::shape_mismatch, "axis ", d, " of input '", info.name, "' has ", *size,
             " elements, got ", value.shape[d]);
    }
  }
  if (info.type.kind == TypeProto::Kind::sequence && value.kind != Item::Kind::sequence)
    fail(ErrorCode::type_mismatch, "input '", info.name, "' is a sequence");
}

void flatten(const HostValue& value, std::vector<const HostValue*>& leaves) {
  if (value.kind == Item::Kind::tensor) leaves.push_back(&value);
  for (const HostValue& item : value.items) flatten(item, leaves);
}

HostTensor tensor_from(const HostValue& value) {
  return HostTensor::from_bytes(memory_type_of(value.elem), value.shape, value.data.get());
}

std::string bytes_of(const HostTensor& tensor) {
  std::string text;
  for (const std::int64_t d : tensor.shape()) text += str(d, ",");
  text.append(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
  return text;
}

HostValue rebuilt(const Item& item, std::vector<HostTensor>& leaves, std::size_t& next) {
  HostValue value;
  value.kind = item.kind;
  value.elem = item.elem;
  if (item.kind == Item::Kind::tensor)
    return HostValue::tensor(item.elem, std::move(leaves[next++]));
  for (const Item& inner : item.items) value.items.push_back(rebuilt(inner, leaves, next));
  return value;
}

}  // namespace

HostValue HostValue::tensor(Elem elem, HostTensor memory) {
  GEX_CHECK(memory.dtype() == memory_type_of(elem), "memory of ", memory.dtype(), " for ",
            name_of(elem));
  HostValue value;
  value.kind = Item::Kind::tensor;
  value.elem = elem;
  value.shape = memory.shape();
  auto owned = std::make_shared<HostTensor>(std::move(memory));
  value.data = std::shared_ptr<const void>(owned, owned->data());
  return value;
}

struct Session::Program {
  Import import;  // without its graph
  std::unique_ptr<runtime::Session> session;
  std::vector<std::shared_ptr<const void>> frozen;
  std::size_t leaves = 0;

  std::vector<HostTensor> run(std::span<const HostValue> inputs) const {
    std::vector<const HostValue*> values;
    for (const HostValue& input : inputs) flatten(input, values);
    return run_session(*session, values);
  }
};

struct Session::Fork {
  std::unique_ptr<Program>
      program;  // of the model, or of the value that decides how the import continues
  bool is_probe = false;
  int read_input = -1;  // a probe that only reads this graph input
  Elem read_elem = Elem::undefined;
  std::map<std::string, std::unique_ptr<Fork>> next;  // by the value
};

Session::Session(std::shared_ptr<const ModelProto> model, SessionSettings settings)
    : model_(std::move(model)),
      settings_(std::move(settings)),
      device_(open_target(settings_.compile.target)),
      static_shapes_(settings_.static_shapes) {}
Session::~Session() = default;

SessionStatistics Session::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

Compiled compile_import(Import& import, CompileOptions options,
                        const std::set<std::string>& updatable) {
  for (const auto& [input, tensor] : import.weights) {
    FrozenInput frozen;
    frozen.graph_input = input;
    frozen.memory = std::shared_ptr<const void>(tensor, tensor->data());
    frozen.contents =
        !updatable.contains(import.graph->inputs()[static_cast<std::size_t>(input)]->name());
    options.frozen.push_back(std::move(frozen));
  }
  Signature signature;
  std::vector<bool> is_weight(import.graph->inputs().size(), false);
  for (const auto& [input, tensor] : import.weights)
    is_weight[static_cast<std::size_t>(input)] = true;
  for (std::size_t k = 0; k < is_weight.size(); ++k) {
    if (is_weight[k]) continue;
    Signature::Input input;
    input.graph_input = static_cast<int>(k);
    input.name = import.graph->inputs()[k]->name();
    signature.inputs.push_back(std::move(input));
  }
  for (std::size_t k = 0; k < import.graph->outputs().size(); ++k) {
    Signature::Output output;
    output.graph_output = static_cast<int>(k);
    signature.outputs.push_back(output);
  }
  return compile(std::move(import.graph), signature, options);
}

std::unique_ptr<Session::Program> Session::compiled(Import import) const {
  auto program = std::make_unique<Program>();
  Compiled result = compile_import(import, settings_.compile);
  runtime::SessionOptions session = settings_.session;
  session.frozen = result.frozen;
  program->frozen = result.frozen;
  program->session =
      std::make_unique<runtime::Session>(result.executable, session, result.specialiser);
  program->import = std::move(import);
  program->import.weights.clear();
  return program;
}

// Imports and compiles what follows these answers.
void Session::grow(Fork& fork, std::span<const HostValue> inputs, std::vector<HostTensor> answers,
                   bool static_shapes) {
  ImportOptions options;
  options.weight_elements = kWeightElements;
  options.contents = &contents_;
  options.answers = std::move(answers);
  const auto infos = model_inputs(*model_);
  for (std::size_t k = 0; k < infos.size(); ++k) {
    if (static_shapes || !told_by_model(*infos[k], inputs[k]))
      options.inputs.emplace_back(fact_of(inputs[k]));
    else
      options.inputs.emplace_back(std::nullopt);
  }
  ++statistics_.imports;
  try {
    fork.program = compiled(import_model(model_, options));
    ++statistics_.programs;
  } catch (const UserError&) {
    if (!static_shapes) static_shapes_ = true;  // not tried again in each call
    throw;
  } catch (const ValueNeeded& needed) {
    fork.is_probe = true;
    Value* value = needed.so_far->graph->outputs()[0];
    if (value->is_input()) {
      fork.read_input = value->index();
    } else {
      fork.program = compiled(std::move(*needed.so_far));
      ++statistics_.probes;
    }
  }
}

Session::Fork& Session::root_for(std::span<const HostValue> inputs, bool static_shapes) {
  const auto infos = model_inputs(*model_);
  std::string key = static_shapes ? "static " : "";
  for (std::size_t k = 0; k < inputs.size(); ++k)
    key += text_of(inputs[k], static_shapes || !told_by_model(*infos[k], inputs[k]));
  std::unique_ptr<Fork>& root = roots_[key];
  if (!root) {
    auto fresh = std::make_unique<Fork>();
    grow(*fresh, inputs, {}, static_shapes);
    root = std::move(fresh);
  }
  return *root;
}

std::vector<HostValue> Session::run(std::span<const HostValue> inputs) {
  const auto infos = model_inputs(*model_);
  if (inputs.size() != infos.size())
    fail(ErrorCode::invalid_argument, "the model takes ", infos.size(), " inputs, got ",
         inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) check_input(*infos[k], inputs[k]);
  if (static_shapes_) return run_with(inputs, true);
  std::string sizes;
  for (const HostValue& input : inputs) sizes += text_of(input, true);
  {
    const std::lock_guard lock(mutex_);
    if (only_static_.contains(sizes)) sizes.clear();
  }
  if (sizes.empty() && !inputs.empty()) return run_with(inputs, true);
  try {
    return run_with(inputs, false);
  } catch (const UserError& error) {
    // A shape rule that can't decide for open sizes can for those at hand, and sizes that the file
    // takes for equal may differ. Where it is a mistake of the model or of the inputs, the same
    // error comes again.
    log(LogArea::onnx, LogLevel::info,
        "importing for the sizes of each call, because of: ", error.what());
    auto results = run_with(inputs, true);
    const std::lock_guard lock(mutex_);
    if (only_static_.size() < kRemembered) only_static_.insert(sizes);
    return results;
  }
}

std::vector<HostValue> Session::run_with(std::span<const HostValue> inputs, bool static_shapes) {
  const Program* program = nullptr;
  {
    std::unique_lock lock(mutex_);
    Fork* fork = &root_for(inputs, static_shapes);
    std::vector<HostTensor> answers;
    while (fork->is_probe) {
      HostTensor answer;
      if (fork->read_input >= 0) {
        std::vector<const HostValue*> leaves;
        for (const HostValue& input : inputs) flatten(input, leaves);
        answer = tensor_from(*leaves[static_cast<std::size_t>(fork->read_input)]);
      } else {
        answer = std::move(fork->program->run(inputs)[0]);
      }
      std::unique_ptr<Fork>& next = fork->next[bytes_of(answer)];
      answers.push_back(std::move(answer));
      if (!next) {
        auto fresh = std::make_unique<Fork>();
        grow(*fresh, inputs, answers, static_shapes);
        next = std::move(fresh);
      }
      fork = next.get();
    }
    program = fork->program.get();
  }
  std::vector<HostTensor> leaves = program->run(inputs);
  std::vector<HostValue> results;
  std::size_t next = 0;
  for (const Item& item : program->import.outputs) results.push_back(rebuilt(item, leaves, next));
  return results;
}

}  // namespace gex::onnx
