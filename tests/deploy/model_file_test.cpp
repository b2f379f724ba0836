// Model files: what is written is what runs, on every processor level, and nothing else is
// believed.

#include <random>

#include "harness.hpp"
#include "runtime/session/forest.hpp"

namespace gex::test {
namespace {

using deploy::Container;
using deploy::LoadOptions;

LoadOptions trusted(const std::string& level = "") {
  LoadOptions options;
  options.trust = true;
  options.level = level;
  return options;
}

TEST(ModelFile, MachineCodeOfEachLevelComputesTheSame) {
  const Folder folder;
  const Example example;
  example.save(folder.file("m.gexe"), {"v2", "v3", "v4"});
  int levels = 0;
  for (std::string_view level : deploy::known_levels()) {
    if (!deploy::runs_here(level)) continue;
    ++levels;
    const auto model = deploy::load_model(folder.file("m.gexe"), trusted(std::string(level)));
    EXPECT_EQ(model->code, str("machine code (", level, ")"));
    for (std::int64_t rows : {1, 5, 64}) {
      const HostTensor x = ramp({rows, 24}, 0.1);
      expect_close(run(*model, x), example.expected(x));
    }
  }
  EXPECT_GT(levels, 0);
}

TEST(ModelFile, HasNamesTypesAndSizes) {
  const Folder folder;
  Example().save(folder.file("m.gexe"), {"v3"});
  const auto model = deploy::load_model(folder.file("m.gexe"), trusted("v3"));
  ASSERT_EQ(model->inputs.size(), 1u);
  EXPECT_EQ(model->inputs[0].name, "x");
  EXPECT_EQ(model->inputs[0].type, "f32");
  EXPECT_EQ(model->inputs[0].shape[0].range(), (DimRange{1, 64}));
  ASSERT_EQ(model->outputs.size(), 3u);
  EXPECT_EQ(model->outputs[0].name, "t");
  EXPECT_EQ(model->outputs[1].dtype, DType::f64);
  EXPECT_EQ(model->metadata.engine.substr(0, 2), "0.");
}

TEST(ModelFile, WithoutTrustTextsAreCompiled) {
  const Folder folder;
  const Example example;
  const deploy::SaveReport report = example.save(folder.file("m.gexe"), {});
  EXPECT_TRUE(report.unproven.empty()) << report.unproven.front();
  const auto model = deploy::load_model(folder.file("m.gexe"));
  EXPECT_EQ(model->code.substr(0, 4), "llvm") << model->code;
  const HostTensor x = ramp({7, 24}, 0.1);
  expect_close(run(*model, x), example.expected(x));
}

TEST(ModelFile, TrustNeedsMachineCodeForThisProcessor) {
  const Folder folder;
  Example().save(folder.file("m.gexe"), {});
  EXPECT_NE(reason([&] {
              deploy::load_model(folder.file("m.gexe"), trusted());
            }).find("machine code for no processor"),
            std::string::npos);
}

TEST(ModelFile, WeightsAreUsedFromTheMappedFile) {
  const Folder folder;
  const Example example;
  example.save(folder.file("m.gexe"), {"v3"});
  const std::string bytes = bytes_of(folder.file("m.gexe"));
  const auto copy = std::shared_ptr<char>(
      static_cast<char*>(std::aligned_alloc(4096, (bytes.size() + 4095) / 4096 * 4096)), std::free);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  const auto model = deploy::load_model(copy, {copy.get(), bytes.size()}, trusted("v3"));
  ASSERT_FALSE(model->frozen.empty());
  for (const auto& memory : model->frozen) {
    const auto* place = static_cast<const char*>(memory.get());
    EXPECT_TRUE(place >= copy.get() && place < copy.get() + bytes.size());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % 64, 0u);
  }
}

TEST(ModelFile, SeveralModelsShareEqualWeights) {
  const Folder folder;
  const Example first, second;
  deploy::NewModel a, b;
  a.compiled = &first.compiled;
  a.metadata.name = "a";
  b.compiled = &second.compiled;
  b.metadata.name = "b";
  const auto one = deploy::save_models({a}, {{}}, folder.file("one.gexe"));
  const auto two = deploy::save_models({a, b}, {{}}, folder.file("two.gexe"));
  EXPECT_EQ(one.weight_bytes, two.weight_bytes);
  LoadOptions options;
  options.model = "b";
  EXPECT_EQ(deploy::load_model(folder.file("two.gexe"), options)->metadata.name, "b");
  options.model = "c";
  EXPECT_NE(reason([&] { deploy::load_model(folder.file("two.gexe"), options); }).find("a, b"),
            std::string::npos);
}

TEST(ModelFile, StepsOfTheProcessAreAllListed) {
  program::Program program = program::parse_program(R"(program "p"
input 0 "x" f32 [4] -> %0
output 0 "y" fresh f32 [4] -> %1
buffer %0 "x" input 0 f32 [4] bytes [16]
buffer %1 "y" output 0 f32 [4] bytes [16]
main 0
segment 0 "main"
  copy %1 from %0 bytes [16]
)");
  for (const char* name : {"user.first", "user.second"}) {
    program::Call call;
    call.name = name;
    call.callee = 0;
    program.segments[0].steps.push_back({call});
  }
  Compiled compiled;
  compiled.program = std::make_shared<const program::Program>(program);
  deploy::NewModel model;
  model.compiled = &compiled;
  const Folder folder;
  const std::string message =
      reason([&] { deploy::save_models({model}, {}, folder.file("m.gexe")); });
  EXPECT_NE(message.find("user.first"), std::string::npos) << message;
  EXPECT_NE(message.find("user.second"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(folder.file("m.gexe")));
}

TEST(ModelFile, UnprovenProgramsLoadOnlyWithTrust) {
  Compiled compiled;
  compiled.program = std::make_shared<const program::Program>(program::parse_program(R"(program "p"
symbol s0 in [0, 64]
symbol s1 in [0, 64]
input 0 "x" f32 [s0] -> %0
input 1 "y" f32 [s1] -> %1
output 0 "z" fresh f32 [s1] -> %2
buffer %0 "x" input 0 f32 [s0] bytes [s0*4]
buffer %1 "y" input 1 f32 [s1] bytes [s1*4]
buffer %2 "z" output 0 f32 [s1] bytes [s1*4]
buffer %3 "t" temp f32 [s0] bytes [s0*4]
buffer %4 "u" temp f32 [s1] bytes [s1*4] alias %3 at [0]
main 0
segment 0 "main"
  copy %4 from %1 bytes [s1*4]
  copy %2 from %4 bytes [s1*4]
)"));
  deploy::NewModel model;
  model.compiled = &compiled;
  const Folder folder;
  EXPECT_FALSE(deploy::save_models({model}, {{"v2"}}, folder.file("m.gexe")).unproven.empty());
  EXPECT_NE(reason([&] { deploy::load_model(folder.file("m.gexe")); }).find("can't be proven"),
            std::string::npos);
  EXPECT_EQ(reason([&] { deploy::load_model(folder.file("m.gexe"), trusted("v2")); }), "");
}

TEST(ModelFile, DamageIsDetected) {
  const Folder folder;
  const Example example;
  example.save(folder.file("m.gexe"), {"v3"});
  const std::string good = bytes_of(folder.file("m.gexe"));
  const auto load = [&](const std::string& bytes, bool check_weights) {
    LoadOptions options = trusted("v3");
    options.check_weights = check_weights;
    return reason([&] { deploy::load_model(nullptr, bytes, options); });
  };
  EXPECT_EQ(load(good, true), "");
  EXPECT_NE(load(good.substr(0, good.size() - 1), false).find("bytes"), std::string::npos);
  EXPECT_NE(load("GEXE", false).find("not a gex model file"), std::string::npos);
  std::string other = good;
  other[8] = 9;
  EXPECT_NE(load(other, false).find("format 9"), std::string::npos);
  const Container container = Container::view(good);
  for (const deploy::Section& section : container.sections()) {
    std::string damaged = good;
    damaged[static_cast<std::size_t>(section.bytes.data() - good.data()) +
            section.bytes.size() / 2] ^= 1;
    EXPECT_NE(load(damaged, true).find("damaged"), std::string::npos) << section.name;
  }
}

// A file of a stranger: any change of its metadata and texts, with right checksums. It is refused
// or it runs inside its own memory; the address sanitizer sees everything else.
struct Fuzzed {
  int refused = 0, ran = 0;
};

void change(std::string& bytes, std::mt19937& random) {
  const char* digits = "0123456789-%[]s";
  for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = digits[random() % 15];
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.erase(at, 1 + random() % 8);
        break;
      default:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
    }
    if (bytes.empty()) bytes = "x";
  }
}

Fuzzed fuzz(const std::string& good, const HostTensor& input) {
  const Container container = Container::view(good);
  std::vector<std::pair<std::string, std::string>> sections;
  for (const deploy::Section& section : container.sections())
    sections.emplace_back(section.name, section.bytes);
  std::mt19937 random(7);
  Fuzzed result;
  // GEX_FUZZ_SEEDS=10000 for a longer run, in a build with the address sanitizer.
  const char* wanted = std::getenv("GEX_FUZZ_SEEDS");
  const int turns = wanted != nullptr ? std::max(400, std::atoi(wanted)) : 400;
  for (int turn = 0; turn < turns; ++turn) {
    auto changed = sections;
    change(changed[random() % 2].second, random);  // the metadata or the program
    std::vector<deploy::NewSection> parts;
    for (const auto& [name, content] : changed)
      parts.push_back({name, {{content, 1}}, name == deploy::kWeightsSection});
    std::string file;
    deploy::write_container(parts, [&](std::string_view piece) { file += piece; });
    try {
      // Without the compiler: what would be compiled is the same text.
      const auto model = deploy::load_model(nullptr, file);
      ++result.ran;
      run(*model, input);
    } catch (const UserError&) {
      ++result.refused;
    }
  }
  return result;
}

TEST(ModelFile, ManipulatedProgramsStayInsideTheirMemory) {
  const Folder folder;
  const Example example;
  example.save(folder.file("m.gexe"), {});
  const Fuzzed result = fuzz(bytes_of(folder.file("m.gexe")), ramp({3, 24}, 0.1));
  EXPECT_GT(result.refused, 100);
  EXPECT_GT(result.ran, 0);
}

// Kernels of integers trust the sizes of their launches.
TEST(ModelFile, ManipulatedIntegerProductsStayInsideTheirMemory) {
  std::unique_ptr<Graph> graph = parse_graph(R"(symbols s0 in [1, 8]
graph main(%x: u8[s0, 3, 7, 9], %w: i8[5, 3, 3, 3], %v: i8[9, 4]) -> (i32[s0, 5, 5, 7], f32[s0, 3, 7, 4]) {
  %c = integer_conv2d(%x, %w) : i32[s0, 5, 5, 7]
  %m = integer_matmul(%x, %v) : i32[s0, 3, 7, 4]
  %f = cast(%m) {dtype = f32} : f32[s0, 3, 7, 4]
  return %c, %f
}
)");
  std::vector<std::shared_ptr<HostTensor>> weights;
  CompileOptions options;
  for (int input : {1, 2}) {
    const bool conv = input == 1;
    weights.push_back(std::make_shared<HostTensor>(
        DType::i8, conv ? std::vector<std::int64_t>{5, 3, 3, 3} : std::vector<std::int64_t>{9, 4}));
    for (std::int64_t k = 0; k < weights.back()->numel(); ++k) weights.back()->set(k, k % 11 - 5);
    options.frozen.push_back(
        {input, std::shared_ptr<const void>(weights.back(), weights.back()->data())});
  }
  Signature signature = Signature::of(*graph);
  signature.inputs.resize(1);
  const Compiled compiled = compile(std::move(graph), signature, options);
  deploy::NewModel model;
  model.compiled = &compiled;
  const Folder folder;
  const auto report = deploy::save_models({model}, {{}}, folder.file("m.gexe"));
  EXPECT_TRUE(report.unproven.empty()) << report.unproven.front();
  HostTensor x(DType::u8, {2, 3, 7, 9});
  for (std::int64_t k = 0; k < x.numel(); ++k) x.set(k, k % 251);
  const Fuzzed result = fuzz(bytes_of(folder.file("m.gexe")), x);
  EXPECT_GT(result.refused, 100);
  EXPECT_GT(result.ran, 0);
}

// Trees whose nodes refer to anything: an error or a result, never an access outside of the
// operands and never an endless walk.
TEST(Forest, NodesOfAStrangerStayInsideTheOperands) {
  std::mt19937 random(11);
  HostTensor x = ramp({9, 3}, 0.3), out(DType::f32, {9, 2});
  HostTensor nodes(DType::i32, {7, 6}), values(DType::f64, {7}), roots(DType::i32, {2});
  HostTensor targets(DType::i32, {4}), weights(DType::f64, {4}), members(DType::f64, {3});
  HostTensor base(DType::f64, {2});
  const auto any = [&](std::int64_t k) -> std::int64_t {
    constexpr std::int64_t kOdd[] = {-1,
                                     7,
                                     8,
                                     1 << 20,
                                     std::numeric_limits<std::int32_t>::max(),
                                     std::numeric_limits<std::int32_t>::min()};
    return random() % 40 == 0 ? kOdd[random() % 6] : static_cast<std::int64_t>(random() % k);
  };
  int refused = 0, ran = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    for (std::int64_t node = 0; node < 7; ++node) {
      const bool leaf = node > 3;
      nodes.set_int(node * 6, leaf ? 7 : any(7) + static_cast<std::int64_t>(random() % 2) * 16);
      nodes.set_int(node * 6 + 1, any(3));
      nodes.set_int(node * 6 + 2, leaf ? any(2) : std::min<std::int64_t>(node + 1 + any(3), 6));
      nodes.set_int(node * 6 + 3, node + 1 + any(2));
      nodes.set_int(node * 6 + 4, any(2));
      nodes.set_int(node * 6 + 5, any(3));
    }
    for (std::int64_t k = 0; k < 4; ++k) targets.set_int(k, any(2));
    for (std::int64_t k = 0; k < 2; ++k) roots.set_int(k, any(4));
    std::vector<std::vector<std::int64_t>> strides(9);
    std::vector<runtime::TensorRef> refs;
    for (HostTensor* tensor :
         {&x, &nodes, &values, &targets, &weights, &roots, &members, &base, &out})
      refs.push_back({tensor->data(), tensor->dtype(), tensor->shape(), strides[0]});
    try {
      runtime::run_forest(std::span(refs).first(8), std::span(refs).last(1), "1");
      ++ran;
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(ran, 300);
}

TEST(Container, DamagedTablesAreRejectedOrStayInTheFile) {
  std::string file;
  const std::string one = "contents", two = "more";
  deploy::write_container({{"one", {{one, 1}}, false}, {"two", {{two, 1}}, true}},
                          [&](std::string_view piece) { file += piece; });
  EXPECT_EQ(Container::view(file).section("one"), one);
  std::mt19937 random(3);
  for (int turn = 0; turn < 5000; ++turn) {
    std::string changed = file;
    for (int edits = 0; edits < 4; ++edits)
      changed[random() % changed.size()] = static_cast<char>(random());
    changed.resize(random() % 8 == 0 ? random() % changed.size() : changed.size());
    try {
      const Container view = Container::view(changed);
      for (const deploy::Section& section : view.sections()) view.section(section.name);
    } catch (const UserError&) {
      continue;
    }
  }
}

TEST(CodeImage, OffsetsOutsideOfTheCodeAreRejected) {
  deploy::CodeImage image;
  image.bytes = std::string(16, '\xc3');
  image.kernels = {{16, {}}};
  EXPECT_NE(reason([&] { deploy::parse_code_image(serialise(image)); }), "");
  image.kernels = {{0, {}}};
  image.imports = {{9, "exp"}};
  EXPECT_NE(reason([&] { deploy::parse_code_image(serialise(image)); }), "");
  image.imports = {{8, "system"}};
  EXPECT_NE(reason([&] { deploy::parse_code_image(serialise(image)); }).find("system"),
            std::string::npos);
}

}  // namespace
}  // namespace gex::test
