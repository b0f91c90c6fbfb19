#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice {

// A peer that is dead, late or in another step.
class CommError : public std::runtime_error {
 public:
  CommError(const std::string& message, std::size_t rank, std::size_t peer)
      : std::runtime_error(message), rank_(rank), peer_(peer) {}
  std::size_t rank() const { return rank_; }  // who noticed
  std::size_t peer() const { return peer_; }  // who is missing

 private:
  std::size_t rank_;
  std::size_t peer_;
};

// Ranks that exchange bytes. Knows nothing of gradients. Every wait ends at the
// deadline with a CommError; after one the communicator stays failed.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  // Every rank's bytes, in rank order. `step` and `phase` must be equal on all
  // ranks: a peer that is elsewhere is an error, not a mix-up.
  virtual void all_gather(std::span<const std::byte> mine, std::uint64_t step,
                          std::uint32_t phase,
                          std::vector<std::vector<std::byte>>& all) = 0;
};

}  // namespace sluice
