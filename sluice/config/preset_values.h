#pragma once

#include <utility>
#include <vector>

#include "sluice/config/preset.h"

// What the files of presets have in common; of no use elsewhere.

namespace sluice::preset {

using Value = std::pair<std::string_view, std::string_view>;
using Values = std::vector<Value>;

// `more` wins.
inline Values operator+(Values values, const Values& more) {
  for (const Value& value : more) {
    std::erase_if(values,
                  [&](const Value& v) { return v.first == value.first; });
    values.push_back(value);
  }
  return values;
}

inline Values job(std::string_view model, std::string_view dataset,
                  std::string_view batch, std::string_view rate,
                  std::string_view epochs) {
  return {{"model", model},
          {"dataset", dataset},
          {"batch_size", batch},
          {"lr", rate},
          {"epochs", epochs}};
}

inline constexpr std::string_view kGtopkSource =
    "gTop-k (ICDCS'19); selects by tensor, not over all of them at once";
inline constexpr std::string_view kOmgsSource =
    "OMGS-SGD, LAGS (INFOCOM'20, ECAI'20); buckets by size, not by its planner";
inline constexpr std::string_view kSidcoSource =
    "SIDCo (MLSys'21) with its momentum option; its launcher left momentum out";
inline constexpr std::string_view kAdtopkSource =
    "ADTopk (HPDC'24); its script's density reaches the rule here";
inline const Values kGtopk = {
    {"sparsifier", "topk"},   {"density", "0.001"},
    {"collective", "gtopk"},  {"density_schedule", "0.004"},
    {"feedback", "residual"}, {"dense_rank", "0"}};
inline const Values kOmgs = {{"sparsifier", "topk"},
                             {"density", "0.001"},
                             {"feedback", "residual"},
                             {"dense_rank", "0"}};
inline const Values kSidco = {{"sparsifier", "sidco-e"},
                              {"density", "0.001"},
                              {"feedback", "residual"},
                              {"dense_rank", "0"}};
inline const Values kAdtopk = {{"sparsifier", "adtopk"},
                               {"feedback", "residual"}};
// What we would do: the momentum where DGC has it, a density that falls, and
// nothing lost. The weight decay stands alone then and is 1 / (1 - 0.9) times
// as strong, as the momentum would make it.
inline const Values kDgc = {{"sparsifier", "dgc"},
                            {"density", "0.001"},
                            {"feedback", "dgc"},
                            {"density_schedule", "warmup:epochs=4"}};

inline constexpr std::string_view kSgd4 =
    "sgd:momentum=0.9,weight_decay=0.0001";
inline constexpr std::string_view kSgd4Dgc =
    "sgd:momentum=0,weight_decay=0.001";

std::vector<Preset> vision();
std::vector<Preset> language();
std::vector<Preset> speech();

}  // namespace sluice::preset
