#pragma once

#include "sluice/data/memory_dataset.h"

namespace sluice {

// The binary versions of CIFAR (Krizhevsky 2009): records of one label byte
// (CIFAR-100: coarse, then fine) and 3072 bytes of red, green, blue.
//
// The folder is the one that the archive unpacks to, or the one above it.
class CifarDataset : public MemoryDataset {
 public:
  struct Params {
    std::int64_t train = 50000;
    std::int64_t test = 10000;
    std::int64_t limit = 0;
  };
  static ParamList list(Params& p);

 protected:
  struct Kind {
    std::string_view owner;
    std::string_view folder;  // of the archive
    std::string_view source;
    std::vector<std::string> train;  // files, in equal parts
    std::vector<std::string> test;
    std::size_t label_bytes;  // the last of them counts
    std::int64_t classes;
    std::vector<double> mean;
    std::vector<double> deviation;
    Augmentation augmentation;
  };
  CifarDataset(const Kind& kind, const Params& params,
               const DatasetPlace& place);

 private:
  static Content load(const Kind& kind, const Params& params,
                      const DatasetPlace& place);
};

// Training crops with a padding of 4 and flips.
class Cifar10 final : public CifarDataset {
 public:
  static constexpr std::string_view kName = "cifar10";
  static constexpr std::string_view kSummary =
      "photographs, 3 x 32 x 32, 10 classes, binary version";
  Cifar10(const Params& params, const DatasetPlace& place);
};

// As Cifar10, and turns by up to 15 degrees. Labels are the fine ones.
class Cifar100 final : public CifarDataset {
 public:
  static constexpr std::string_view kName = "cifar100";
  static constexpr std::string_view kSummary =
      "photographs, 3 x 32 x 32, 100 classes, binary version";
  Cifar100(const Params& params, const DatasetPlace& place);
};

}  // namespace sluice
