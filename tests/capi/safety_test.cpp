// What must never crash, hang or pass silently: destroyed handles, indices out of range, endless
// runs, unbounded queues.

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <gex/es.hpp>
#include <gex/es/ops.hpp>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "harness.hpp"

namespace gex::test {
namespace {

using namespace gex::es;
using namespace std::chrono_literals;

gex_status status_of(const std::function<void()>& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.status();
  }
  return GEX_OK;
}

std::string message_of(const std::function<void()>& body) {
  std::string message = "nothing was thrown";
  status_of(body, &message);
  return message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// --- handles -------------------------------------------------------------------------------------

TEST(Handles, DestroyedOnesAreRefused) {
  gex_graph* graph = nullptr;
  ASSERT_EQ(gex_graph_create("g", &graph), GEX_OK);
  gex_graph_destroy(graph);
  char* text = nullptr;
  EXPECT_EQ(gex_graph_print(graph, &text), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("graph was already destroyed"));
  gex_graph_destroy(graph);  // nothing happens

  GraphPtr other = new_graph();
  const gex_value x = input(other, "x", GEX_F32, {{2, nullptr}});
  gex_program* program = compiled(other, {add(other, "neg", {x})}).release();
  gex_program_destroy(program);
  std::size_t count = 0;
  EXPECT_EQ(gex_program_input_count(program, &count), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("program was already destroyed"));
  gex_program_destroy(program);
}

// A graph of one input whose result is `op` of it.
gex_graph* branch(const char* name, const char* op) {
  GraphPtr graph = new_graph(name);
  const gex_value x = input(graph, "x", GEX_F32, {{2, nullptr}});
  const gex_value y = add(graph, op, {x});
  EXPECT_EQ(gex_graph_set_outputs(graph.get(), &y, 1), GEX_OK);
  return graph.release();
}

TEST(Handles, OfSubgraphsThatANodeTakesAreDestroyed) {
  GraphPtr graph = new_graph();
  const gex_value flag = input(graph, "flag", GEX_BOOL, {});
  const gex_value x = input(graph, "x", GEX_F32, {{2, nullptr}});
  const gex_value inputs[] = {flag, x};
  gex_node node = GEX_NODE_INIT;
  node.op = "if";
  node.inputs = inputs;
  node.input_count = 2;
  node.subgraph_count = 2;
  node.take_subgraphs = 1;
  gex_value result = 0;
  for (const char* other : {"neg", "absent"}) {  // the second call fails
    const gex_graph* subgraphs[] = {branch("a", "exp"), branch("b", "neg")};
    node.subgraphs = subgraphs;
    node.op = std::string(other) == "neg" ? "if" : other;
    EXPECT_EQ(gex_graph_add_node(graph.get(), &node, &result, 1) == GEX_OK,
              std::string(other) == "neg");
    for (const gex_graph* taken : subgraphs) {
      EXPECT_EQ(gex_graph_verify(taken), GEX_INVALID_ARGUMENT);
      EXPECT_TRUE(says("already destroyed"));
    }
  }
  node.op = "if";
  const gex_graph* twice[] = {branch("c", "exp"), nullptr};
  twice[1] = twice[0];
  node.subgraphs = twice;
  EXPECT_EQ(gex_graph_add_node(graph.get(), &node, &result, 1), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("can't be taken"));
  twice[1] = graph.get();
  EXPECT_EQ(gex_graph_add_node(graph.get(), &node, &result, 1), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("subgraph 1 can't be taken: it is the graph itself"));
  node.take_subgraphs = 2;
  EXPECT_EQ(gex_graph_add_node(graph.get(), &node, &result, 1), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("take_subgraphs is 2"));
  EXPECT_EQ(gex_graph_verify(twice[0]), GEX_OK);
  gex_graph_destroy(const_cast<gex_graph*>(twice[0]));
}

TEST(Handles, OfAnotherKindAreRefused) {
  GraphPtr graph = new_graph();
  auto* program = reinterpret_cast<gex_program*>(graph.get());
  std::size_t count = 0;
  EXPECT_EQ(gex_program_input_count(program, &count), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("program is a graph, not a program"));
  gex_program_destroy(program);
  EXPECT_TRUE(has(printed(graph), "graph g"));
  alignas(8) char noise[64] = "nothing of gex";
  EXPECT_EQ(gex_graph_verify(reinterpret_cast<gex_graph*>(noise)), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("not a handle of gex"));
}

TEST(Handles, TensorsAreReleasedOnce) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{2, nullptr}});
  ProgramPtr program = compiled(graph, {add(graph, "neg", {x})});
  const std::vector<std::int64_t> shape = {2};
  float memory[2] = {1, 2};
  const gex_tensor in = tensor(GEX_F32, shape, memory);
  gex_tensor out = GEX_TENSOR_INIT;
  ASSERT_EQ(gex_program_run(program.get(), &in, 1, &out, 1), GEX_OK) << gex_last_error();
  gex_tensor copy = out;
  gex_tensor_release(&out);
  gex_tensor_release(&copy);
}

TEST(Handles, ManyLiveOnesAreNotMistakenForDestroyedOnes) {
  std::vector<GraphPtr> live;
  for (int k = 0; k < 100; ++k) live.push_back(new_graph());
  for (int k = 0; k < 10'000; ++k) new_graph();
  for (const GraphPtr& graph : live) EXPECT_EQ(gex_graph_verify(graph.get()), GEX_OK);
}

// --- sizes, cycles, recursion --------------------------------------------------------------------

TEST(Sizes, BytesBeyond64BitsAreRefused) {
  EXPECT_TRUE(
      has(message_of([] { Tensor(DType::f32, {1LL << 62}); }), "in bytes overflows 64 bits"));
  EXPECT_TRUE(
      has(message_of([] { Tensor(DType::f64, {1LL << 31, 1LL << 31}); }), "in bytes overflows"));
  char byte = 0;
  EXPECT_TRUE(has(message_of([&] { Tensor::Borrow(DType::f32, {1LL << 61}, &byte); }),
                  "in bytes overflows"));
  EXPECT_EQ(Tensor(DType::f32, {1LL << 62, 0}).size(), 0U);
}

TEST(Sizes, ATensorThatMemoryCantHoldIsAnErrorWithItsSize) {
  std::string message;
  const auto make = [] { Tensor(DType::f32, {std::int64_t{1} << 50, 16}); };
  EXPECT_EQ(status_of(make, &message), GEX_OUT_OF_MEMORY);
  EXPECT_TRUE(has(message, "f32[1125899906842624, 16]")) << message;
  EXPECT_TRUE(has(message, "72057594037927936 bytes")) << message;
}

TEST(ControlEdges, CyclesAreRefused) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {2});
  auto a = Neg(x), b = Exp(x), c = Abs(x);
  b.AddControlEdge({a});
  c.AddControlEdge({b});
  for (auto* behind : {&b, &c})
    EXPECT_TRUE(has(message_of([&] { a.AddControlEdge({*behind}); }), "a cycle"));
  EXPECT_TRUE(has(message_of([&] { a.AddControlEdge({a}); }), "a cycle"));
  // Through an operand: d needs c, which comes after a.
  auto d = Neg(c);
  EXPECT_TRUE(has(message_of([&] { a.AddControlEdge({d}); }), "a cycle"));
  const auto graph = builder.BuildAndReset({a, b, c, d});
  EXPECT_EQ(graph->Run({Tensor::Of<float>({2}, {1, 2})})[0].ToVector<float>(),
            (std::vector<float>{-1, -2}));
}

TEST(ControlEdges, CyclesAreRefusedInAClone) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{2, nullptr}});
  const gex_value a = add(graph, "neg", {x}), b = add(graph, "exp", {x});
  ASSERT_EQ(gex_graph_order(graph.get(), b, &a, 1), GEX_OK) << gex_last_error();
  const gex_value outputs[] = {a, b};
  ASSERT_EQ(gex_graph_set_outputs(graph.get(), outputs, 2), GEX_OK);
  gex_graph* made = nullptr;
  ASSERT_EQ(gex_graph_clone(graph.get(), &made), GEX_OK);
  const GraphPtr clone(made);
  gex_value copies[2] = {};
  for (std::size_t k = 0; k < 2; ++k) ASSERT_EQ(gex_graph_get_output(made, k, &copies[k]), GEX_OK);
  EXPECT_EQ(gex_graph_order(made, copies[0], &copies[1], 1), GEX_INVALID_GRAPH);
  EXPECT_TRUE(says("a cycle"));
}

gex_status expand_to_itself(void* user, gex_graph* graph, const gex_value* inputs, size_t,
                            gex_value* outputs, size_t, size_t* count) {
  *count = 1;
  return gex_graph_add(graph, static_cast<const char*>(user), inputs, 1, nullptr, 0, outputs, 1);
}

gex_status expand_to_more(void*, gex_graph* graph, const gex_value* inputs, size_t,
                          gex_value* outputs, size_t, size_t* count) {
  *count = 1;
  gex_attr axis = {"axis", GEX_ATTR_INT, 0, {}};
  const gex_value twice[] = {inputs[0], inputs[0]};
  gex_value wider = GEX_NO_VALUE;
  const gex_status status = gex_graph_add(graph, "cat", twice, 2, &axis, 1, &wider, 1);
  if (status != GEX_OK) return status;
  return gex_graph_add(graph, "safety.endless", &wider, 1, nullptr, 0, outputs, 1);
}

TEST(CustomOps, ARecursiveOpIsRejected) {
  const char* const names[] = {"x"};
  const auto declare = [&](const char* name, const char* made_of, decltype(gex_op::expand) expand) {
    gex_op op = GEX_OP_INIT;
    op.name = name;
    op.inputs = names;
    op.input_count = 1;
    op.user = const_cast<char*>(made_of);
    op.expand = expand;
    ASSERT_EQ(gex_register_op(&op), GEX_OK) << gex_last_error();
  };
  declare("safety.self", "safety.self", expand_to_itself);
  declare("safety.left", "safety.right", expand_to_itself);
  declare("safety.right", "safety.left", expand_to_itself);
  declare("safety.endless", nullptr, expand_to_more);
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{2, nullptr}});
  for (const char* name : {"safety.self", "safety.left", "safety.endless"}) {
    EXPECT_EQ(try_add(graph, name, {x}), GEX_INVALID_ARGUMENT);
    EXPECT_TRUE(says("expands to itself"));
  }
}

// --- indices -------------------------------------------------------------------------------------

std::unique_ptr<es::Graph> indexing(
    const std::function<EsTensorHolder(EsTensorHolder, EsTensorHolder)>& build,
    const Shape& sizes = {4}) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, sizes);
  auto i = builder.CreateInput(1, "i", DType::i64, {"n"});
  return builder.BuildAndReset({build(x, i)});
}

TEST(Indices, OutOfRangeAreErrors) {
  const auto x = Tensor::Of<float>({4}, {10, 11, 12, 13});
  const auto value = [](auto like) { return Cast(like, DType::f32); };
  const std::vector<std::unique_ptr<es::Graph>> graphs = [&] {
    std::vector<std::unique_ptr<es::Graph>> all;
    all.push_back(indexing([](auto a, auto i) { return Index(a, {i}, {0}); }));
    all.push_back(indexing([](auto a, auto i) { return Index(a, {i}, {0}); }, {"s0"}));
    all.push_back(indexing([&](auto a, auto i) { return IndexPut(a, value(i), {i}, {0}); }));
    all.push_back(indexing([&](auto a, auto i) { return Scatter(a, i, value(i), 0, "add"); }));
    all.push_back(indexing([](auto a, auto i) { return TakeAlong(a, i, 0); }));
    return all;
  }();
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    SCOPED_TRACE(k);
    const Program program = graphs[k]->Compile();
    EXPECT_NO_THROW(program.Run({x, Tensor::Of<std::int64_t>({2}, {3, -4})}));
    EXPECT_NO_THROW(program.Run({x, Tensor::Of<std::int64_t>({0}, {})}));
    for (const auto& wrong : {std::vector<std::int64_t>{0, 4}, {-5, 0}, {1LL << 40, 0}}) {
      std::string message;
      EXPECT_EQ(
          status_of([&] { program.Run({x, Tensor::Of<std::int64_t>({2}, wrong)}); }, &message),
          GEX_INVALID_ARGUMENT);
      EXPECT_TRUE(has(message, "index out of range")) << message;
      EXPECT_TRUE(has(message, "has 4 elements")) << message;
    }
    CompileOptions unchecked;
    unchecked.check_indices = false;
    EXPECT_NO_THROW(graphs[k]->Compile(unchecked).Run({x, Tensor::Of<std::int64_t>({2}, {0, 4})}));
  }
}

TEST(Indices, ConstantsOutOfRangeAreCompileErrors) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {4});
  const auto i = builder.CreateConst(std::vector<std::int64_t>{1, 7}, {2});
  const auto graph = builder.BuildAndReset({Index(x, {i}, {0})});
  EXPECT_TRUE(has(message_of([&] { graph->Compile(); }), "index out of range"));
}

TEST(Indices, AreCheckedInsideALoop) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {4});
  auto n = builder.CreateInput(1, "n", DType::i64, {});
  const Holders result = While(
      {n, x}, [](EsGraphBuilder&, const Holders& in) -> Holders { return {Lt(in[0], 10)}; },
      [](EsGraphBuilder&, const Holders& in) -> Holders {
        const auto at = Index(in[1], {Reshape(in[0], {1})}, {0});
        return {in[0] + 1 + Cast(ReduceSum(at, {0}), DType::i64) * 0};
      });
  const Program program = builder.BuildAndReset({result[0]})->Compile();
  const auto zeros = Tensor(DType::f32, {4});
  EXPECT_NO_THROW(program.Run({zeros, Tensor::Of<std::int64_t>({}, {20})}));
  EXPECT_TRUE(has(message_of([&] { program.Run({zeros, Tensor::Of<std::int64_t>({}, {0})}); }),
                  "index out of range"));
}

TEST(Indices, AreCheckedInASavedProgram) {
  const std::string path = testing::TempDir() + "indices.bin";
  indexing([](auto a, auto i) { return Index(a, {i}, {0}); })->Compile().Save(path);
  const Program program = Program::Load(path);
  const auto x = Tensor::Of<float>({4}, {10, 11, 12, 13});
  EXPECT_EQ(program.Run({x, Tensor::Of<std::int64_t>({1}, {-1})})[0].ToVector<float>(),
            std::vector<float>{13});
  EXPECT_TRUE(has(message_of([&] { program.Run({x, Tensor::Of<std::int64_t>({1}, {4})}); }),
                  "index out of range"));
}

// --- cancel and deadline -------------------------------------------------------------------------

// Counts up to n.
Program endless() {
  EsGraphBuilder builder;
  auto n = builder.CreateInput(0, "n", DType::i64, {});
  auto zero = builder.CreateConst(std::vector<std::int64_t>{0}, {});
  const Holders result = While(
      {zero, n}, [](EsGraphBuilder&, const Holders& in) -> Holders { return {Lt(in[0], in[1])}; },
      [](EsGraphBuilder&, const Holders& in) -> Holders { return {in[0] + 1}; });
  return builder.BuildAndReset({result[0]})->Compile();
}

const std::vector<Tensor>& forever() {
  static const std::vector<Tensor> inputs = {Tensor::Of<std::int64_t>({}, {1LL << 60})};
  return inputs;
}

TEST(Stopping, ADeadlineEndsARun) {
  const Program program = endless();
  RunOptions options;
  options.timeout = 50ms;
  EXPECT_EQ(status_of([&] { program.Run(forever(), options); }), GEX_DEADLINE);
  EXPECT_EQ(program.Run({Tensor::Of<std::int64_t>({}, {5})}, options)[0].ToVector<std::int64_t>(),
            std::vector<std::int64_t>{5});
  options.timeout = -1ns;
  EXPECT_EQ(status_of([&] { program.Run(forever(), options); }), GEX_INVALID_ARGUMENT);
  EXPECT_STREQ(gex_status_name(GEX_DEADLINE), "deadline");
}

TEST(Stopping, AnotherThreadCancelsARun) {
  const Program program = endless();
  RunOptions options;
  options.cancel.emplace();
  std::thread canceller([&] {
    std::this_thread::sleep_for(30ms);
    options.cancel->Request();
  });
  std::string message;
  EXPECT_EQ(status_of([&] { program.Run(forever(), options); }, &message), GEX_CANCELLED);
  EXPECT_TRUE(has(message, "cancelled"));
  canceller.join();
}

TEST(Stopping, AProgramInterpretedIsCancelledToo) {
  CompileOptions interpreted;
  interpreted.generate_code = false;
  EsGraphBuilder builder;
  auto n = builder.CreateInput(0, "n", DType::i64, {});
  const Holders result = While(
      {n}, [](EsGraphBuilder&, const Holders& in) -> Holders { return {Gt(in[0], 0)}; },
      [](EsGraphBuilder&, const Holders& in) -> Holders { return {in[0] + 0}; });
  const Program program = builder.BuildAndReset({result[0]})->Compile(interpreted);
  RunOptions options;
  options.timeout = 50ms;
  EXPECT_EQ(status_of([&] { program.Run(forever(), options); }), GEX_DEADLINE);
}

// --- asynchronous runs ---------------------------------------------------------------------------

class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    ++opened_;
    changed_.notify_all();
  }
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] { return opened_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int opened_ = 0;
};

TEST(Async, TheQueueHasALimit) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {2});
  CompileOptions options;
  options.async_limit = 4;
  const Program program = builder.BuildAndReset({Neg(x)})->Compile(options);
  const auto one = Tensor::Of<float>({2}, {1, 2});
  Gate started, may_go_on, done;
  program.RunAsync({one}, [&](auto, auto) {
    started.open();
    may_go_on.wait_for(1);
    done.open();
  });
  ASSERT_TRUE(started.wait_for(1));
  for (int k = 0; k < 4; ++k) program.RunAsync({one}, [&](auto, auto) { done.open(); });
  std::string message;
  EXPECT_EQ(status_of([&] { program.RunAsync({one}, [](auto, auto) {}); }, &message), GEX_BUSY);
  EXPECT_TRUE(has(message, "async_limit")) << message;
  may_go_on.open();
  EXPECT_TRUE(done.wait_for(5));
  program.RunAsync({one}, [&](auto, auto) { done.open(); });
  EXPECT_TRUE(done.wait_for(6));
  options.async_limit = 0;
  EsGraphBuilder other;
  auto y = other.CreateInput(0, "y", DType::f32, {2});
  EXPECT_TRUE(
      has(message_of([&] { other.BuildAndReset({Neg(y)})->Compile(options); }), "async_limit"));
}

TEST(Async, AnExceptionOfACallbackIsLoggedAndTheNextRunGoesOn) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {2});
  const Program program = builder.BuildAndReset({Neg(x)})->Compile();
  const auto one = Tensor::Of<float>({2}, {1, 2});
  Gate done;
  testing::internal::CaptureStderr();
  program.RunAsync({one}, [](auto, auto) { throw std::runtime_error("of the callback"); });
  program.RunAsync({one}, [](auto, auto) { throw 5; });
  program.RunAsync({one}, [&](auto, auto) { done.open(); });
  EXPECT_TRUE(done.wait_for(1));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(log, "of the callback")) << log;
}

TEST(Async, ARunCanBeCancelled) {
  const Program program = endless();
  RunOptions options;
  options.cancel.emplace();
  Gate done;
  gex_status status = GEX_OK;
  program.RunAsync(
      forever(),
      [&](auto, std::exception_ptr error) {
        status = status_of([&] { std::rethrow_exception(error); });
        done.open();
      },
      options);
  std::this_thread::sleep_for(20ms);
  options.cancel->Request();
  EXPECT_TRUE(done.wait_for(1));
  EXPECT_EQ(status, GEX_CANCELLED);
}

TEST(Async, WorksInAForkedChild) {
  EsGraphBuilder builder;
  auto x = builder.CreateInput(0, "x", DType::f32, {2});
  const Program program = builder.BuildAndReset({Neg(x)})->Compile();
  const auto one = Tensor::Of<float>({2}, {1, 2});
  Gate before;
  program.RunAsync({one}, [&](auto, auto) { before.open(); });
  ASSERT_TRUE(before.wait_for(1));
  const pid_t child = ::fork();
  if (child == 0) {
    Gate done;
    float got = 0;
    program.RunAsync({one}, [&](std::vector<Tensor> results, std::exception_ptr) {
      if (!results.empty()) got = results[0].ToVector<float>()[1];
      done.open();
    });
    ::_exit(done.wait_for(1) && got == -2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  program.RunAsync({one}, [&](auto, auto) { before.open(); });
  EXPECT_TRUE(before.wait_for(2));
}

// --- inputs and names ----------------------------------------------------------------------------

TEST(Inputs, OfAnyLayoutAreTaken) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{2, nullptr}, {3, nullptr}});
  ProgramPtr program = compiled(graph, {add(graph, "neg", {x})});
  // The transpose of 3 x 2, every second element, and rows in reverse.
  std::vector<float> memory = {0, 9, 3, 9, 1, 9, 4, 9, 2, 9, 5, 9};
  const std::vector<std::int64_t> shape = {2, 3};
  const std::vector<std::pair<std::size_t, std::vector<std::int64_t>>> layouts = {{0, {2, 4}},
                                                                                  {2, {-2, 4}}};
  for (const auto& [start, strides] : layouts) {
    gex_tensor in = tensor(GEX_F32, shape, memory.data() + start);
    in.strides = strides.data();
    gex_tensor out = GEX_TENSOR_INIT;
    ASSERT_EQ(gex_program_run(program.get(), &in, 1, &out, 1), GEX_OK) << gex_last_error();
    const auto* got = static_cast<const float*>(out.data);
    const std::vector<float> want = start == 0 ? std::vector<float>{0, -1, -2, -3, -4, -5}
                                               : std::vector<float>{-3, -4, -5, 0, -1, -2};
    EXPECT_EQ(std::vector<float>(got, got + 6), want);
    gex_tensor_release(&out);
  }
}

TEST(Inputs, ThatAreWrittenKeepTheirLayout) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{2, nullptr}, {3, nullptr}});
  const gex_value y = add(graph, "neg", {x});
  ASSERT_EQ(gex_graph_set_outputs(graph.get(), &y, 1), GEX_OK);
  ASSERT_EQ(gex_graph_tie(graph.get(), 0, 0), GEX_OK);
  gex_program* made = nullptr;
  ASSERT_EQ(gex_compile(graph.get(), nullptr, &made), GEX_OK);
  const ProgramPtr program(made);
  std::vector<float> memory(6);
  const std::vector<std::int64_t> shape = {2, 3}, strides = {1, 2};
  gex_tensor in = tensor(GEX_F32, shape, memory.data());
  in.strides = strides.data();
  EXPECT_EQ(gex_program_run(made, &in, 1, nullptr, 0), GEX_SHAPE_MISMATCH);
  EXPECT_FALSE(says("contiguous"));
  EXPECT_TRUE(says("in the expected layout"));
}

TEST(Names, DuplicatesAreRejected) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{2, nullptr}});
  gex_value again = GEX_NO_VALUE;
  const gex_size size = {2, nullptr};
  EXPECT_EQ(gex_graph_input(graph.get(), "x", GEX_F32, &size, 1, &again), GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("already has an input 'x'"));
  EXPECT_EQ(try_add(graph, "softmax", {x}, {int_attr("axis", 0), int_attr("axis", 0)}),
            GEX_INVALID_ARGUMENT);
  EXPECT_TRUE(says("'axis' is set twice"));
}

TEST(Division, AndRemainderOfOperatorsAreConsistent) {
  EsGraphBuilder builder;
  auto a = builder.CreateInput(0, "a", DType::i32, {4});
  auto b = builder.CreateInput(1, "b", DType::i32, {4});
  const auto graph = builder.BuildAndReset({a / b, a % b, FloorDiv(a, b), Mod(a, b)});
  const std::vector<std::int32_t> x = {-7, 7, -7, 7}, y = {2, -2, -2, 2};
  const auto r = graph->Run({Tensor::Of<std::int32_t>({4}, x), Tensor::Of<std::int32_t>({4}, y)});
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(r[0].ToVector<std::int32_t>()[k], x[k] / y[k]);
    EXPECT_EQ(r[1].ToVector<std::int32_t>()[k], x[k] % y[k]);
    const std::int32_t floor = r[2].ToVector<std::int32_t>()[k];
    EXPECT_EQ(floor * y[k] + r[3].ToVector<std::int32_t>()[k], x[k]);
  }
}

TEST(Memory, MessagesSayWhatTheMemoryIsFor) {
  GraphPtr graph = new_graph();
  const gex_value x = input(graph, "x", GEX_F32, {{0, "s0"}});
  const std::vector<gex_size> shape = {{1'000'000'000, nullptr}, {1000, nullptr}};
  gex_attr big = {"shape", GEX_ATTR_SIZES, 2, {}};
  big.value.sizes = shape.data();
  ProgramPtr program = compiled(graph, {add(graph, "full", {}, {big}), x});
  const std::vector<std::int64_t> one = {1};
  float memory = 1;
  const gex_tensor in = tensor(GEX_F32, one, &memory);
  std::vector<gex_tensor> out(2, GEX_TENSOR_INIT);
  EXPECT_EQ(gex_program_run(program.get(), &in, 1, out.data(), 2), GEX_OUT_OF_MEMORY);
  EXPECT_TRUE(says("output 0, f32[1000000000, 1000]"));
  EXPECT_TRUE(says("4000000000000 bytes"));
}

TEST(Files, OfConstantsMustBeRegular) {
  const std::string pipe = testing::TempDir() + "gex_constant_pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  GraphPtr graph = new_graph();
  const std::int64_t size = 1;
  gex_value value = GEX_NO_VALUE;
  const auto read = [&](const char* path) {
    return gex_graph_constant_from_file(graph.get(), path, GEX_F32, &size, 1, &value);
  };
  EXPECT_EQ(read(pipe.c_str()), GEX_IO_ERROR);
  EXPECT_TRUE(says("a pipe, not a regular file"));
  EXPECT_EQ(read("/dev/zero"), GEX_IO_ERROR);
  EXPECT_TRUE(says("a device"));
  std::filesystem::remove(pipe);
}

// --- the compile cache ---------------------------------------------------------------------------

TEST(CompileCache, ServesCAndCpp) {
  std::string name = testing::TempDir() + "gex_c_cache_XXXXXX";
  const std::string folder = ::mkdtemp(name.data());
  ::setenv("GEX_CACHE_DIR", folder.c_str(), 1);
  const auto report = [](bool cache) {
    EsGraphBuilder builder;
    auto x = builder.CreateInput(0, "x", DType::f32, {"s0", 7});
    CompileOptions options;
    options.cache = cache;
    return builder.BuildAndReset({Exp(Neg(x))})->Compile(options).Report();
  };
  EXPECT_FALSE(has(report(true), "programs_from_cache"));
  EXPECT_TRUE(has(report(true), "programs_from_cache: 1"));
  EXPECT_FALSE(has(report(false), "programs_from_cache"));
  ::unsetenv("GEX_CACHE_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gex::test
