// The whole walk of a gradient, on ranks that are threads of this program:
// select, exchange, apply, vote, commit. MPI would change the communicator
// only.

#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/collective/vote.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/core/hash.h"
#include "sluice/feedback/feedback.h"

namespace {

using namespace sluice;

constexpr std::size_t kRanks = 4;
constexpr std::size_t kRows = 256;
constexpr std::size_t kColumns = 512;
constexpr std::size_t kSize = kRows * kColumns;
constexpr std::uint64_t kSteps = 5;

// Sums over the ranks, to see that nothing is lost.
struct Ledger {
  double gradients = 0;
  double delivered = 0;
  double kept = 0;
};

std::vector<float> gradient_of(std::size_t rank, std::uint64_t step) {
  std::vector<float> g(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    const auto h = static_cast<double>(mix64(rank, step, i) >> 11) * 0x1p-53;
    g[i] = static_cast<float>(std::tan(3 * (h - 0.5)));  // a heavy tail
  }
  return g;
}

double sum_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v);
  return sum;
}

void train(Communicator& comm, Ledger& ledger) {
  // Memory of a device, here the CPU's: residuals, and one bucket of one
  // tensor.
  const auto backend = make_cpu_backend({1, ""});
  const std::vector<std::size_t> dims = {kRows, kColumns};
  Bucket bucket;
  bucket.add(0, shape3(dims), 0);
  Arena arena(*backend, bucket.size());
  const auto feedback = make_feedback(
      "residual", {*backend, arena, bucket, make_sparsifier("adtopk")});
  const auto collective = make_collective("balanced");
  ExchangeContext context(*backend);
  Stream& stream = context.stream();
  Delivery out;
  Standing standing;
  VoteResult result;

  for (std::uint64_t step = 0; step < kSteps; ++step) {
    std::vector<float> gradient = gradient_of(comm.rank(), step);
    ledger.gradients += sum_of(gradient);
    const TensorView view = contiguous_view(gradient.data(), dims);
    // Select: the residual takes the gradient, the largest of each row leave.
    feedback->select(stream, {&view, 1}, {step, kSteps, 0.01, 1});

    // Exchange: everybody's block, summed; the same bits on all ranks.
    collective->reduce(comm, context,
                       {feedback->staged(), feedback->forms(),
                        feedback->budget(), step, feedback->residuals()},
                       out);

    // Apply: the mean replaces the gradient.
    context.apply(out.sum, {&view, 1}, 1.0F / kRanks);
    backend->wait(backend->record(stream));
    collective->verify(comm);

    // Commit, if everybody has come so far; else all is put back.
    const std::uint64_t count[] = {feedback->budget()};
    vote(comm, step, Ballot::kYes, count, standing, result);
    if (result.decision == Decision::kCommitted) {
      feedback->commit(stream, context.on_device(out.returned), out.refused);
      collective->commit(result.totals[0]);
      ledger.delivered += sum_of(gradient);
    } else {
      feedback->rollback(stream);
      collective->roll_back();
    }
  }
  const float* residual = arena.residual();
  ledger.kept = sum_of({residual, residual + kSize});
}

}  // namespace

int main() {
  auto ranks = make_thread_ranks(kRanks);
  std::vector<Ledger> ledgers(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] { train(*ranks[r], ledgers[r]); });
  }
  for (std::thread& thread : threads) thread.join();
  double owed = 0, have = 0;
  for (const Ledger& l : ledgers) {
    owed += l.gradients;
    have += l.delivered + l.kept;  // every rank got the mean
  }
  std::printf("%zu bytes sent per rank and step, of %zu dense\n",
              ranks[0]->traffic().bytes_sent / kSteps,
              2 * 4 * kSize * (kRanks - 1) / kRanks);
  std::printf("gradients %.3f = delivered + kept %.3f\n", owed, have);
  return std::abs(owed - have) < 1e-3 * std::abs(owed) + 1 ? 0 : 1;
}
