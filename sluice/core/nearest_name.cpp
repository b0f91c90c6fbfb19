#include "sluice/core/nearest_name.h"

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

// Insertions, deletions and replacements that make one of the other.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t same = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, same});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::span<const std::string_view> names,
                              std::string_view name) {
  const auto closer = [&](std::string_view a, std::string_view b) {
    return edits(a, name) < edits(b, name);
  };
  return *std::min_element(names.begin(), names.end(), closer);
}

}  // namespace sluice
