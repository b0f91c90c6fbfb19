#include "sluice/data/idx.h"

#include <algorithm>
#include <array>

#include "sluice/core/ensure.h"
#include "sluice/data/read_file.h"

namespace sluice {
namespace {

struct Idx {
  std::vector<std::size_t> dims;
  std::vector<std::uint8_t> data;
};

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 |
         std::uint32_t{p[2]} << 8 | std::uint32_t{p[3]};
}

// Two zero bytes, 8 for unsigned bytes, the number of dimensions, each of them
// as a big-endian u32, then the elements.
Idx read_idx(std::string_view owner, const std::string& path,
             std::size_t rank) {
  std::vector<std::uint8_t> bytes = read_file(owner, path);
  const std::size_t header = 4 + 4 * rank;
  ensure(bytes.size() >= header, "[", owner, "] '", path,
         "' must have a header of ", header, " bytes, has ", bytes.size(),
         " bytes; it was cut short");
  const std::uint32_t magic = 0x800U + static_cast<std::uint32_t>(rank);
  const std::uint32_t found = big_endian(bytes.data());
  ensure(found == magic, "[", owner, "] '", path, "' must begin with ", magic,
         " (IDX, bytes, ", rank, " dimensions), begins with ", found,
         "; it is another file, or damaged");
  Idx idx;
  // Four factors below 2^32 could overflow, three could not by much: the size
  // of the file bounds what is accepted.
  unsigned __int128 size = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    idx.dims.push_back(big_endian(bytes.data() + 4 + 4 * i));
    size *= idx.dims.back();
  }
  ensure(size == bytes.size() - header, "[", owner, "] '", path,
         "' must hold as many bytes as its header says (",
         static_cast<std::uint64_t>(size), "), holds ", bytes.size() - header,
         "; it was cut short or is damaged");
  bytes.erase(bytes.begin(),
              bytes.begin() + static_cast<std::ptrdiff_t>(header));
  idx.data = std::move(bytes);
  return idx;
}

std::vector<std::string> file_names(Split split) {
  const std::string stem = split == Split::kTrain ? "train" : "t10k";
  std::vector<std::string> names;
  for (const char* what : {"-images-idx3-ubyte", "-labels-idx1-ubyte"}) {
    names.push_back(concat(stem, what, "|", stem, what, ".gz"));
  }
  return names;
}

}  // namespace

ParamList IdxDataset::list(Params& p) {
  return {{"limit", &p.limit, "the first so many images; 0 for all", 0, 1e9}};
}

IdxDataset::IdxDataset(const Kind& kind, const Params& params,
                       const DatasetPlace& place)
    : MemoryDataset(kind.owner, load(kind, params, place)) {}

MemoryDataset::Content IdxDataset::load(const Kind& kind, const Params& params,
                                        const DatasetPlace& place) {
  const std::string folder =
      place.folder.empty() ? std::string(kind.folder) : place.folder;
  const auto paths =
      find_files(kind.owner, folder, file_names(place.split), kind.source);
  Idx images = read_idx(kind.owner, paths[0], 3);
  Idx labels = read_idx(kind.owner, paths[1], 1);
  Content content;
  ensure(images.dims[1] == 28 && images.dims[2] == 28, "[", kind.owner, "] '",
         paths[0], "' must hold images of 28 x 28, holds ", images.dims[1],
         " x ", images.dims[2], "; it is another data set");
  ensure(images.dims[0] == labels.dims[0], "[", kind.owner, "] '", paths[0],
         "' and '", paths[1], "' must hold as many, hold ", images.dims[0],
         " images and ", labels.dims[0], " labels");
  if (params.limit > 0) {
    const auto keep =
        std::min(images.dims[0], static_cast<std::size_t>(params.limit));
    images.data.resize(keep * 28 * 28);
    labels.data.resize(keep);
  }
  content.images = std::move(images.data);
  content.labels.assign(labels.data.begin(), labels.data.end());
  content.mean = {kind.mean};
  content.deviation = {kind.deviation};
  return content;
}

Mnist::Mnist(const Params& params, const DatasetPlace& place)
    : IdxDataset({"dataset 'mnist'", "",
                  "get it from https://ossci-datasets.s3.amazonaws.com/mnist/ "
                  "and give the folder as --data-dir",
                  0.1307, 0.3081},
                 params, place) {}

FashionMnist::FashionMnist(const Params& params, const DatasetPlace& place)
    : IdxDataset(
          {"dataset 'fashion-mnist'", "/usr/share/datasets/fashion-mnist",
           "install the Debian package dataset-fashion-mnist, or get "
           "it from https://github.com/zalandoresearch/fashion-mnist "
           "and give the folder as --data-dir",
           0.2860, 0.3530},
          params, place) {}

std::vector<std::string> FashionMnist::class_names() const {
  return {"t-shirt", "trousers", "pullover", "dress", "coat",
          "sandal",  "shirt",    "sneaker",  "bag",   "ankle boot"};
}

}  // namespace sluice
