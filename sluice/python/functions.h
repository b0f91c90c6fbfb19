#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The methods as functions of arrays in host memory, for who studies them.

namespace sluice {

struct HostEntries {
  std::vector<std::uint32_t> indices;  // ascending
  std::vector<float> values;
};

// One step of error feedback on a tensor of these dimensions: adds the gradient
// to the residual, takes what the sparsifier selects out of it, and returns
// that. Throws std::invalid_argument.
HostEntries select_entries(std::span<float> residual,
                           std::span<const float> gradient,
                           const std::vector<std::size_t>& dims,
                           const std::string& sparsifier, double density,
                           std::uint64_t step, std::uint64_t seed);

// As one message of a tensor with so many elements, and back. `codec`: see
// Codec. Throws std::invalid_argument, and CodecError for what is no message of
// such a tensor.
std::vector<std::byte> encode_entries(std::span<const std::uint32_t> indices,
                                      std::span<const float> values,
                                      std::size_t elements,
                                      const std::string& codec);
HostEntries decode_entries(std::span<const std::byte> message,
                           std::size_t elements);

// Everything that has a name, as `sluice list --json` prints it.
std::string list_methods();

}  // namespace sluice
