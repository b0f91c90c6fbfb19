#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/feedback/feedback.h"

// The methods as functions of arrays, for who studies them.

namespace sluice {

struct HostEntries {
  std::vector<std::uint32_t> indices;  // ascending
  std::vector<float> values;
};

struct SelectRequest {
  TensorView residual;     // is written to
  TensorView gradient;     // of the same dimensions
  Event ready;             // when both may be read
  std::optional<int> gpu;  // whose memory they are; none: the host's
  std::string sparsifier;
  StepInfo step;
};

// One step of error feedback: adds the gradient to the residual, takes what the
// sparsifier selects out of it, and returns that. Throws std::invalid_argument.
HostEntries select_entries(const SelectRequest& request);

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
