#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sluice/cli/commands.h"
#include "sluice/cli/plan/hand_profile.h"
#include "sluice/cli/plan/job_options.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/core/error.h"
#include "sluice/plan/planner.h"

// What papers claim, next to what the simulator makes of it: their models,
// times and networks, our collectives and stages.

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// A plan that is made for a job.
struct Run {
  Job job;
  std::string planner;
};

struct Claim {
  std::string paper;
  std::string model;
  std::string what;  // "gtopk over dense"
  double claimed = 0;
  Run base;
  Run method;
};

// Stages as a GPU of those years has them: reading and writing memory, and 20
// us to launch. Lists are coded and merged by a core (Rates).
std::vector<StageCost> stages() {
  return {{"select", "*", "cpu", cost_line(2e-5, 1e-10)},
          {"apply", "*", "cpu", cost_line(2e-5, 1e-10)},
          {"sum", "*", "cpu", cost_line(0, 2e-11)}};
}

Job job_of(Profile profile, double ranks, const Network& network,
           double density) {
  Job job;
  job.profile = std::move(profile);
  job.profile.costs = stages();
  job.network.between = network;
  job.ranks = ranks;
  job.collectives = collective_costs();
  job.density = density;
  job.dense = dense_tensors(job.profile, 1, 0);
  return job;
}

Job by(Job job, const std::string& collective) {
  job.sparse.collective = collective;
  return job;
}

// All at once when backward is done, as code of that time does.
Profile whole_model(const std::string& name, double elements, double seconds) {
  Profile profile;
  profile.model = name;
  profile.forward = seconds / 3;
  TensorProfile t;
  t.name = "all";
  t.elements = static_cast<std::size_t>(elements);
  t.backward = 2 * seconds / 3;
  profile.tensors = {t};
  return profile;
}

// gTop-k, 1 GbE, a thousandth: samples/s per GPU by method on 4 to 32 GPUs.
void add_gtopk(std::vector<Claim>& out) {
  struct Row {
    const char* model;
    double elements, batch, alone;
    double dense[4], topk[4], gtopk[4];
  };
  const Row rows[] = {{"VGG-16",
                       14.73e6,
                       128,
                       1317.3,
                       {104.2, 92.6, 39.5, 12.6},
                       {110.6, 109.9, 97.9, 63.0},
                       {131.1, 130.6, 126.4, 123.2}},
                      {"ResNet-20",
                       0.27e6,
                       128,
                       920.6,
                       {821.7, 705.2, 520.4, 287.9},
                       {908.8, 753.0, 737.6, 696.0},
                       {916.3, 868.7, 808.5, 789.3}},
                      {"ResNet-50",
                       25.56e6,
                       256,
                       52.9,
                       {39.0, 37.0, 23.2, 10.7},
                       {37.7, 35.7, 34.5, 30.6},
                       {39.8, 39.7, 39.1, 39.1}}};
  const Network net = {0.436e-3, 9e-9};
  for (const Row& row : rows) {
    for (const std::size_t i : {0, 3}) {
      const double ranks = i == 0 ? 4 : 32;
      const Job job =
          job_of(whole_model(row.model, row.elements, row.batch / row.alone),
                 ranks, net, 0.001);
      const Run gtopk = {by(job, "gtopk"), "single"};
      out.push_back({"gTop-k",
                     row.model,
                     "gtopk over dense",
                     row.gtopk[i] / row.dense[i],
                     {dense_job(job, "dense"), "single"},
                     gtopk});
      out.push_back({"gTop-k",
                     row.model,
                     "gtopk over allgather",
                     row.gtopk[i] / row.topk[i],
                     {by(job, "allgather"), "single"},
                     gtopk});
    }
  }
}

// 16 GPUs at 1 Gbit/s, a thousandth; forward 90 ms and backward 120 ms.
void add_merging(std::vector<Claim>& out) {
  const Job job = by(job_of(hand_profile("resnet50", 0.090, 0.120), 16,
                            {0.436e-3, 9e-9}, 0.001),
                     "allgather");
  const Run exact = {job, "omgs-exact"};
  out.push_back({"OMGS",
                 "ResNet-50",
                 "omgs over layerwise",
                 1.314,
                 {job, "layerwise"},
                 {job, "omgs"}});
  out.push_back({"OMGS",
                 "ResNet-50",
                 "omgs-exact over layerwise",
                 1.314,
                 {job, "layerwise"},
                 exact});
  // Between 2.86 and 8.52 over models; an iteration of ResNet-50 took 1.45 s.
  out.push_back({"LAGS",
                 "ResNet-50",
                 "lags over dense",
                 2.86,
                 {dense_job(job, "dense"), "mgwfbp"},
                 {job, "lags"}});
}

// VGG-16 for CIFAR-100 on 8 workers, a hundredth: 4634 s dense, 1324 s. Bytes
// and calls cost what its own table says: about 0.1 GB/s and 5 ms.
void add_adtopk(std::vector<Claim>& out) {
  Job job = job_of(whole_model("VGG-16", 34015396, 1.5 * 0.0155169), 8,
                   {5e-3 / 7, 1e-8}, 0.01);
  job.sparse.sparsifier = "adtopk";
  out.push_back({"ADTopk",
                 "VGG-16",
                 "adtopk over dense",
                 4634.0 / 1324,
                 {dense_job(job, "dense"), "single"},
                 {by(job, "allgather"), "single"}});
}

// VGG16 on 8 machines of 8 GPUs, random-k at a hundredth, in its released
// simulator: gradients as traced, NVLink or PCIe inside, 10 Gbit/s between.
void add_espresso(std::vector<Claim>& out) {
  constexpr std::size_t kSizes[] = {
      1000, 4096000, 4096, 16777216, 4096, 102760448, 512, 2359296,
      512,  2359296, 512,  2359296,  512,  2359296,   512, 2359296,
      512,  1179648, 256,  589824,   256,  589824,    256, 294912,
      128,  147456,  128,  73728,    64,   36864,     64,  1728};
  constexpr double kGaps[] = {0,    69,    266,  227,  1161, 1505,  1621, 573,
                              100,  1911,  97,   1869, 635,  5385,  241,  5341,
                              298,  2966,  1191, 6284, 507,  6277,  499,  3677,
                              2308, 10394, 1012, 6359, 4555, 14434, 2004, 1544};
  Profile profile;
  profile.model = "VGG16";
  for (std::size_t i = std::size(kSizes); i-- > 0;) {
    TensorProfile t;
    t.name = concat("tensor", profile.tensors.size());
    t.elements = kSizes[i];
    t.backward = 1e-6 * kGaps[i];
    profile.tensors.push_back(t);
  }
  Job job = job_of(profile, 64, {150e-6, 8e-10}, 0.01);
  job.sparse.sparsifier = "randomk";
  job.network.per_machine = 8;
  job.hierarchical = true;
  for (const bool nvlink : {false, true}) {
    job.network.inside = {10e-6, nvlink ? 2e-11 : 4e-10};
    const double claimed = nvlink ? 803761.0 / 38703 : 1171787.0 / 225875;
    out.push_back({"Espresso",
                   "VGG16",
                   concat("espresso over dense, ", nvlink ? "NVLink" : "PCIe"),
                   claimed,
                   {dense_job(job, "dense"), "layerwise"},
                   {job, "espresso"}});
  }
}

double seconds(const Run& run) {
  return simulate(make_planner(run.planner)->make(run.job), run.job).iteration;
}

std::vector<Json> all_rows() {
  std::vector<Claim> claims;
  const auto known = collectives();
  // A build may leave gTop-k out.
  if (std::any_of(known.begin(), known.end(),
                  [](const auto& entry) { return entry.name == "gtopk"; })) {
    add_gtopk(claims);
  }
  add_merging(claims);
  add_adtopk(claims);
  add_espresso(claims);
  std::vector<Json> rows;
  for (const Claim& claim : claims) {
    const double base = seconds(claim.base);
    const double method = seconds(claim.method);
    rows.push_back({{"paper", claim.paper},
                    {"model", claim.model},
                    {"workers", claim.method.job.ranks},
                    {"what", claim.what},
                    {"claimed", claim.claimed},
                    {"simulated", base / method},
                    {"base", base},
                    {"method", method},
                    {"auto", seconds({claim.method.job, "auto"})}});
  }
  return rows;
}

}  // namespace

void add_plan_claims(CLI::App& plan) {
  auto output = std::make_shared<OutputOptions>();
  CLI::App* claims = plan.add_subcommand(
      "claims",
      "Speed-ups that papers claim, next to what the simulator gives for their "
      "models and networks with our collectives; auto: what it would plan");
  add_output_options(*claims, *output);
  add_examples(*claims, {"sluice plan claims", "sluice plan claims --csv"});
  claims->callback([output] {
    show_rows(all_rows(),
              {{{"paper", "paper", ""},
                {"model", "model", ""},
                {"workers", "workers", "{}"},
                {"what", "speed-up", ""},
                {"claimed", "claimed", "{:.2f}"},
                {"simulated", "simulated", "{:.2f}"},
                {"base", "from ms", "{:.1f}", 1e3},
                {"method", "to ms", "{:.1f}", 1e3},
                {"auto", "auto ms", "{:.1f}", 1e3}},
               "claimed: by the paper; simulated: by us, from so many ms to so "
               "many; auto ms: with the plan that we would choose"},
              *output);
  });
}

}  // namespace sluice
