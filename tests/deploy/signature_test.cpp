// Signatures of model files: whose key it is, and what was changed behind it.

#include "deploy/signature.hpp"

#include "deploy/build/update_model.hpp"
#include "harness.hpp"

namespace gex::test {
namespace {

using deploy::Container;
using deploy::LoadOptions;

const std::string kKey = "sixteen bytes or more";

// The file with other bytes in one section, with right checksums.
std::string with_section(const std::string& file, const std::string& name,
                         const std::function<void(std::string&)>& change) {
  const Container container = Container::view(file);
  std::vector<std::pair<std::string, std::string>> contents;
  for (const deploy::Section& section : container.sections()) {
    contents.emplace_back(section.name, section.bytes);
    if (section.name == name) change(contents.back().second);
  }
  std::vector<deploy::NewSection> parts;
  for (const auto& [section, bytes] : contents)
    parts.push_back({section, {{bytes, 1}}, section == deploy::kWeightsSection});
  std::string changed;
  deploy::write_container(parts, [&](std::string_view piece) { changed += piece; });
  return changed;
}

std::string refusal(const std::string& file, const std::string& key, bool check_weights = false) {
  LoadOptions options;
  options.key = key;
  options.check_weights = check_weights;
  return reason([&] { deploy::load_model(nullptr, file, options); });
}

class SignatureTest : public testing::Test {
 protected:
  const Folder folder;
  const Example example;

  std::string saved(const std::string& key) {
    deploy::NewModel model;
    model.compiled = &example.compiled;
    deploy::save_models({model}, {{"v2", "v3"}, key}, folder.file("m.gexe"));
    return bytes_of(folder.file("m.gexe"));
  }
};

TEST(Hmac, IsThatOfRfc4231) {
  EXPECT_EQ(deploy::hmac("Jefe", "what do ya want for nothing?").hex(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::string long_key(131, '\xaa');
  EXPECT_EQ(deploy::hmac(long_key, "Test Using Larger Than Block-Size Key - Hash Key First").hex(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_F(SignatureTest, TheKeyIsTrust) {
  const std::string file = saved(kKey);
  LoadOptions options;
  options.key = kKey;
  options.check_weights = true;
  const auto model = deploy::load_model(nullptr, file, options);
  EXPECT_EQ(model->code.substr(0, 12), "machine code") << model->code;
  const HostTensor x = ramp({5, 24}, 0.1);
  expect_close(run(*model, x), example.expected(x));
}

TEST_F(SignatureTest, OtherKeysAndFilesWithoutSignatureAreRefused) {
  EXPECT_NE(refusal(saved(kKey), kKey + "!").find("not one of this key"), std::string::npos);
  EXPECT_NE(refusal(saved(""), kKey).find("no signature"), std::string::npos);
  EXPECT_NE(refusal(saved(kKey), "short").find("at least 16"), std::string::npos);
}

TEST_F(SignatureTest, ChangesOfAnySectionAreNoticed) {
  const std::string file = saved(kKey);
  const Container container = Container::view(file);
  for (const deploy::Section& section : container.sections()) {
    const std::string changed =
        with_section(file, section.name, [](std::string& bytes) { bytes[bytes.size() / 2] ^= 1; });
    EXPECT_NE(refusal(changed, kKey, true), "") << section.name;
  }
  // Weights are read for that only on request.
  const std::string weights = with_section(file, "weights", [](std::string& b) { b[3] ^= 1; });
  EXPECT_EQ(refusal(weights, kKey, false), "");
}

TEST(UpdatedWeights, ReplaceThoseOfTheFile) {
  const Folder folder;
  auto owned = std::make_shared<HostTensor>(ramp({24, 16}, 0.05));
  std::unique_ptr<Graph> graph = parse_graph(kGraph);
  CompileOptions options;
  options.frozen.push_back({1, std::shared_ptr<const void>(owned, owned->data()), false});
  Signature signature = Signature::of(*graph);
  signature.inputs.pop_back();
  const Compiled compiled = compile(std::move(graph), signature, options);
  deploy::NewModel model;
  model.compiled = &compiled;
  model.updatable = {"w"};
  deploy::save_models({model}, {{"v3"}, ""}, folder.file("m.gexe"));
  const auto weights = deploy::updatable_weights(Container::view(bytes_of(folder.file("m.gexe"))));
  ASSERT_EQ(weights.size(), 1u);
  EXPECT_EQ(weights[0].name, "w");
  EXPECT_EQ(weights[0].shape, (std::vector<std::int64_t>{24, 16}));

  Example changed;
  changed.weight = ramp({24, 16}, 0.02);
  deploy::update_weights(folder.file("m.gexe"), {{"w", changed.weight}}, folder.file("n.gexe"),
                         kKey);
  LoadOptions load;
  load.key = kKey;
  load.check_weights = true;
  const HostTensor x = ramp({5, 24}, 0.1);
  expect_close(run(*deploy::load_model(folder.file("n.gexe"), load), x), changed.expected(x));

  const auto refused = [&](const std::string& name, HostTensor tensor) {
    return reason([&] {
      deploy::update_weights(folder.file("m.gexe"), {{name, std::move(tensor)}},
                             folder.file("o.gexe"));
    });
  };
  EXPECT_NE(refused("v", ramp({2}, 1)).find("\"w\""), std::string::npos);
  EXPECT_NE(refused("w", ramp({16, 24}, 1)).find("f32[24, 16]"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.file("o.gexe")));
}

}  // namespace
}  // namespace gex::test
