#pragma once

#include <vector>

#include "sluice/data/augment.h"
#include "sluice/data/dataset.h"

namespace sluice {

// Images that are all in memory, as bytes (channels x height x width each).
class MemoryDataset : public Dataset {
 public:
  std::size_t size() const final { return content_.labels.size(); }
  std::int64_t label(std::size_t index) const final {
    return content_.labels[index];
  }
  std::span<const std::uint8_t> image(std::size_t index) const;

  // What training does to its images; nothing in the test split.
  const Augmentation& augmentation() const { return content_.augmentation; }

  Rendered render(std::size_t index, std::optional<std::uint64_t> random,
                  std::span<float> out) const final;

 protected:
  struct Content {
    ImageInput input;
    std::vector<std::uint8_t> images;
    std::vector<std::int32_t> labels;
    std::vector<double> mean;  // per channel, of bytes / 255
    std::vector<double> deviation;
    Augmentation augmentation{};
  };

  // Throws std::runtime_error, beginning with "[`owner`]", if there are no
  // images, another number of labels, or a label that is no class.
  MemoryDataset(std::string_view owner, Content content);

 private:
  Content content_;
  Normalisation normalisation_;
};

}  // namespace sluice
