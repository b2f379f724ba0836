#include "tensorflow.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdlib>
#include <cstring>

#include <filesystem>

#include "base/error.hpp"
#include "files.hpp"

extern char** environ;

namespace gex::tool {
namespace {

namespace fs = std::filesystem;

std::string new_folder() {
  std::string name = (fs::temp_directory_path() / "gex_tensorflow_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    fail(ErrorCode::io_error,
         "can't create a folder for the converted model: ", std::strerror(errno));
  return name;
}

std::string kind_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (!fs::exists(path / "saved_model.pb", error))
      fail(ErrorCode::io_error, "the folder ", path.string(),
           " has no saved_model.pb: it is not a SavedModel");
    return "--saved-model";
  }
  check_exists(path.string());
  return path.extension() == ".pb" ? "--graphdef" : "--keras";
}

// The exit code; what the process prints goes to `log`.
int run_process(std::vector<std::string> words, const std::string& log) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process = 0;
  const int problem =
      posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0)
    fail(ErrorCode::io_error, "can't start ", words[0], ": ", std::strerror(problem),
         "; set GEX_PYTHON to the Python that has tf2onnx");
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

bool is_tensorflow(const std::string& path) {
  std::error_code error;
  const std::string extension = fs::path(path).extension().string();
  return extension == ".keras" || extension == ".h5" || extension == ".pb" ||
         fs::is_directory(path, error);
}

ConvertedModel::ConvertedModel(const std::string& path, const Arguments& arguments)
    : folder_(new_folder()) {
  const char* chosen = std::getenv("GEX_PYTHON");
  std::vector<std::string> words = {chosen != nullptr && *chosen != '\0' ? chosen : "python3",
                                    "-m",
                                    "tf2onnx.convert",
                                    kind_of(path),
                                    path,
                                    "--output",
                                    onnx()};
  for (const char* option : {"--inputs", "--outputs"})
    if (const auto names = arguments.value(option)) {
      words.push_back(option);
      words.push_back(*names);
    }
  const std::string log = folder_ + "/log";
  if (run_process(std::move(words), log) == 0 && fs::exists(onnx())) return;
  const std::string said = read_file(log);
  fs::remove_all(folder_);
  fail(ErrorCode::unsupported, "tf2onnx can't convert ", path, ": ", last_line(said),
       said.find("No module named") != std::string::npos
           ? "; pip install tf2onnx tensorflow-cpu, and set GEX_PYTHON to that Python"
           : "");
}

ConvertedModel::~ConvertedModel() {
  std::error_code error;
  fs::remove_all(folder_, error);
}

}  // namespace gex::tool
