#include <fmt/format.h>

#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/emulated/emulated.h"
#include "sluice/core/error.h"
#include "sluice/cost/published.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// 1 Gbit/s as gTop-k measured it: seconds per message and per byte.
struct Options {
  std::string n = "25.56M";
  double density = 0.001;
  std::vector<double> workers = {4, 8, 16, 32, 64, 128};
  std::string network = "0.000436,9e-9";
  OutputOptions output;
};

// What gTop-k's table says, in words of 4 bytes, and what our own messages
// take, with headers and coded indices.
Json row_of(double ranks, double n, double k, const Network& net) {
  const published::Link link = {net.alpha, 4 * net.beta};
  Json row = {{"workers", ranks},
              {"ring", published::ring_allreduce(ranks, n, link)},
              {"tree", published::tree_allreduce(ranks, n, link)},
              {"topk", published::topk_allgather(ranks, k, link)},
              {"gtopk_tree", published::gtopk_tree(ranks, k, link)},
              {"gtopk_doubling", published::gtopk_doubling(ranks, k, link)}};
  Workload load;
  load.n = n;
  load.k = k;
  load.ranks = ranks;
  load.u = independent_union(n, k, ranks);
  for (const CostRow& own : collective_costs()) {
    for (const std::string name : {"dense", "allgather", "gtopk", "balanced"}) {
      if (own.name == name) row["our_" + name] = own.of(load, net).seconds;
    }
  }
  return row;
}

const Table kTable = {
    {{"workers", "workers", "{:.0f}"},
     {"ring", "ring", "{:.2f}", 1e3},
     {"tree", "tree", "{:.2f}", 1e3},
     {"topk", "top-k gather", "{:.2f}", 1e3},
     {"gtopk_tree", "gtop-k tree", "{:.2f}", 1e3},
     {"gtopk_doubling", "doubling", "{:.2f}", 1e3},
     {"our_dense", "our dense", "{:.2f}", 1e3},
     {"our_allgather", "allgather", "{:.2f}", 1e3},
     {"our_gtopk", "gtopk", "{:.2f}", 1e3},
     {"our_balanced", "balanced", "{:.2f}", 1e3}},
    "all in ms. ring, tree: dense; up to doubling: gTop-k's formulas; then: "
    "what our collectives say of themselves, with headers and coded indices "
    "(docs/studies.md)"};

void study_costs(const Options& o) {
  check_density(o.density);
  const auto n = static_cast<double>(parse_size(o.n));
  const Link link = parse_link(o.network);
  const Network net = {link.alpha, link.beta};
  std::vector<Json> rows;
  for (const double ranks : o.workers) {
    require(ranks >= 2 && ranks <= 1e6,
            "[study] --workers must be from 2 to 1000000, got ", ranks);
    rows.push_back(row_of(ranks, n, o.density * n, net));
  }
  show_rows(rows, kTable, o.output);
  if (o.output.format() != Format::kTable) return;
  fmt::print("{:.0f} elements at density {:g}, {:g} us and {:g} Gbit/s\n", n,
             o.density, 1e6 * net.alpha, 8e-9 / net.beta);
}

}  // namespace

void add_study_costs(CLI::App& study) {
  auto o = std::make_shared<Options>();
  CLI::App* command = study.add_subcommand(
      "costs", "gTop-k's table of what exchanges take, beside our own");
  command->add_option("--n", o->n, "Elements of the gradient")
      ->capture_default_str();
  command->add_option("--density", o->density, "Share that is sent")
      ->capture_default_str();
  command->add_option("--workers", o->workers, "Joined by commas")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--network", o->network,
                   "As in 50us,1Gbit, or seconds and seconds per byte")
      ->capture_default_str();
  add_output_options(*command, o->output);
  add_examples(*command, {"sluice study costs --n 25M --workers 4,8,16"});
  command->callback([o] { study_costs(*o); });
}

}  // namespace sluice
