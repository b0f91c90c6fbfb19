#include "sluice/cli/bench/selections.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sluice/core/half.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

constexpr std::uint64_t kAll = 1ULL << 32;  // in place of a rank
constexpr std::uint64_t kColumns = 1024;
constexpr std::uint64_t kHotColumns = 32;
constexpr std::uint64_t kClusters = 16;

float rounded(float v, ValueForm form) {
  if (form == ValueForm::kBf16) return from_bf16(to_bf16(v));
  if (form == ValueForm::kFp16) return from_fp16(to_fp16(v));
  return v;
}

}  // namespace

float normal_from(std::uint64_t random) {
  // The sum of four numbers of 16 bits.
  std::int64_t sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<std::int64_t>((random >> (16 * i)) & 0xffffU);
  }
  const double centred = static_cast<double>(sum) - 2 * 65535.0 + 0.5;
  return static_cast<float>(centred / (65536 * std::sqrt(1.0 / 3)));
}

const std::vector<std::string>& Selections::supports() {
  static const std::vector<std::string> kNames = {"uniform", "skewed",
                                                  "clustered", "hot-columns"};
  return kNames;
}

Selections::Selections(const SelectionOptions& options)
    : options_(options), bits_((options.n + 63) / 64) {}

// Where a random number falls, by the kind of support.
std::uint64_t Selections::place(std::uint64_t random) const {
  const std::uint64_t n = options_.n;
  const double u = static_cast<double>(random >> 11) * 0x1p-53;
  if (options_.support == "skewed") {
    return std::min(
        n - 1, static_cast<std::uint64_t>(static_cast<double>(n) * u * u * u));
  }
  if (options_.support == "clustered") {
    const std::uint64_t centre =
        bounded(mix64(options_.seed, random % kClusters), n);
    const auto width = static_cast<double>(n) / (8 * kClusters);
    const double off = width * normal_from(mix64(random));
    return (centre + n + static_cast<std::uint64_t>(std::abs(off))) % n;
  }
  if (options_.support == "hot-columns" && random % 16 != 0) {
    const std::uint64_t row = bounded(random, n / kColumns + 1);
    const std::uint64_t column =
        mix64(options_.seed, mix64(random) % kHotColumns) % kColumns;
    return (row * kColumns + column) % n;
  }
  return bounded(random, n);
}

void Selections::mark_until(std::uint64_t count, std::uint64_t key,
                            std::uint64_t step) {
  const auto set = [&](std::uint64_t j) {
    std::uint64_t& word = bits_[j / 64];
    const std::uint64_t bit = 1ULL << (j % 64);
    marked_ += (word & bit) == 0 ? 1 : 0;
    word |= bit;
  };
  // Crowded places run full; what does not fit goes anywhere.
  const std::uint64_t most = 8 * count;
  for (std::uint64_t i = 0; marked_ < count && i < most; ++i) {
    set(place(mix64(key, i, (step + i) / 4)));
  }
  for (std::uint64_t j = 0; marked_ < count; ++j) set(j);
}

void Selections::mark(std::size_t rank, std::uint64_t step) {
  std::fill(bits_.begin(), bits_.end(), 0);
  marked_ = 0;
  const auto common = static_cast<std::uint64_t>(
      std::llround(options_.overlap * static_cast<double>(options_.k)));
  mark_until(common, mix64(options_.seed, kAll), step);
  mark_until(options_.k, mix64(options_.seed, rank), step);
}

void Selections::draw(std::size_t rank, std::uint64_t step, HostList& out) {
  mark(rank, step);
  out.clear();
  const std::uint64_t key = mix64(options_.seed, rank, step);
  for (std::size_t w = 0; w < bits_.size(); ++w) {
    for (std::uint64_t word = bits_[w]; word != 0; word &= word - 1) {
      const auto j = static_cast<std::uint32_t>(
          64 * w + static_cast<std::size_t>(std::countr_zero(word)));
      out.add(j, rounded(normal_from(mix64(key, j)), options_.values));
    }
  }
}

std::uint64_t Selections::union_size(std::size_t ranks, std::uint64_t step) {
  Bits any(bits_.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    mark(rank, step);
    for (std::size_t w = 0; w < any.size(); ++w) any[w] |= bits_[w];
  }
  std::uint64_t count = 0;
  for (const std::uint64_t word : any) {
    count += static_cast<std::uint64_t>(std::popcount(word));
  }
  return count;
}

}  // namespace sluice
