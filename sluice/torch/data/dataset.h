#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/registry.h"
#include "sluice/torch/data/augment.h"
#include "sluice/torch/input.h"

namespace sluice {

enum class Split { kTrain, kTest };

// Which part of a data set, and where its files are; an empty folder means the
// usual place, if it has one.
struct DatasetPlace {
  Split split = Split::kTrain;
  std::string folder;
};

// Labelled images, all in memory as bytes (channels x height x width each).
//
// Thread-safe once made.
class Dataset {
 public:
  static constexpr std::string_view kKind = "dataset";

  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const Input& input() const { return content_.input; }
  std::size_t size() const { return content_.labels.size(); }
  std::int64_t label(std::size_t index) const { return content_.labels[index]; }
  std::span<const std::uint8_t> image(std::size_t index) const;

  // What training does to its images; nothing in the test split.
  const Augmentation& augmentation() const { return content_.augmentation; }

  // Writes image `index`, augmented and normalised, as floats. `random` alone
  // decides the augmentation; see draw_change.
  void render_augmented(std::size_t index, std::uint64_t random,
                        std::span<float> out) const;
  // The same without augmentation.
  void render_plain(std::size_t index, std::span<float> out) const;

 protected:
  struct Content {
    Input input;
    std::vector<std::uint8_t> images;
    std::vector<std::uint8_t> labels;
    std::vector<double> mean;  // per channel, of bytes / 255
    std::vector<double> deviation;
    Augmentation augmentation{};
  };

  // Throws std::runtime_error, beginning with "[`owner`]", if there are no
  // images, another number of labels, or a label that is no class.
  Dataset(std::string_view owner, Content content);

 private:
  Content content_;
  Normalisation normalisation_;
};

using DatasetEntry = RegistryEntry<Dataset, const DatasetPlace&>;

// Every data set there is.
std::span<const DatasetEntry> datasets();

// From "name", "name:key=value,..." or a JSON object; see parse_spec. Throws
// std::runtime_error, saying which files it wants and where to get them, if
// they are not there or not what they should be.
std::unique_ptr<Dataset> make_dataset(std::string_view text,
                                      const DatasetPlace& place = {});

}  // namespace sluice
