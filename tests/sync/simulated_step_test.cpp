#include "sluice/comm/emulated/emulated.h"
#include "sluice/plan/planner.h"
#include "sluice/plan/simulate.h"
#include "sync_support.h"

namespace sluice::testing {
namespace {

const Link kSlow = {50e-6, 8e-9, {}};

// Larger than kTensors: bytes must count.
const std::vector<TensorInfo> kModel = {{"a.weight", {200, 300}},
                                        {"a.bias", {300}},
                                        {"b.weight", {100, 1000}},
                                        {"c.weight", {50, 400}},
                                        {"c.bias", {400}}};

Job job_of_model(std::size_t ranks) {
  Job job;
  job.profile.model = "model";
  for (const TensorInfo& t : kModel) {
    TensorProfile tensor;
    tensor.name = t.name;
    tensor.shape = t.dims;
    tensor.elements = size_of(t);
    job.profile.tensors.push_back(tensor);
  }
  job.dense = dense_tensors(job.profile, 1, 0);
  job.network.between = {kSlow.alpha, kSlow.beta};
  job.ranks = static_cast<double>(ranks);
  job.collectives = collective_costs();
  return job;
}

// The second step of a plan on a simulated network: computing takes no time.
double measure(const Plan& plan, std::size_t size, double density,
               const Link& net = kSlow) {
  ManualClock clock;
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& engine : make_thread_engines(size, {&clock, nullptr, nullptr})) {
    ranks.push_back(
        std::make_unique<Communicator>(make_emulated(std::move(engine), net)));
  }
  std::vector<Communicator::Clock::time_point> begin(size);
  std::vector<Communicator::Clock::time_point> end(size);
  run_ranks(ranks, [&](std::size_t r) {
    const auto backend = make_cpu_backend({1, "portable"});
    SyncOptions options;
    options.plan = plan;
    options.network = Network{kSlow.alpha, kSlow.beta};
    GradientSync sync(*ranks[r], *backend, kModel, options);
    for (std::uint64_t step = 0; step < 2; ++step) {
      std::vector<std::vector<float>> gradients;
      for (std::size_t t = 0; t < kModel.size(); ++t) {
        gradients.push_back(
            gaussian(size_of(kModel[t]), 1000 * r + 10 * step + t));
      }
      ranks[r]->barrier(step);
      begin[r] = ranks[r]->now();
      sync.begin(step, {density, density});
      for (std::size_t t = kModel.size(); t-- > 0;) {
        sync.ready(t, contiguous_view(gradients[t].data(), kModel[t].dims));
      }
      sync.finish();
      end[r] = ranks[r]->now();
    }
  });
  return std::chrono::duration<double>(
             *std::max_element(end.begin(), end.end()) -
             *std::max_element(begin.begin(), begin.end()))
      .count();
}

// What the simulator says of the network alone is what a step takes that
// computes in no time: order, one exchange at a time, the vote.
TEST(SimulatedStep, TakesWhatItIsSaidToTake) {
  for (const std::size_t size : {2, 4, 8}) {
    for (const char* planner :
         {"layerwise", "single", "espresso", "hybrid", "hipress", "auto"}) {
      for (const char* sparsifier : {"topk", "none"}) {
        Job job = job_of_model(size);
        job.sparse.sparsifier = sparsifier;
        const Plan plan = make_planner(planner)->make(job);
        const double said = simulate(plan, job).free_compression;
        const double real = measure(plan, size, job.density);
        EXPECT_NEAR(said / real, 1, 0.05)
            << planner << " " << sparsifier << " " << size;
      }
    }
  }
}

// The same of whole machines, which the engine knows of: sums inside them, then
// an exchange between their first ranks, then the mean.
TEST(SimulatedStep, OfMachinesTakesWhatItIsSaidToTake) {
  for (const std::size_t per_machine : {2, 4}) {
    for (const std::size_t machines : {1, 2, 4}) {
      Link net = kSlow;
      net.per_machine = per_machine;
      net.inside_alpha = 20e-6;
      net.inside_beta = 1e-9;
      const std::size_t size = per_machine * machines;
      for (const std::string planner : {"layerwise", "single", "espresso"}) {
        for (const char* sparsifier : {"topk", "none"}) {
          Job job = job_of_model(size);
          job.sparse.sparsifier = sparsifier;
          job.network.per_machine = static_cast<double>(per_machine);
          job.network.inside = {net.inside_alpha, net.inside_beta};
          const Plan plan =
              make_planner("hierarchical:of=" + planner)->make(job);
          const double said = simulate(plan, job).free_compression;
          const double real = measure(plan, size, job.density, net);
          EXPECT_NEAR(said / real, 1, 0.05)
              << planner << " " << sparsifier << " " << machines << " machines "
              << per_machine;
        }
      }
    }
  }
}

TEST(SimulatedStep, TakesWhatItIsSaidToTakeInPieces) {
  for (const std::size_t size : {2, 4}) {
    for (const char* sparsifier : {"topk", "none"}) {
      Job job = job_of_model(size);
      job.sparse.sparsifier = sparsifier;
      const Plan plan = in_pieces(make_planner("layerwise")->make(job), 3);
      const double said = simulate(plan, job).free_compression;
      const double real = measure(plan, size, job.density);
      EXPECT_NEAR(said / real, 1, 0.05) << sparsifier << " " << size;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
