#include "sluice/data/cifar.h"

#include <algorithm>
#include <filesystem>

#include "sluice/core/ensure.h"
#include "sluice/data/read_file.h"

namespace sluice {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;

}  // namespace

ParamList CifarDataset::list(Params& p) {
  return {
      {"train", &p.train, "images that the training files must hold", 1, 1e6},
      {"test", &p.test, "images that the test file must hold", 1, 1e6},
      {"limit", &p.limit, "the first so many images; 0 for all", 0, 1e9},
  };
}

CifarDataset::CifarDataset(const Kind& kind, const Params& params,
                           const DatasetPlace& place)
    : MemoryDataset(kind.owner, load(kind, params, place)) {}

MemoryDataset::Content CifarDataset::load(const Kind& kind,
                                          const Params& params,
                                          const DatasetPlace& place) {
  const bool training = place.split == Split::kTrain;
  const auto& names = training ? kind.train : kind.test;
  const auto total =
      static_cast<std::size_t>(training ? params.train : params.test);
  const std::size_t record = kind.label_bytes + kPixels;
  const std::size_t expected = total / names.size() * record;

  std::filesystem::path folder = place.folder;
  std::error_code ignored;
  if (std::filesystem::is_directory(folder / kind.folder, ignored)) {
    folder /= kind.folder;
  }
  Content content;
  content.input = {3, 32, 32, kind.classes};
  content.mean = kind.mean;
  content.deviation = kind.deviation;
  if (training) content.augmentation = kind.augmentation;
  const std::size_t keep =
      params.limit > 0 ? static_cast<std::size_t>(params.limit) : total;
  for (const std::string& path :
       find_files(kind.owner, folder.string(), names, kind.source)) {
    // One byte more than there must be tells that it is another file.
    const auto bytes = InflatedFile(kind.owner, path).read(expected + 1);
    ensure(bytes.size() == expected, "[", kind.owner, "] '", path,
           "' must have ", expected, " bytes, has ",
           bytes.size() < expected ? std::to_string(bytes.size()) : "more",
           bytes.size() < expected ? "; it was cut short"
                                   : "; it is another file");
    for (auto at = bytes.begin();
         at != bytes.end() && content.labels.size() < keep;) {
      at += static_cast<std::ptrdiff_t>(kind.label_bytes);
      content.labels.push_back(*(at - 1));
      content.images.insert(content.images.end(), at, at + kPixels);
      at += kPixels;
    }
  }
  return content;
}

Cifar10::Cifar10(const Params& params, const DatasetPlace& place)
    : CifarDataset(
          {"dataset 'cifar10'",
           "cifar-10-batches-bin",
           "get https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz, "
           "unpack it and give the folder as --data-dir",
           {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
            "data_batch_4.bin", "data_batch_5.bin"},
           {"test_batch.bin"},
           1,
           10,
           {0.491, 0.482, 0.447},
           {0.247, 0.243, 0.262},
           {4, true, 0}},
          params, place) {}

Cifar100::Cifar100(const Params& params, const DatasetPlace& place)
    : CifarDataset(
          {"dataset 'cifar100'",
           "cifar-100-binary",
           "get https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz, "
           "unpack it and give the folder as --data-dir",
           {"train.bin"},
           {"test.bin"},
           2,
           100,
           {0.507, 0.487, 0.441},
           {0.267, 0.256, 0.276},
           {4, true, 15}},
          params, place) {}

}  // namespace sluice
