#include <array>

#include "sluice/core/hash.h"
#include "sluice/data/cifar.h"
#include "sluice/data/dataset.h"
#include "sluice/data/idx.h"
#include "sluice/data/image_folder.h"
#include "sluice/data/synthetic.h"

namespace sluice {
namespace {

constexpr std::array kDatasets = {
    registry_entry<FashionMnist, Dataset, const DatasetPlace&>(),
    registry_entry<Mnist, Dataset, const DatasetPlace&>(),
    registry_entry<Cifar10, Dataset, const DatasetPlace&>(),
    registry_entry<Cifar100, Dataset, const DatasetPlace&>(),
    registry_entry<ImageFolder, Dataset, const DatasetPlace&>(),
    registry_entry<Synthetic, Dataset, const DatasetPlace&>(),
};

}  // namespace

std::span<const DatasetEntry> datasets() { return kDatasets; }

std::uint64_t Dataset::fingerprint() const {
  std::uint64_t hash = size();
  for (std::size_t i = 0; i < size(); ++i) {
    hash = mix64(hash, static_cast<std::uint64_t>(label(i)));
  }
  return hash;
}

std::unique_ptr<Dataset> make_dataset(std::string_view text,
                                      const DatasetPlace& place) {
  return make_from(datasets(), Dataset::kKind, text, place);
}

}  // namespace sluice
