#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "sluice/plan/simulate.h"

// What the commands about plans share: the job, and how it is shown.

namespace sluice {

struct JobOptions {
  std::string profile = "profile.json";
  std::string net = "network.json";
  std::int64_t workers = 0;  // only where add_workers() asks for them
  std::string sparsifier = "topk";
  std::string feedback = "residual";
  std::string values = "fp32";
  std::string collective = "auto";
  std::string dense_collective = "dense";
  double density = 0.01;
  std::int64_t dense_rank = 1;
  std::int64_t dense_below = 0;
  std::string device = "cpu";
  std::string select = "beside";
  bool hierarchical = false;
};

void add_job_options(CLI::App& command, JobOptions& options);
void add_density(CLI::App& command, JobOptions& options);
void add_workers(CLI::App& command, JobOptions& options);

// The job of these options. Throws std::invalid_argument, or std::runtime_error
// for a file that cannot be read.
Job make_job(const JobOptions& options);
// The same, with all dense by this collective and no other.
Job dense_job(const Job& job, std::string_view collective);

// A network file, or ALPHA,RATE; see parse_link().
Topology parse_network(const std::string& text);
std::string describe(const Topology& network);

// Throws std::invalid_argument for rules of turns that there are none of.
void check_turns(const Plan& plan);

// "topk", or "adtopk/topk" for two that take turns.
std::string describe_rules(const BucketPlan& bucket);
// "topk 1 % by balanced", "dense-bf16".
std::string describe_way(const BucketPlan& bucket, double density);

// Seconds, bytes and counts of a simulated plan.
nlohmann::ordered_json summary_of(const Plan& plan, const Simulation& s);
// The same in a few lines for people.
std::string describe(const Job& job, const Plan& plan, const Simulation& s);

// A plan of this job's model; of a run that changed its plan, the last one.
// Throws as make_job() does.
Plan read_plan(const std::string& path, std::span<const std::string> names);

}  // namespace sluice
