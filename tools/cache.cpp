// gex cache: the folder of compiled programs kept between processes.

#include <ctime>
#include <iomanip>
#include <iostream>

#include "base/error.hpp"
#include "base/suggest.hpp"
#include "cache/store.hpp"
#include "commands.hpp"

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

int verify(const Store& store) {
  int bad = 0;
  const std::vector<StoreEntry> entries = store.entries();
  for (const StoreEntry& entry : entries) {
    const std::string problem = store.problem_of(entry);
    if (problem.empty()) continue;
    ++bad;
    std::cout << entry.path << ": " << problem << "\n";
  }
  std::cout << entries.size() - static_cast<std::size_t>(bad) << " of " << entries.size()
            << " entries can be used\n";
  return bad == 0 ? 0 : 1;
}

int run(const Arguments& arguments) {
  if (arguments.files().empty())
    fail(ErrorCode::invalid_argument, "gex cache needs an action: list, clear or verify");
  const std::string& action = arguments.file();
  const std::shared_ptr<Store> store = store_of(arguments);
  if (action == "list") return list(*store);
  if (action == "verify") return verify(*store);
  if (action == "clear") {
    std::cout << store->clear() << " entries removed from " << store->folder() << "\n";
    return 0;
  }
  constexpr std::string_view kActions[] = {"list", "clear", "verify"};
  fail(ErrorCode::invalid_argument, "unknown action '", action, "' of gex cache",
       suggestion(action, kActions), "; use list, clear or verify");
}

}  // namespace

Command cache_command() {
  return {"cache",
          "list|clear|verify [--dir FOLDER]",
          "shows, empties or checks the folder of compiled programs",
          "Compiled programs and machine code are kept in the folder that GEX_CACHE_DIR or\n"
          "TORCH_NPU_COMPILE_CACHE_DIR names; gex run, gex bench, C, C++ and Python use it. list:\n"
          "kind, key, bytes, last use and name of each entry, the least recently used first.\n"
          "verify: reads each one; the exit code is 1 if one can't be used. clear: removes them\n"
          "all, and no file that gex did not write.",
          {{"--dir", "FOLDER", "use this folder instead"}},
          1,
          run};
}

}  // namespace gex::tool
