#include "sluice/collective/dense.h"

#include <cstring>

#include "sluice/collective/exchange.h"

namespace sluice {
namespace {

// The part of n elements that chunk c of `parts` covers.
std::span<float> chunk_of(std::span<float> all, std::size_t c,
                          std::size_t parts) {
  const std::size_t n = all.size();
  const std::size_t begin = n / parts * c + std::min(c, n % parts);
  const std::size_t size = n / parts + (c < n % parts ? 1 : 0);
  return all.subspan(begin, size);
}

const float* checked_floats(Communicator& comm, std::size_t peer,
                            std::span<const std::byte> bytes, std::size_t count,
                            std::vector<float>& copy) {
  if (bytes.size() != count * sizeof(float)) {
    comm.reject(peer, "a dense chunk of the wrong size");
  }
  copy.resize(count);
  if (count > 0) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy.data();
}

}  // namespace

void Dense::run(Communicator& comm, const Contribution& mine,
                std::span<float> sum, Entries&) {
  add_to(mine.selected, sum);
  const std::size_t size = comm.size();
  if (size == 1 || (params_.native && comm.native_sum(sum))) return;
  const std::size_t next = (comm.rank() + 1) % size;
  const std::size_t before = (comm.rank() + size - 1) % size;
  std::vector<float> received;
  // After size - 1 steps rank r holds the whole sum of chunk r + 1.
  for (std::size_t s = 0; s + 1 < size; ++s) {
    const auto phase = static_cast<std::uint32_t>(s);
    comm.send(
        next, phase,
        std::as_bytes(chunk_of(sum, (comm.rank() + size - s) % size, size)));
    const auto chunk = chunk_of(sum, (comm.rank() + size - s - 1) % size, size);
    const float* values = checked_floats(
        comm, before, comm.receive(before, phase), chunk.size(), received);
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] += values[i];
  }
  for (std::size_t s = 0; s + 1 < size; ++s) {
    const auto phase = static_cast<std::uint32_t>(size + s);
    comm.send(next, phase,
              std::as_bytes(
                  chunk_of(sum, (comm.rank() + 1 + size - s) % size, size)));
    const auto chunk = chunk_of(sum, (comm.rank() + size - s) % size, size);
    const float* values = checked_floats(
        comm, before, comm.receive(before, phase), chunk.size(), received);
    std::copy(values, values + chunk.size(), chunk.begin());
  }
}

}  // namespace sluice
