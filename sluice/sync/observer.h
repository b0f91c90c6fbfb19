#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

// What of a step somebody wants to see.
enum class Look : std::uint8_t { kNothing, kEntries, kEverything };

// What one rank selected from a tensor, or from the rows of it that a bucket
// has; in host memory, for as long as the call takes.
struct SelectedPart {
  std::size_t tensor = 0;
  std::size_t first = 0;  // its first element in the tensor
  std::size_t size = 0;
  std::string_view rule;  // with parameters; "none": everything is sent
  double density = 1;     // asked for
  std::uint64_t budget = 0;
  // Ascending, counted from `first`; none where everything is sent.
  std::span<const std::uint32_t> indices;
  std::span<const float> values;
  // Where everything is to be seen: the gradient, and what was selected from.
  // They differ by what is kept from earlier steps, and are the same where
  // nothing is kept.
  std::span<const float> gradient;
  std::span<const float> input;
};

// Sees what is selected. Must change nothing.
class SelectionObserver {
 public:
  virtual ~SelectionObserver() = default;
  // Before a step, which counts from 0, and again for each of its buckets.
  virtual Look look(std::uint64_t step) const = 0;
  // On the selecting thread, before anything of the part is exchanged. What it
  // throws fails the step.
  virtual void selected(std::uint64_t step, const SelectedPart& part) = 0;
};

}  // namespace sluice
