// gex cache: the folder of compiled programs kept between processes.

#include <ctime>
#include <iomanip>
#include <iostream>

#include "base/error.hpp"
#include "base/suggest.hpp"
#include "cache/store.hpp"
#include "commands.hpp"
#include "json.hpp"

namespace gex::tool {
namespace {

std::shared_ptr<Store> store_of(const Arguments& arguments) {
  if (const auto folder = arguments.value("--dir")) return Store::at(*folder);
  if (auto store = Store::from_environment()) return store;
  return Store::at(Store::default_folder());
}

std::string when(std::int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  char text[32];
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

int list_json(const Store& store) {
  std::int64_t total = 0;
  std::vector<std::string> items;
  for (const StoreEntry& entry : store.entries()) {
    total += entry.bytes;
    items.push_back(json_object({{"kind", json_text(entry.kind)},
                                 {"key", json_text(entry.key)},
                                 {"bytes", str(entry.bytes)},
                                 {"used_ns", str(entry.used)},
                                 {"name", json_text(store.label_of(entry))}}));
  }
  std::cout << json_object({{"folder", json_text(store.folder())},
                            {"bytes", str(total)},
                            {"entries", json_list(items)}})
            << "\n";
  return 0;
}

int list(const Store& store) {
  std::int64_t total = 0;
  const std::vector<StoreEntry> entries = store.entries();
  for (const StoreEntry& entry : entries) {
    total += entry.bytes;
    std::cout << std::left << std::setw(8) << entry.kind << " " << entry.key.substr(0, 16) << " "
              << std::right << std::setw(10) << entry.bytes << "  " << when(entry.used) << "  "
              << store.label_of(entry) << "\n";
  }
  std::cout << entries.size() << " entries, " << total << " bytes in " << store.folder() << "\n";
  return 0;
}

int verify(const Store& store, bool as_json) {
  std::vector<std::pair<std::string, std::string>> bad;  // path, what is wrong
  const std::vector<StoreEntry> entries = store.entries();
  for (const StoreEntry& entry : entries) {
    const std::string problem = store.problem_of(entry);
    if (!problem.empty()) bad.emplace_back(entry.path, problem);
  }
  const std::size_t usable = entries.size() - bad.size();
  if (as_json) {
    std::vector<std::string> items;
    for (const auto& [path, problem] : bad)
      items.push_back(json_object({{"path", json_text(path)}, {"problem", json_text(problem)}}));
    std::cout << json_object({{"folder", json_text(store.folder())},
                              {"checked", str(entries.size())},
                              {"usable", str(usable)},
                              {"unusable", json_list(items)}})
              << "\n";
  } else {
    for (const auto& [path, problem] : bad) std::cout << path << ": " << problem << "\n";
    std::cout << usable << " of " << entries.size() << " entries can be used\n";
  }
  return bad.empty() ? 0 : 1;
}

int clear(Store& store, bool as_json) {
  const auto removed = store.clear();
  if (as_json)
    std::cout << json_object({{"folder", json_text(store.folder())}, {"removed", str(removed)}})
              << "\n";
  else
    std::cout << removed << " entries removed from " << store.folder() << "\n";
  return 0;
}

int run(const Arguments& arguments) {
  if (arguments.files().empty())
    fail(ErrorCode::invalid_argument, "gex cache needs an action: list, clear or verify");
  const std::string& action = arguments.file();
  const std::shared_ptr<Store> store = store_of(arguments);
  const bool as_json = arguments.has("--json");
  if (action == "list") return as_json ? list_json(*store) : list(*store);
  if (action == "verify") return verify(*store, as_json);
  if (action == "clear") return clear(*store, as_json);
  constexpr std::string_view kActions[] = {"list", "clear", "verify"};
  fail(ErrorCode::invalid_argument, "unknown action '", action, "' of gex cache",
       suggestion(action, kActions), "; use list, clear or verify");
}

}  // namespace

Command cache_command() {
  return {
      "cache",
      "list|clear|verify [--dir FOLDER] [--json]",
      "shows, empties or checks the folder of compiled programs",
      "Compiled programs and machine code are kept in the folder that GEX_CACHE_DIR or\n"
      "TORCH_NPU_COMPILE_CACHE_DIR names; gex run, gex bench, C, C++ and Python use it. list:\n"
      "kind, key, bytes, last use and name of each entry, the least recently used first.\n"
      "verify: reads each one; the exit code is 1 if one can't be used. clear: removes them\n"
      "all, and no file that gex did not write. With --json, list: {\"folder\", \"bytes\",\n"
      "\"entries\": [{\"kind\", \"key\", \"bytes\", \"used_ns\", \"name\"}]}; verify: {\"folder\", "
      "\"checked\",\n"
      "\"usable\", \"unusable\": [{\"path\", \"problem\"}]}; clear: {\"folder\", \"removed\"}.",
      {{"--dir", "FOLDER", "use this folder instead"}, {"--json", "", "print the result as JSON"}},
      1,
      run};
}

}  // namespace gex::tool
