// One rank of an MPI job; mpi_test.py runs it in scenarios, good and bad. With
// "nccl" as its last argument ranks are on GPUs and linked by NCCL.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "exchanger.h"
#include "sluice/collective/patterns.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/collective/vote.h"
#include "sluice/comm/machines.h"
#include "sluice/comm/mpi/mpi.h"
#include "sluice/comm/nccl/nccl.h"
#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/core/hash.h"
#include "sluice/sync/gradient_sync.h"

namespace sluice {
namespace {

using testing::Exchanger;
using testing::Picks;
using testing::vote_on;

constexpr std::uint64_t kSize = 5000;

Picks selection(std::size_t rank, std::uint64_t step) {
  Picks mine;
  for (std::uint64_t j = 0; j < kSize; ++j) {
    const std::uint64_t h = mix64(rank, step, j);
    if (h % 20 == 0) {
      mine.add(static_cast<std::uint32_t>(j),
               static_cast<float>(h >> 32 & 1023) - 512);
    }
  }
  return mine;
}

// What exchanges run on.
struct Parts {
  Parts(Communicator& comm, bool nccl)
      : backend(nccl ? make_cuda_backend() : make_cpu_backend({1, ""})) {
    if (!nccl) return;
    NcclLinkOrProblem made = make_nccl_link(comm, 0);
    ensure(made.link != nullptr, made.problem);
    link = std::move(made.link);
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<DeviceLink> link;  // or null
};

// Whole numbers, so that the exact algorithms must give the exact sum.
void check_collectives(Communicator& comm, Parts& parts) {
  for (const CollectiveEntry& entry : collectives()) {
    auto collective = make_collective(entry.name);
    Exchanger exchanger(*parts.backend, parts.link.get());
    for (std::uint64_t step = 0; step < 6; ++step) {
      const Picks mine = selection(comm.rank(), step);
      exchanger.reduce(
          *collective, comm, mine,
          {.n = kSize, .step = step, .rest = std::vector<float>(kSize)});
      collective->commit(vote_on(comm, step, true, mine.size()).totals[0]);
      if (!collective->exact()) continue;
      std::vector<float> sum(kSize, 0.0F);
      for (std::size_t r = 0; r < comm.size(); ++r) {
        const Picks theirs = selection(r, step);
        for (std::size_t i = 0; i < theirs.size(); ++i) {
          sum[theirs.indices[i]] += theirs.values[i];
        }
      }
      require(exchanger.sum() == sum, "[test] ", entry.name,
              " has the wrong sum in step ", step);
    }
  }
}

// Sums of vectors on the device: the same bits everywhere, and with what was
// rounded off (here by rank 0 alone to see) the exact sum.
void check_device_sums(Communicator& comm, Parts& parts) {
  const auto values = [](std::size_t rank, std::size_t n) {
    std::vector<float> all(n);
    for (std::size_t j = 0; j < n; ++j) {
      all[j] = static_cast<float>(mix64(rank, n, j) % 100'000);
    }
    return all;
  };
  Backend& device = *parts.backend;
  ExchangeContext context(device, parts.link.get());
  Stream& stream = context.stream();
  for (const std::string name : {"dense", "dense-bf16"}) {
    const auto collective = make_collective(name);
    DenseAllreduce& dense = *collective->as_dense();
    for (const std::size_t n : {1U, 31U, 4097U, 1'000'003U}) {
      const std::vector<float> mine = values(comm.rank(), n);
      // Pinned: a copy to other memory would block this rank behind the others,
      // who may be waiting for a message of its.
      const Buffer host = device.allocate_host(2 * n * sizeof(float));
      const std::span<float> sum(host.data<float>(), n);
      const std::span<float> rest(host.data<float>() + n, n);
      const Buffer data = device.allocate(n * sizeof(float));
      const Buffer left = device.allocate(n * sizeof(float));
      const std::span<float> all(data.data<float>(), n);
      device.copy_in(stream, data.data(), std::as_bytes(std::span(mine)));
      dense.sum_on_device(comm, context, n, all, all, {left.data<float>(), n});
      device.copy_out(stream, std::as_writable_bytes(sum), data.data());
      device.copy_out(stream, std::as_writable_bytes(rest), left.data());
      context.wait();
      const std::size_t other =
          rank_that_differs(comm, "comparison", n, std::as_bytes(sum));
      ensure(other == comm.rank(), "[test] ", name, " of ", n,
             " has other bits on rank ", other);
      const auto rests =
          gather_at_first(comm, "remainders", n, std::as_bytes(rest));
      for (std::size_t r = 0; r < rests.size(); ++r) {
        std::vector<float> theirs(n);
        std::memcpy(theirs.data(), rests[r].data(), rests[r].size());
        const std::vector<float> brought = values(r, n);
        for (std::size_t j = 0; j < n; ++j) sum[j] += theirs[j] - brought[j];
      }
      for (const float off : sum) {
        ensure(comm.rank() != 0 || off == 0, "[test] ", name, " of ", n,
               " is off by ", off);
      }
    }
  }
}

// Every rank to the next: `size` bytes that depend on the sender.
void check_shift(Communicator& comm, std::size_t size) {
  const auto fill = [&](std::size_t rank) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; i += 1 + size / 1000) {
      bytes[i] = static_cast<std::byte>(mix64(rank, i));
    }
    return bytes;
  };
  const std::size_t before = (comm.rank() + comm.size() - 1) % comm.size();
  comm.begin("shift", size);
  comm.send((comm.rank() + 1) % comm.size(), 0, fill(comm.rank()));
  const auto got = comm.receive(before, 0);
  const Bytes expected = fill(before);
  require(
      got.size() == size && std::memcmp(got.data(), expected.data(), size) == 0,
      "[test] ", size, " bytes did not arrive as they were sent");
}

// A rank comes to MPI's own sum when the others have given it up, and MPI then
// completes it, whenever they call MPI again. What they sum next must be right
// and stay so.
void check_late_sum(Communicator& comm, std::size_t victim) {
  auto collective = make_collective("dense:by=native");
  DenseAllreduce& dense = *collective->as_dense();
  const auto values = [&](std::uint64_t step, bool sum) {
    std::vector<float> all(kSize);
    for (std::size_t j = 0; j < kSize; ++j) {
      for (std::size_t r = 0; r < comm.size(); ++r) {
        if (!sum && r != comm.rank()) continue;
        all[j] += static_cast<float>(mix64(r, step, j) % 1000);
      }
    }
    return all;
  };
  std::vector<std::vector<float>> out(4, std::vector<float>(kSize));
  const auto run_step = [&](std::uint64_t step) {
    const std::vector<float> in = values(step, false);
    dense.sum(comm, step, in, out[step], {});
    return out[step] == values(step, true);
  };
  require(run_step(0), "[test] a sum of MPI is wrong");
  const auto own = std::make_shared<std::vector<float>>(values(9, false));
  dense.sum(comm, 0, *own, *own, {}, own);
  require(*own == values(9, true), "[test] a sum in place is wrong");
  if (comm.rank() == victim) {
    std::this_thread::sleep_for(comm.timeout() * 3 / 2);
  }
  try {
    run_step(1);  // the late one may find all that it needs
    require(comm.rank() == victim, "[test] a late rank must be an error");
  } catch (const CommError&) {
  }
  comm.rebuild();
  require(run_step(2), "[test] the sum after a late one is wrong");
  require(run_step(3), "[test] the second sum after a late one is wrong");
  require(out[0] == values(0, true) && out[2] == values(2, true),
          "[test] a late sum was written where another is");
  require(comm.rank() == victim || out[1] == std::vector<float>(kSize),
          "[test] a late sum was written to the caller's memory");
}

// Steps of a hierarchical plan on machines of two ranks, whatever MPI says of
// them: whole numbers, so that nothing may be off.
void check_machines(Communicator& comm, Parts& parts) {
  const std::vector<std::size_t> real = gather_machines(comm);
  const auto mine = std::count(real.begin(), real.end(), comm.machine());
  require(real[comm.rank()] == comm.machine() &&
              mine == static_cast<std::ptrdiff_t>(comm.local_size()),
          "[test] ", mine, " ranks are said to be on this machine, not ",
          comm.local_size());
  const std::vector<TensorInfo> tensors = {{"w", {100, 100}}, {"b", {10}}};
  constexpr std::size_t kElements = 10'010;
  SyncOptions options;
  options.plan.hierarchical = true;
  options.plan.buckets.resize(2);
  options.plan.buckets[0].tensors = {0};
  options.plan.buckets[0].collective = "balanced";
  options.plan.buckets[1].tensors = {1};
  options.plan.buckets[1].sparsifier = "none";
  options.plan.buckets[1].collective = "dense";
  options.machine_of = machines_of(comm.size(), 2);
  GradientSync sync(comm, *parts.backend, tensors, options);
  std::vector<float> account(kElements);  // what is here, less what came
  for (std::uint64_t step = 0; step < 5; ++step) {
    std::vector<float> g(kElements);
    for (std::size_t j = 0; j < kElements; ++j) {
      g[j] =
          static_cast<float>(mix64(comm.rank(), step, j) % 100 * comm.size());
      account[j] -= g[j];
    }
    sync.begin(step, {0.05, 0.05});
    sync.ready(1, contiguous_view(g.data() + 10'000, tensors[1].dims));
    sync.ready(0, contiguous_view(g.data(), tensors[0].dims));
    ensure(sync.finish().committed, "[test] a step was not committed");
    ensure(rank_that_differs(comm, "mean", step, std::as_bytes(std::span(g))) ==
               comm.rank(),
           "[test] means differ");
    for (std::size_t j = 0; j < kElements; ++j) account[j] += g[j];
  }
  const std::vector<float> residual = sync.save().residual;
  for (std::size_t j = 0; j < kElements; ++j) account[j] += residual[j];
  const auto all =
      gather_at_first(comm, "account", 9, std::as_bytes(std::span(account)));
  std::vector<float> sum(kElements);
  for (const Bytes& bytes : all) {
    std::memcpy(account.data(), bytes.data(), bytes.size());
    for (std::size_t j = 0; j < kElements; ++j) sum[j] += account[j];
  }
  ensure(sum == std::vector<float>(kElements), "[test] something was lost");
}

void run(Communicator& comm, Parts& parts, const std::string& what,
         std::size_t victim) {
  if (what == "late-sum") return check_late_sum(comm, victim);
  if (what == "law") {
    require(comm.local_rank() < comm.local_size(), "[test] local rank");
    check_collectives(comm, parts);
    if (parts.link == nullptr) check_machines(comm, parts);
    if (parts.link != nullptr) check_device_sums(comm, parts);
    return;
  }
  if (what == "parts" || what == "large") {
    const std::size_t part = what == "parts" ? 1000 : std::size_t{1} << 30;
    for (const std::size_t size : {std::size_t{0}, part - 49, part - 48,
                                   part - 47, 2 * part, 2 * part + 5}) {
      if (what == "parts" || size > 2 * part) check_shift(comm, size);
    }
    return;
  }
  auto collective =
      make_collective(parts.link != nullptr ? "allgather" : "balanced");
  Exchanger exchanger(*parts.backend, parts.link.get());
  for (std::uint64_t step = 0; step < 1000; ++step) {
    if (comm.rank() == victim && step == 3) {
      if (what == "killed") raise(SIGKILL);
      if (what == "stopped") raise(SIGSTOP);
      if (what == "silent") sleep(30);
      if (what == "astray") ++step;
    }
    const Picks mine = selection(comm.rank(), step);
    try {
      exchanger.reduce(*collective, comm, mine, {.n = kSize, .step = step});
      collective->commit(vote_on(comm, step, true, mine.size()).totals[0]);
    } catch (const CommError&) {
      // The stream would wait for the lost rank, and its end for the stream.
      if (parts.link != nullptr) parts.link->abort();
      throw;
    }
  }
}

int main_of(int argc, char** argv) {
  require(argc >= 2, "usage: mpi_ranks SCENARIO [VICTIM [TIMEOUT [nccl]]]");
  const std::string what = argv[1];
  MpiOptions options;
  if (what == "parts") options.part = 1000;
  Communicator comm(make_mpi_engine(options));
  comm.set_timeout(std::chrono::seconds(argc > 3 ? std::stoi(argv[3]) : 60));
  report_waits_on_sigterm();
  try {
    Parts parts(comm, argc > 4 && argv[4] == std::string("nccl"));
    run(comm, parts, what, argc > 2 ? std::stoul(argv[2]) : 0);
    comm.finish();
  } catch (const std::exception& e) {
    signal(SIGTERM, SIG_IGN);
    std::fprintf(stderr, "%s\n", e.what());
    std::fflush(stderr);
    _exit(1);  // MPI_Finalize would hang
  }
  if (comm.rank() == 0) std::puts("good");
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::main_of(argc, argv); }
