#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/backend/cpu/bucket_passes.h"
#include "sluice/core/half.h"

namespace sluice::cpu {
namespace {

double mean_of(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// Four bins over six standard deviations around the mean (Templar), each sent
// as the mean of what fell into it.
void quantize_two_bit(std::span<float> values) {
  constexpr int kBins = 4;
  constexpr double kRange = 6;
  const double mean = mean_of(values);
  double squares = 0;
  for (const float v : values) {
    squares +=
        (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
  }
  const auto n = static_cast<double>(values.size());
  double step = kRange / kBins * std::sqrt(squares / (n - 1));
  if (!(step > 0) || !std::isfinite(step)) step = 1;
  const auto bin_of = [&](float v) {
    const double q =
        std::nearbyint((static_cast<double>(v) - mean) / step + kBins / 2);
    return static_cast<std::size_t>(std::fmin(std::fmax(q, 0), kBins - 1));
  };
  std::array<double, kBins> sum{};
  std::array<double, kBins> count{};
  for (const float v : values) {
    sum[bin_of(v)] += static_cast<double>(v);
    count[bin_of(v)] += 1;
  }
  std::array<float, kBins> table{};
  for (std::size_t b = 0; b < kBins; ++b) {
    if (count[b] > 0) table[b] = static_cast<float>(sum[b] / count[b]);
  }
  for (float& v : values) v = table[bin_of(v)];
}

}  // namespace

void quantize_values(ValueForm form, std::span<float> values) {
  switch (form) {
    case ValueForm::kFp32:
      return;
    case ValueForm::kBf16:
      for (float& v : values) v = from_bf16(to_bf16(v));
      return;
    case ValueForm::kFp16:
      for (float& v : values) v = from_fp16(to_fp16(v));
      return;
    case ValueForm::kOne: {
      const auto mean = static_cast<float>(mean_of(values));
      for (float& v : values) v = mean;
      return;
    }
    case ValueForm::kTwoBit:
      quantize_two_bit(values);
      return;
  }
}

void run_quantize(const QuantizePass& pass, std::vector<float>& rounded) {
  for (std::size_t s = 0; s < pass.tasks.size(); ++s) {
    if (pass.tasks[s].values == ValueForm::kFp32) continue;
    const std::size_t first = pass.starts[s];
    const std::size_t count = pass.starts[s + 1] - first;
    float* values = pass.values + first;
    rounded.assign(values, values + count);
    quantize_values(pass.tasks[s].values, rounded);
    float* memory = pass.tasks[s].memory;
    if (memory != nullptr) {
      const std::uint32_t* indices = pass.indices + first;
      const std::uint32_t base = pass.tasks[s].base;
      for (std::size_t i = 0; i < count; ++i) {
        memory[indices[i] - base] += values[i] - rounded[i];
      }
    }
    std::copy(rounded.begin(), rounded.end(), values);
  }
}

}  // namespace sluice::cpu
