#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/registry.h"
#include "sluice/data/input.h"

namespace sluice {

enum class Split { kTrain, kTest };

// Which part of a data set, and where its files are; an empty folder means the
// usual place, if it has one.
struct DatasetPlace {
  Split split = Split::kTrain;
  std::string folder;
};

// What was made of a sample.
struct Rendered {
  std::int64_t label = 0;
  // Why another sample took its place; empty if none did.
  std::string problem{};
};

// Labelled images, wherever they are.
//
// Thread-safe once made.
class Dataset {
 public:
  static constexpr std::string_view kKind = "dataset";

  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const ImageInput& input() const { return input_; }
  virtual std::size_t size() const = 0;
  virtual std::int64_t label(std::size_t index) const = 0;

  // Writes image `index`, normalised, as floats (channels x height x width).
  // It is augmented if there are random bits, which alone decide how. Nothing
  // but the arguments and the data decides about the result.
  virtual Rendered render(std::size_t index,
                          std::optional<std::uint64_t> random,
                          std::span<float> out) const = 0;

  // A hash of what can be told of the samples without looking at them: other
  // data most likely have another one.
  virtual std::uint64_t fingerprint() const;

  // In the order of their labels; none: they have no names.
  virtual std::vector<std::string> class_names() const { return {}; }

  // Whether an image takes so long that threads of their own should make them.
  virtual bool is_slow() const { return false; }

 protected:
  explicit Dataset(const ImageInput& input) : input_(input) {}

 private:
  ImageInput input_;
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
