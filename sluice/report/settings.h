#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/report/page.h"

// What was run, from the config.json of runs. Files may be of any version:
// nothing throws, and what is not there is left out.

namespace sluice {

// The value of a key as people write it; empty if there is none.
std::string setting(const nlohmann::ordered_json& config,
                    const std::string& key);

// "dense", "dense-bf16", or the sparsifier, with feedback and collective where
// they are not the usual ones: "topk+dgc", "topk+residual+oktopk".
std::string method_of(const nlohmann::ordered_json& config);
bool sends_all(const nlohmann::ordered_json& config);
// 1 where everything is sent.
double density_of(const nlohmann::ordered_json& config);
// "1 %"; empty where everything is sent.
std::string density_text(const nlohmann::ordered_json& config);

// "mlp on fashion-mnist", and "4 workers of batch 64 (threads), network
// 50us,1Gbit".
std::string job_title(const nlohmann::ordered_json& config);
std::string job_setting(const nlohmann::ordered_json& config);

// The `sluice train` that does the same: what differs from the defaults.
std::string command_of(const nlohmann::ordered_json& config);
// Those keys and values.
PageTable settings_table(const nlohmann::ordered_json& config);
// A row per key in which runs differ, but for folder and seed; a column per
// run.
PageTable differences_table(const std::vector<std::string>& names,
                            const std::vector<nlohmann::ordered_json>& configs);
// What ran it, from the about.json of a run; empty if it is none.
PageTable about_table(const nlohmann::ordered_json& about);

}  // namespace sluice
