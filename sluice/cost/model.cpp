#include "sluice/cost/model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sluice/core/params.h"

namespace sluice {
namespace {

constexpr double kHeaders = 96;  // of a frame and of a coded list

double log2_choose(double n, double k) {
  if (k <= 0 || k >= n) return 0;
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) /
         std::log(2.0);
}

}  // namespace

double coded_bytes(double count, double n, double value_bytes) {
  if (count <= 0 || n <= 0) return kHeaders;
  count = std::min(count, n);
  // floor(log2(n / count)), without a logarithm: planners ask a million times.
  const int low = std::ilogb(n / count);
  const double elias_fano = count * (low + 1) + std::ldexp(n, -low);
  const double coded = count * value_bytes + std::min(elias_fano, n) / 8;
  return kHeaders + std::min(coded, value_bytes * n);
}

double independent_union(double n, double k, double ranks) {
  if (n <= 0) return 0;
  return n * (1 - std::pow(1 - std::min(1.0, k / n), ranks));
}

double partial_union(const Workload& x, double p) {
  if (x.k <= 0 || x.ranks <= 1) return x.k;
  const double growth = std::log(std::max(1.0, x.u / x.k)) / std::log(x.ranks);
  return std::min(x.u, x.k * std::pow(p, growth));
}

double bound_bytes(const Workload& x, double value_bytes) {
  if (x.ranks <= 1) return 0;
  return value_bytes * (x.k + x.u * (1 - 2 / x.ranks)) +
         log2_choose(x.n - x.k, x.u - x.k) / 8;
}

const CostRow& find_cost(std::span<const CostRow> rows, std::string_view name) {
  std::vector<std::string_view> known;
  for (const CostRow& row : rows) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  fail_unknown("cost", name, known);
}

}  // namespace sluice
