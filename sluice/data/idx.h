#pragma once

#include "sluice/data/memory_dataset.h"

namespace sluice {

// Images of one channel in the IDX format: train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte,
// as they are or as .gz.
class IdxDataset : public MemoryDataset {
 public:
  struct Params {
    std::int64_t limit = 0;
  };
  static ParamList list(Params& p);

 protected:
  // What tells one such data set from another.
  struct Kind {
    std::string_view owner;   // "dataset 'mnist'"
    std::string_view folder;  // the usual one, or none
    std::string_view source;  // where to get it
    double mean;
    double deviation;
  };
  IdxDataset(const Kind& kind, const Params& params, const DatasetPlace& place);

 private:
  static Content load(const Kind& kind, const Params& params,
                      const DatasetPlace& place);
};

// Handwritten digits (LeCun, Cortes, Burges 1998). No augmentation.
class Mnist final : public IdxDataset {
 public:
  static constexpr std::string_view kName = "mnist";
  static constexpr std::string_view kSummary =
      "handwritten digits, 28 x 28, 10 classes, IDX files";
  Mnist(const Params& params, const DatasetPlace& place);
};

// Photographs of clothes (Xiao, Rasul, Vollgraf 2017). No augmentation.
class FashionMnist final : public IdxDataset {
 public:
  static constexpr std::string_view kName = "fashion-mnist";
  static constexpr std::string_view kSummary =
      "photographs of clothes, 28 x 28, 10 classes, IDX files; a Debian "
      "package";
  FashionMnist(const Params& params, const DatasetPlace& place);
  std::vector<std::string> class_names() const override;
};

}  // namespace sluice
