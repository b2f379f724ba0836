#include "runtime/drivers/cuda/control_nodes.hpp"

#include "base/error.hpp"

namespace gex::runtime::cuda {

namespace {

const ConditionalApi& nodes_api() {
  std::string why_not;
  const ConditionalApi* api = conditional_api(why_not);
  GEX_CHECK(api != nullptr, "conditional nodes: ", why_not);
  return *api;
}

// What a stream is being captured into.
struct Captured {
  Graph graph = nullptr;
  const GraphNode* dependencies = nullptr;
  const void* edges = nullptr;
  std::size_t count = 0;
};

Captured captured(const CudaDevice& device, const ConditionalApi& api, Stream stream) {
  Captured out;
  int status = 0;
  unsigned long long number = 0;
  check(device.api(),
        api.capture_info(stream, &status, &number, &out.graph, &out.dependencies, &out.edges,
                         &out.count),
        "querying a capture");
  GEX_CHECK(status == kCaptureActive, "a conditional node outside of a capture");
  return out;
}

}  // namespace

ControlNodes::ControlNodes(const CudaDevice& device, const std::int64_t* words, CudaQueue& queue,
                           CudaDevice::Mode mode)
    : device_(device), api_(nodes_api()), words_(words), queue_(queue), mode_(mode) {}

void ControlNodes::add(const CudaOp& op, Stream main) {
  if (op.kind == CudaOp::Kind::branch)
    add_branch(op, main);
  else
    add_loop(op, main);
}

// Both conditions are set before the first body, which may overwrite the byte.
void ControlNodes::add_branch(const CudaOp& op, Stream main) {
  const std::vector<CudaOp>* const bodies[] = {&op.first, &op.second};
  ConditionHandle conditions[2] = {};
  for (int k = 0; k < 2; ++k) {
    if (bodies[k]->empty()) continue;
    conditions[k] = make_condition(main);
    set(conditions[k], k == 1, op, main);
  }
  for (int k = 0; k < 2; ++k)
    if (!bodies[k]->empty())
      fill(add_node(kConditionalIf, conditions[k], main), *bodies[k], nullptr, conditions[k]);
}

void ControlNodes::add_loop(const CudaOp& op, Stream main) {
  device_.issue_run(op.first, words_, queue_, main, mode_);
  const ConditionHandle condition = make_condition(main);
  set(condition, false, op, main);
  fill(add_node(kConditionalWhile, condition, main), op.second, &op, condition);
}

ConditionHandle ControlNodes::make_condition(Stream main) const {
  ConditionHandle condition = 0;
  check(device_.api(),
        api_.make_condition(&condition, captured(device_, api_, main).graph, device_.context(), 0,
                            kAssignDefault),
        "making a condition");
  return condition;
}

void ControlNodes::set(ConditionHandle condition, bool inverted, const CudaOp& op,
                       Stream stream) const {
  DevicePtr parameters = queue_.block() + static_cast<DevicePtr>(op.word) * 8;
  int opposite = inverted ? 1 : 0;
  void* arguments[] = {&parameters, &condition, &opposite};
  check(device_.api(),
        device_.api().launch(op.function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
        "setting a condition");
}

Graph ControlNodes::add_node(int kind, ConditionHandle condition, Stream main) const {
  const Captured at = captured(device_, api_, main);
  ConditionalNode params;
  params.handle = condition;
  params.kind = kind;
  params.context = device_.context();
  GraphNode node = nullptr;
  check(device_.api(), api_.add_node(&node, at.graph, at.dependencies, at.edges, at.count, &params),
        "adding a conditional node");
  check(device_.api(), api_.set_dependencies(main, &node, nullptr, 1, kSetDependencies),
        "continuing after a conditional node");
  return params.bodies[0];
}

void ControlNodes::fill(Graph body, std::span<const CudaOp> steps, const CudaOp* loop,
                        ConditionHandle condition) const {
  CudaDevice::Mode inner = mode_;
  ++inner.depth;
  const Stream stream = queue_.side_streams().stream(SideStreams::first_of_depth(inner.depth));
  check(device_.api(), api_.capture_into(stream, body, nullptr, nullptr, 0, kCaptureRelaxed),
        "beginning the body of a conditional node");
  Graph same = nullptr;
  try {
    device_.issue_run(steps, words_, queue_, stream, inner);
    if (loop != nullptr) {
      device_.issue_run(loop->first, words_, queue_, stream, inner);
      set(condition, false, *loop, stream);
    }
  } catch (const Error&) {
    device_.api().capture_end(stream, &same);  // or the stream would be unusable
    throw;
  }
  check(device_.api(), device_.api().capture_end(stream, &same),
        "ending the body of a conditional node");
}

}  // namespace gex::runtime::cuda
