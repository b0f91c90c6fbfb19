#include "sluice/data/idx.h"

#include <algorithm>
#include <array>

#include "sluice/core/ensure.h"
#include "sluice/data/read_file.h"

namespace sluice {
namespace {

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 |
         std::uint32_t{p[2]} << 8 | std::uint32_t{p[3]};
}

// No data set of this format is larger.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 31;

// Two zero bytes, 8 for unsigned bytes, the number of dimensions, each of them
// as a big-endian u32, then the elements.
class IdxFile {
 public:
  // Reads the header.
  IdxFile(std::string_view owner, const std::string& path, std::size_t rank)
      : owner_(owner), path_(path), file_(owner, path) {
    const std::size_t header = 4 + 4 * rank;
    const auto bytes = file_.read(header);
    ensure(bytes.size() == header, "[", owner, "] '", path,
           "' must have a header of ", header, " bytes, has ", bytes.size(),
           " bytes; it was cut short");
    const std::uint32_t magic = 0x800U + static_cast<std::uint32_t>(rank);
    const std::uint32_t found = big_endian(bytes.data());
    ensure(found == magic, "[", owner, "] '", path, "' must begin with ", magic,
           " (IDX, bytes, ", rank, " dimensions), begins with ", found,
           "; it is another file, or damaged");
    // Three factors below 2^32 could overflow 64 bits.
    unsigned __int128 size = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      dims_.push_back(big_endian(bytes.data() + 4 + 4 * i));
      size *= dims_.back();
    }
    ensure(size <= kMostBytes, "[", owner, "] '", path,
           "' must announce at most ", kMostBytes,
           " bytes in its header, announces more; it is damaged");
    size_ = static_cast<std::size_t>(size);
  }

  const std::vector<std::size_t>& dims() const { return dims_; }

  // Reads the elements. Never inflates more than the header announces: a few
  // bytes of gzip could fill all memory.
  std::vector<std::uint8_t> read() {
    auto bytes = file_.read(size_ + 1);
    ensure(bytes.size() == size_, "[", owner_, "] '", path_,
           "' must hold as many bytes as its header says (", size_, "), holds ",
           bytes.size() > size_ ? "more" : std::to_string(bytes.size()),
           "; it was cut short or is damaged");
    return bytes;
  }

 private:
  std::string owner_;
  std::string path_;
  InflatedFile file_;
  std::vector<std::size_t> dims_;
  std::size_t size_ = 0;
};

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
  IdxFile images(kind.owner, paths[0], 3);
  IdxFile labels(kind.owner, paths[1], 1);
  const auto& dims = images.dims();
  ensure(dims[1] == 28 && dims[2] == 28, "[", kind.owner, "] '", paths[0],
         "' must hold images of 28 x 28, holds ", dims[1], " x ", dims[2],
         "; it is another data set");
  ensure(dims[0] == labels.dims()[0], "[", kind.owner, "] '", paths[0],
         "' and '", paths[1], "' must hold as many, hold ", dims[0],
         " images and ", labels.dims()[0], " labels");
  Content content;
  content.images = images.read();
  const auto classes = labels.read();
  content.labels.assign(classes.begin(), classes.end());
  if (params.limit > 0) {
    const auto keep = std::min(dims[0], static_cast<std::size_t>(params.limit));
    content.images.resize(keep * 28 * 28);
    content.labels.resize(keep);
  }
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
