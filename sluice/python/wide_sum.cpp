#include "sluice/python/wide_sum.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "sluice/core/error.h"

namespace sluice {
namespace {

// Phases that no other call of a step has.
constexpr std::uint32_t kGradients = 101;
constexpr std::uint32_t kMeans = 102;

std::span<double> share(std::span<double> values, std::size_t rank,
                        std::size_t ranks) {
  const std::size_t first = values.size() * rank / ranks;
  return values.subspan(first, values.size() * (rank + 1) / ranks - first);
}

// Copies what a peer sent, whose payload need not be aligned.
void receive(Communicator& comm, std::size_t peer, std::uint32_t phase,
             std::span<double> out) {
  const auto bytes = comm.receive(peer, phase);
  if (bytes.size() != out.size_bytes()) {
    comm.reject(peer, concat("a part of ", bytes.size(), " bytes where ",
                             out.size_bytes(), " were due"));
  }
  std::memcpy(out.data(), bytes.data(), bytes.size());
}

}  // namespace

void mean_of_doubles(Communicator& comm, std::uint64_t step,
                     std::span<double> values) {
  const std::size_t size = comm.size();
  comm.begin("wide gradients", step);
  for (std::size_t r = 0; r < size; ++r) {
    if (r == comm.rank()) continue;
    comm.send(r, kGradients, std::as_bytes(share(values, r, size)));
  }
  const std::span<double> own = share(values, comm.rank(), size);
  std::vector<double> mean(own.size());
  std::vector<double> theirs(own.begin(), own.end());
  for (std::size_t r = 0; r < size; ++r) {
    if (r == comm.rank()) {
      theirs.assign(own.begin(), own.end());
    } else {
      receive(comm, r, kGradients, theirs);
    }
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += theirs[i];
  }
  for (double& m : mean) m /= static_cast<double>(size);
  for (std::size_t r = 0; r < size; ++r) {
    if (r != comm.rank()) comm.send(r, kMeans, std::as_bytes(std::span(mean)));
  }
  std::ranges::copy(mean, own.begin());
  for (std::size_t r = 0; r < size; ++r) {
    if (r != comm.rank()) receive(comm, r, kMeans, share(values, r, size));
  }
}

}  // namespace sluice
