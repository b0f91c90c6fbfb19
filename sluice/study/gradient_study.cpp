#include "sluice/study/gradient_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>

#include "sluice/core/ensure.h"
#include "sluice/study/histogram.h"
#include "sluice/study/laws.h"
#include "sluice/study/npy.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Of a look at one layer, for the others who wait: minutes for 10^8 elements.
constexpr std::chrono::hours kMostTime{1};

double parse_density(const std::string& text) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  require(error == std::errc() && end == last && value > 0 && value <= 1,
          "[study] densities must be numbers above 0 and at most 1, as in "
          "0.01, got '",
          text, "'");
  return value;
}

Json fit_laws(const FitSample& sample, Json& best) {
  Json laws;
  double nearest = 2;
  for (const Law::Kind kind : kLawKinds) {
    Json& entry = laws[std::string(name_of(kind))];
    const auto law = sample.fit(kind);
    if (!law) continue;
    const double ks = ks_distance(*law, sample.magnitudes());
    entry = {{"location", law->location},
             {"scale", law->scale},
             {"shape", law->shape},
             {"ks", ks}};
    if (ks >= nearest) continue;
    nearest = ks;
    best = law->name();
  }
  return laws;
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

TrialPlan make_trial_plan(const std::string& rules,
                          const std::string& densities) {
  TrialPlan plan;
  plan.rules = words_of(rules);
  for (const std::string& rule : plan.rules) make_sparsifier(rule);
  if (plan.rules.empty()) {
    for (const SparsifierEntry& entry : sparsifiers()) {
      const std::string name(entry.name);
      if (make_sparsifier(name)->estimates()) plan.rules.push_back(name);
    }
  }
  for (const std::string& word : words_of(densities)) {
    plan.densities.push_back(parse_density(word));
  }
  require(!plan.densities.empty(),
          "[study] densities must be at least one, as in 0.01, got none");
  return plan;
}

LayerStudy::LayerStudy(TrialSpace& space, Layer layer, const TrialPlan& plan,
                       std::uint64_t tensor)
    : layer_(std::move(layer)) {
  for (const double density : plan.densities) {
    for (const std::string& rule : plan.rules) {
      trials_.push_back(
          {rule, density, RuleTrial(space, rule, layer_.dims, tensor)});
    }
  }
}

Json LayerStudy::look(std::string_view what, std::span<const float> values,
                      const StepInfo& step, bool tries) {
  const Sparsity s = measure_sparsity(values);
  const FitSample sample(values);
  const auto magnitudes = count_magnitudes(values);
  const auto both = count_values(values);
  Json best;
  const Json laws = fit_laws(sample, best);
  Json row = {{"step", step.step + 1},
              {"layer", layer_.name},
              {"what", what},
              {"n", s.entries},
              {"nonfinite", s.nonfinite},
              {"zeros", s.zeros},
              {"below_1e3", s.below_1e3},
              {"largest", s.largest},
              {"norm", s.norm},
              {"tail_index", number_or_null(hill_index(sample.magnitudes()))},
              {"best", best},
              {"laws", laws},
              {"magnitudes",
               {{"low", magnitudes.low},
                {"below", magnitudes.below},
                {"counts", magnitudes.counts}}},
              {"values", {{"reach", both.reach}, {"counts", both.counts}}}};
  if (!tries) return row;
  row["rules"] = Json::array();
  for (Trial& t : trials_) {
    StepInfo how = step;
    how.density = t.density;
    const RuleTrial::Result done = t.trial.select(values, how);
    row["rules"].push_back({{"rule", t.rule},
                            {"density", t.density},
                            {"k", done.budget},
                            {"k_hat", done.selected}});
  }
  return row;
}

ParamList GradientStudy::list(Params& p) {
  ParamList all = params_of(p.scope);
  all.push_back(
      {"densities", &p.densities, "that rules are tried at, between spaces"});
  all.push_back(
      {"rules", &p.rules, "to try, between spaces; none: all that estimate"});
  all.push_back({"dump", &p.dump, "write every tensor looked at as .npy"});
  return all;
}

GradientStudy::GradientStudy(const Params& params, const StudySetup& setup)
    : params_(params),
      setup_(setup),
      plan_(make_trial_plan(params.rules, params.densities)),
      chosen_(params.scope.choose(setup.tensors)) {
  std::size_t most = 0;
  for (const TensorInfo& t : setup.tensors) {
    most = std::max(most, shape3(t.dims).size());
  }
  space_ = std::make_unique<TrialSpace>(most);
}

Look GradientStudy::look(std::uint64_t step) const {
  const bool here = setup_.rank == 0 && params_.scope.is_due(step + 1);
  return here ? Look::kEverything : Look::kNothing;
}

void GradientStudy::selected(std::uint64_t, const SelectedPart& part) {
  if (!chosen_[part.tensor] || part.size == 0) return;
  kept_.push_back({part.tensor,
                   part.first,
                   layer_of(setup_.tensors[part.tensor], part),
                   part.rule != "none",
                   {part.gradient.begin(), part.gradient.end()},
                   {part.input.begin(), part.input.end()}});
}

void GradientStudy::open(const std::string& folder, std::uint64_t done) {
  if (setup_.rank != 0) return;
  folder_ = folder;
  rows_.open(folder + "/" + kRows, done);
  if (!params_.dump) return;
  std::error_code error;
  std::filesystem::create_directories(folder + "/" + kDumps, error);
  ensure(!error, "[study] '", folder, "/", kDumps,
         "' must be a folder that can be written: ", error.message());
}

void GradientStudy::finish(Communicator& comm, std::uint64_t step,
                           bool committed,
                           std::span<const std::vector<float>>) {
  const std::vector<Kept> kept = std::exchange(kept_, {});
  if (!committed || kept.empty()) return;
  comm.work_alone("a study of gradients", kMostTime, [&] {
    for (const Kept& one : kept) write(step, one);
  });
}

void GradientStudy::write(std::uint64_t step, const Kept& kept) {
  const auto place = std::pair(kept.tensor, kept.first);
  auto at = layers_.find(place);
  if (at == layers_.end()) {
    at =
        layers_
            .emplace(place, LayerStudy(*space_, kept.layer, plan_, kept.tensor))
            .first;
  }
  const StepInfo info = {step - 1, setup_.total_steps, 0, setup_.seed};
  rows_.add(at->second.look("gradient", kept.gradient, info, !kept.sparse));
  if (params_.dump) dump(step, "gradient", kept.layer, kept.gradient);
  if (!kept.sparse) return;
  rows_.add(at->second.look("input", kept.input, info, true));
  if (params_.dump) dump(step, "input", kept.layer, kept.input);
}

void GradientStudy::dump(std::uint64_t step, std::string_view what,
                         const Layer& layer,
                         std::span<const float> values) const {
  const DumpName name = {layer.name, step, std::string(what)};
  write_npy(folder_ + "/" + kDumps + "/" + name.file(), layer.dims, values);
}

std::string DumpName::file() const {
  std::string safe = layer;
  for (char& c : safe) {
    if (c == '/' || c == '\\') c = '_';
  }
  return fmt::format("{}.step{:08}.{}.npy", safe, step, what);
}

bool parse_dump_name(const std::string& file, DumpName& out) {
  static const std::regex kForm(R"((.+)\.step(\d{1,18})\.([a-z]+)\.npy)");
  std::smatch found;
  if (!std::regex_match(file, found, kForm)) return false;
  out = {found[1], std::stoull(found[2]), found[3]};
  return true;
}

}  // namespace sluice
