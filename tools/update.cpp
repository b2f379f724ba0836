// gex update: other contents for weights of a model file.

#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "deploy/build/update_model.hpp"
#include "model_file.hpp"
#include "npy.hpp"

namespace gex::tool {
namespace {

int run(const Arguments& arguments) {
  const std::string& file = arguments.file();
  std::map<std::string, HostTensor> contents;
  for (const auto& [name, path] : arguments.pairs("--set"))
    contents.insert_or_assign(name, read_npy(path));
  if (contents.empty()) {
    const deploy::OpenFile opened = deploy::open_model_file(file);
    for (const deploy::UpdatableWeight& weight :
         deploy::updatable_weights(deploy::Container::view(opened.bytes))) {
      std::cout << weight.model << " " << weight.name << ": " << name_of(weight.dtype) << "[";
      for (std::size_t d = 0; d < weight.shape.size(); ++d)
        std::cout << (d == 0 ? "" : ", ") << weight.shape[d];
      std::cout << "]\n";
    }
    return 0;
  }
  const auto output = arguments.value("-o");
  if (!output) fail(ErrorCode::invalid_argument, "-o FILE says where to write the result");
  deploy::update_weights(file, contents, *output, key_given(arguments));
  std::cout << *output << ": " << contents.size() << " weights replaced\n";
  return 0;
}

}  // namespace

Command update_command() {
  return {"update",
          "MODEL.gexe [--set NAME=FILE.npy ... -o NEW.gexe]",
          "replaces weights of a model file, without compiling",
          "Weights that gex compile --updatable named. Program and machine code stay as they are.\n"
          "Without --set it lists these weights. A signature is not kept: --key signs the result.",
          {{"--set", "NAME=FILE.npy", "new contents of a weight; may be repeated"},
           {"-o", "FILE", "where to write the result; may be the same file"},
           {"--key", "FILE", "signs the result with the contents of FILE"}},
          1,
          run};
}

}  // namespace gex::tool
