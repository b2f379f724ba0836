// gex report: one HTML page that shows how a graph was compiled and where its time goes.

#include <iostream>

#include "base/error.hpp"
#include "commands.hpp"
#include "files.hpp"
#include "gex/gex.h"
#include "report/page.hpp"
#include "traced_run.hpp"

namespace gex::tool {
namespace {

constexpr std::string_view kFormat = "\"format\":\"gex-report\"";
constexpr std::string_view kDataBegin = "<script id=\"gex-data\" type=\"application/json\">";
constexpr std::string_view kDataEnd = "</script>";

// The model in a .json file, or the one in a page.
std::string read_model(const std::string& path) {
  std::string text = read_file(path);
  if (const std::size_t begin = text.find(kDataBegin); begin != std::string::npos) {
    const std::size_t from = begin + kDataBegin.size();
    text = text.substr(from, text.find(kDataEnd, from) - from);
    const std::size_t first = text.find('['), last = text.rfind(']');
    if (first != std::string::npos && last != std::string::npos && last > first)
      text = text.substr(first + 1, last - first - 1);
  }
  const std::size_t format = text.find(kFormat);
  if (format == std::string::npos || text.find(kFormat, format + 1) != std::string::npos)
    fail(ErrorCode::invalid_argument, path, " is not a report: write one with 'gex report FILE -o ",
         "report.json' or with gex.report in Python");
  const std::string version = str("\"version\":", report::kModelVersion, ",");
  if (!text.substr(format + kFormat.size() + 1).starts_with(version))
    fail(ErrorCode::invalid_argument, path, " is a report of another version than ",
         report::kModelVersion, ", which this gex reads; write it again");
  return text;
}

std::string model_of(const Arguments& arguments) {
  TracedRun run = traced_run(arguments);
  report::GraphFacts facts;
  facts.report = &run.compiled.report;
  facts.program = run.compiled.program.get();
  facts.executable = run.compiled.executable.get();
  facts.sizes = [sizes = run.kept->fastest.sizes](Dim symbol) -> std::optional<std::int64_t> {
    for (const auto& [known, value] : sizes)
      if (known == symbol) return value;
    return std::nullopt;
  };
  facts.reuse_memory = run.reuse_memory;
  facts.fast_math = run.compiled.fast_math;
  facts.traced = std::move(run.kept);
  facts.captures = run.session->captures();
  facts.tuned = run.session->findings();
  facts.machine_code = !arguments.has("--no-assembly");
  report::ReportFacts all;
  all.title = arguments.file() == "-" ? run.name : arguments.file();
  all.version = gex_version();
  all.graphs.push_back(report::graph_model(facts));
  all.first_call = std::move(run.first_call);
  return report::report_model(all);
}

int run(const Arguments& arguments) {
  const std::string path = arguments.value("-o").value_or("report.html");
  const bool as_json = path.ends_with(".json");
  if (!as_json && !path.ends_with(".html") && !path.ends_with(".htm"))
    fail(ErrorCode::invalid_argument, "-o is ", path,
         ": a report is a page (.html) or its data (.json)");
  std::vector<std::string> models;
  if (arguments.has("--compare")) {
    if (as_json)
      fail(ErrorCode::invalid_argument, "a comparison is a page: -o takes an .html file, got ",
           path);
    if (arguments.files().size() != 2)
      fail(ErrorCode::invalid_argument, "gex report --compare needs two reports, got ",
           arguments.files().size(), ": gex report --compare OLD.json NEW.json");
    for (const std::string& path : arguments.files()) models.push_back(read_model(path));
  } else {
    if (arguments.files().size() > 1)
      fail(ErrorCode::invalid_argument, "gex report takes one file, got also '",
           arguments.files()[1], "' (--compare takes two reports)");
    models.push_back(model_of(arguments));
  }
  write_file(path, as_json ? models.front() + "\n" : report::html_page(models));
  std::cout << "wrote " << path << "\n";
  return 0;
}

}  // namespace

Command report_command() {
  return {
      "report",
      "FILE.gex|MODEL.onnx|MODEL.gexe [-o report.html] | --compare OLD.json NEW.json [-o "
      "report.html]",
      "writes a page that shows how a graph was compiled and where its time goes",
      "Compiles the graph, runs it on inputs made as for gex run, and writes one HTML page that\n"
      "needs no network: the graph at three levels with why neighbours did not fuse, the\n"
      "timeline of the fastest call, every launch against the machine's measured limits, memory\n"
      "over time, passes and other decisions. With -o FILE.json the same as data. Of a model file\n"
      "it shows the program, which is all that such a file has.\n"
      "--compare shows two such files (or pages) side by side, the older first.",
      with_traced_run_options({{"-o", "FILE", "where to write: .html or .json (report.html)"},
                               {"--compare", "", "the files are two reports"},
                               {"--no-assembly", "", "omit the machine code of kernels"}}),
      2,
      run};
}

}  // namespace gex::tool
