#include "sluice/run/remap.h"

namespace sluice {

std::vector<Inherited> inherit(std::size_t old_ranks, std::size_t rank,
                               std::size_t ranks) {
  const double scale =
      static_cast<double>(ranks) / static_cast<double>(old_ranks);
  std::vector<Inherited> parts;
  if (ranks <= old_ranks) {
    for (std::size_t old = rank; old < old_ranks; old += ranks) {
      parts.push_back({old, scale});
    }
    return parts;
  }
  const std::size_t old = rank % old_ranks;
  const std::size_t heirs = (ranks - old + old_ranks - 1) / old_ranks;
  parts.push_back({old, scale / static_cast<double>(heirs)});
  return parts;
}

}  // namespace sluice
