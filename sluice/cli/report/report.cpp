#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sluice/cli/commands.h"
#include "sluice/cli/report/subject.h"
#include "sluice/cli/shared/help.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> paths;
  std::string out;
  std::string target;
};

// Into the folder that it is about, if it is about one.
std::string default_out(const std::vector<std::string>& paths) {
  std::error_code error;
  const bool one = paths.size() == 1 && fs::is_directory(paths[0], error);
  return one ? paths[0] + "/report.html" : "report.html";
}

void report(const Options& o) {
  ReportRequest request;
  request.paths = o.paths;
  request.target = o.target;
  const std::string out = o.out.empty() ? default_out(o.paths) : o.out;
  require(fs::path(out).extension() == ".html",
          "[report] -o must be a file that ends in .html, got '", out, "'");
  const fs::path folder = fs::path(out).parent_path();
  request.folder = folder.empty() ? "." : folder.string();
  const std::string html = to_html(make_page(request));
  write_text(out, html);
  fmt::print("{} ({:.0f} kB)\n", out, static_cast<double>(html.size()) / 1e3);
}

}  // namespace

void add_report(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "report", "One HTML page about runs, a comparison, a study or a plan");
  add_examples(*command,
               {"sluice report runs/a",
                "sluice report runs/a runs/b -o ab.html --target 86.5",
                "sluice report runs/cmp"});
  command
      ->add_option("what", o->paths,
                   "Run folders; or one folder of runs, a comparison or a "
                   "study, or a plan.json")
      ->required();
  command->add_option("-o,--out", o->out,
                      "The page; else report.html in the folder, or here");
  command->add_option(
      "--target", o->target,
      "Score that is marked, as in 88.5, or so much worse than the dense run, "
      "as in dense-0.5 (the default where there is one)");
  command->callback([o] { report(*o); });
}

}  // namespace sluice
