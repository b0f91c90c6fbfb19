#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Gradients for benchmarks: randn, laplace, t3, equal, zeros (99.95 %), ramp,
// or a .npy file. New values at every call; only their making is not timed.
class GradientSource {
 public:
  // Throws std::invalid_argument for an unknown name or an unreadable file. A
  // file sets its own size and dimensions.
  GradientSource(const std::string& name, std::size_t n);

  const std::vector<std::size_t>& dims() const { return dims_; }
  std::size_t size() const { return n_; }
  // The gradient of a step, times `scale`.
  void fill(std::span<float> out, std::uint64_t step, float scale) const;

  static const std::vector<std::string>& names();
  // Throws like the constructor, without making anything.
  static void check(const std::string& name);

 private:
  std::string name_;
  std::vector<std::size_t> dims_;
  std::size_t n_ = 0;
  std::vector<float> pool_;  // values that steps are put together from
};

}  // namespace sluice
