#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/build_info.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/kinds.h"
#include "sluice/codec/codec.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/core/error.h"
#include "sluice/feedback/feedback.h"
#include "sluice/plan/planner.h"
#include "sluice/sparsify/exceptions.h"
#include "sluice/sparsify/schedule.h"
#include "sluice/sparsify/sparsifier.h"
#include "sluice/study/study.h"
#include "sluice/text/text_corpus.h"
#include "sluice/text/tokenizer.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

template <class Entries>
std::vector<Description> describe_all(const Entries& entries) {
  std::vector<Description> all;
  for (const auto& entry : entries) all.push_back(entry.describe());
  return all;
}

std::vector<Description> describe_build() {
  std::vector<Description> all;
  for (const BuildPart& part : build_parts()) {
    all.push_back({part.name, part.what, {}});
  }
  return all;
}

constexpr Kind kKinds[] = {
    {"sparsifiers", [] { return describe_all(sparsifiers()); }},
    {"feedback", [] { return describe_all(feedbacks()); }},
    {"codecs", &codec_descriptions},
    {"collectives", [] { return describe_all(collectives()); }},
    {"planners", [] { return describe_all(planners()); }},
    {"schedules", &schedule_descriptions},
    {"exceptions", &exception_descriptions},
    {"studies", [] { return describe_all(studies()); }},
    {"text-corpora", [] { return describe_all(text_corpora()); }},
    {"tokenizers", [] { return describe_all(tokenizers()); }},
    {"build", &describe_build},
};

Json to_json(const Description& d) {
  Json parameters = Json::array();
  for (const auto& p : d.parameters) {
    parameters.push_back(
        {{"name", p.name}, {"default", p.value}, {"doc", p.doc}});
  }
  return {{"name", d.name}, {"summary", d.summary}, {"parameters", parameters}};
}

void print_text(const Kind& kind) {
  fmt::print("{}\n", kind.name);
  if (kind.print != nullptr) {
    fmt::print("{}", kind.print());
    return;
  }
  for (const Description& d : kind.describe()) {
    fmt::print("  {:<20} {}\n", d.name, d.summary);
    for (const auto& p : d.parameters) {
      fmt::print("  {:<20}   {}={}: {}\n", "", p.name, p.value, p.doc);
    }
  }
}

}  // namespace

std::vector<Kind> all_kinds() {
  std::vector<Kind> all(std::begin(kKinds), std::end(kKinds));
  const auto more = training_kinds();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void add_list(CLI::App& app) {
  struct Options {
    std::string kind;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* list = app.add_subcommand(
      "list", "What there is, with parameters and their defaults");
  std::vector<std::string> names;
  for (const Kind& kind : all_kinds()) names.emplace_back(kind.name);
  list->add_option("kind", options->kind, "Only these")
      ->check(CLI::IsMember(names));
  list->add_flag("--json", options->json, "Print JSON");
  add_examples(*list, {"sluice list", "sluice list sparsifiers --json"});
  list->callback([options] {
    Json all = Json::object();
    for (const Kind& kind : all_kinds()) {
      if (!options->kind.empty() && options->kind != kind.name) continue;
      if (!options->json) {
        print_text(kind);
        continue;
      }
      Json rows = Json::array();
      for (const Description& d : kind.describe()) rows.push_back(to_json(d));
      all[std::string(kind.name)] = rows;
    }
    if (options->json) fmt::print("{}\n", all.dump(2));
  });
}

}  // namespace sluice
