#include "sluice/data/image_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <new>
#include <optional>

#include "sluice/core/ensure.h"
#include "sluice/core/fd.h"
#include "sluice/data/jpeg.h"
#include "sluice/data/png.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOwner = "dataset 'imagefolder'";
constexpr std::string_view kLayout =
    "; expected are train/CLASS/*.jpg and val/CLASS/*.jpg (or .jpeg, .png) in "
    "--data-dir";

// Of ImageNet; what published models expect.
constexpr std::array<double, 3> kMean = {0.485, 0.456, 0.406};
constexpr std::array<double, 3> kDeviation = {0.229, 0.224, 0.225};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The first few, for a message.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kFew = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kFew); ++i) {
    text += concat(i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kFew)
    text += concat(" and ", names.size() - kFew, " more");
  return text;
}

std::vector<std::string> folders_of(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    if (entry.is_directory(ignored)) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string find_split(const std::string& root, Split split) {
  ensure(!root.empty(), "[", kOwner, "] a folder must be given", kLayout);
  ensure(is_folder(root), "[", kOwner, "] '", root, "' must be a folder",
         kLayout);
  const std::vector<std::string> names =
      split == Split::kTrain
          ? std::vector<std::string>{"train"}
          : std::vector<std::string>{"val", "validation", "test"};
  for (const std::string& name : names) {
    const fs::path path = fs::path(root) / name;
    if (is_folder(path)) return path.string();
  }
  const auto found = folders_of(root);
  ensure(
      false, "[", kOwner, "] '", root, "' must hold a folder ", names[0],
      found.empty() ? ", holds no folders" : concat(", holds ", some_of(found)),
      kLayout);
  return {};
}

void compare_classes(const std::vector<std::string>& train,
                     const std::vector<std::string>& test,
                     const std::string& folder) {
  const auto only = [](const auto& a, const auto& b) {
    std::vector<std::string> names;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(names));
    return names.empty() ? std::string("nothing") : some_of(names);
  };
  ensure(train == test, "[", kOwner, "] '", folder,
         "' must have the classes of train; only in train: ", only(train, test),
         "; only here: ", only(test, train));
}

ImageTree read_tree(const ImageFolder::Params& params,
                    const DatasetPlace& place) {
  const std::string folder = find_split(place.folder, place.split);
  ImageTree tree(kOwner, folder, static_cast<std::size_t>(params.per_class));
  if (place.split == Split::kTest) {
    auto train = folders_of(find_split(place.folder, Split::kTrain));
    std::erase_if(train, [](const auto& name) { return name[0] == '.'; });
    compare_classes(train, tree.classes(), folder);
  }
  const auto need = [&](bool has, bool reads, std::string_view format,
                        std::string_view package) {
    ensure(!has || reads, "[", kOwner, "] '", folder, "' holds ", format,
           " files, which this build does not read; install ", package,
           ", configure and build again");
  };
  need(tree.has_jpeg(), reads_jpeg(), "JPEG", "libjpeg62-turbo-dev");
  need(tree.has_png(), reads_png(), "PNG", "libpng-dev");
  return tree;
}

// What a thread keeps from image to image, so that nothing is allocated once
// it has seen the largest one.
struct Workspace {
  std::vector<std::uint8_t> file;
  Pixels pixels;
  std::optional<Resampler> resampler;
  std::int64_t size = 0;
};

// Gives back, after an image, what ordinary ones do not need.
class Tidy {
 public:
  explicit Tidy(Workspace& work) : work_(work) {}
  ~Tidy() {
    constexpr std::size_t kMuch = std::size_t{64} << 20;
    if (work_.file.size() > kMuch) work_.file = {};
    if (work_.pixels.bytes.size() > kMuch) work_.pixels.bytes = {};
  }
  Tidy(const Tidy&) = delete;
  Tidy& operator=(const Tidy&) = delete;

 private:
  Workspace& work_;
};

// A file that cannot be read is a broken image, too. Not blocking: a pipe opens
// at once, and is then seen to be one.
std::span<const std::uint8_t> read_into(const std::string& path,
                                        std::vector<std::uint8_t>& bytes) {
  const auto check = [](bool ok) {
    if (!ok) throw BrokenImage(std::strerror(errno));
  };
  const Fd file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  check(file.get() >= 0 && fstat(file.get(), &status) == 0);
  if (!S_ISREG(status.st_mode)) throw BrokenImage("it is no file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > kMostImageBytes) {
    throw BrokenImage(concat("it has ", size, " bytes, at most ",
                             kMostImageBytes, " may be"));
  }
  if (bytes.size() < size) bytes.resize(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = read(file.get(), bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    check(n >= 0);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return std::span(bytes).first(done);
}

}  // namespace

ParamList ImageFolder::list(Params& p) {
  return {
      {"size", &p.size, "height and width of a sample", 8, 4096},
      {"resize", &p.resize,
       "what the shorter side becomes before the middle is cut out, to "
       "evaluate; 0: size * 256 / 224",
       0, 8192},
      {"least_area", &p.least_area,
       "share of an image that a training sample shows, at least", 1e-4, 1},
      {"most_ratio", &p.most_ratio, "of its sides, either way", 1, 100},
      {"flip", &p.flip, "swap left and right of half of them"},
      {"scaled", &p.scaled, "decode big JPEGs at 1/2, 1/4 or 1/8 if enough"},
      {"per_class", &p.per_class, "the first so many images; 0 for all", 0,
       1e9},
      {.name = "broken",
       .value = &p.broken,
       .doc = "what an image that cannot be read comes to",
       .choices = {"stop", "skip"}},
  };
}

ImageFolder::ImageFolder(const Params& params, const DatasetPlace& place)
    : ImageFolder(params, read_tree(params, place)) {
  training_ = place.split == Split::kTrain;
}

ImageFolder::ImageFolder(const Params& params, ImageTree tree)
    : Dataset({3, params.size, params.size,
               static_cast<std::int64_t>(tree.classes().size())}),
      params_(params),
      training_(true),
      tree_(std::move(tree)) {
  if (params_.resize == 0) params_.resize = params_.size * 256 / 224;
  require(params_.resize >= params_.size, "[", kOwner,
          "] parameter 'resize' must be at least 'size' (", params_.size,
          "), got ", params_.resize);
}

Rendered ImageFolder::render(std::size_t index,
                             std::optional<std::uint64_t> random,
                             std::span<float> out) const {
  // So many in a row are no accident.
  constexpr std::size_t kMost = 100;
  std::string problem;
  const auto pass_over = [&](std::size_t at, const char* why) {
    ensure(params_.broken == "skip", "[", kOwner, "] '", path(at),
           "' must be a whole JPEG or PNG image, but: ", why,
           "; replace it, or let another take its place: --dataset ", kName,
           ":broken=skip");
    if (problem.empty()) problem = concat("'", path(at), "': ", why);
  };
  for (std::size_t i = 0; i < std::min(kMost, size()); ++i) {
    const std::size_t at = (index + i) % size();
    try {
      draw(at, random, out);
      return {label(at), std::move(problem)};
    } catch (const BrokenImage& e) {
      pass_over(at, e.what());
    } catch (const std::bad_alloc&) {
      pass_over(at, "there is no memory for it");
    }
  }
  throw std::runtime_error(concat("[", kOwner, "] of ", kMost,
                                  " images in a row one must be readable, but "
                                  "none was from ",
                                  problem));
}

void ImageFolder::draw(std::size_t index, std::optional<std::uint64_t> random,
                       std::span<float> out) const {
  thread_local Workspace work;
  if (work.size != params_.size) {
    work.resampler.emplace(params_.size, kMean, kDeviation);
    work.size = params_.size;
  }
  const Tidy tidy(work);
  const auto image = open_image(read_into(path(index), work.file));
  const CropRange range = {params_.least_area, 1, params_.most_ratio,
                           params_.flip};
  const Crop crop =
      training_ && random
          ? random_crop(image->extent(), range, *random)
          : central_crop(image->extent(), params_.size, params_.resize);
  const double shrink = std::min(crop.box.width, crop.box.height) /
                        static_cast<double>(params_.size);
  image->read(crop.reach, params_.scaled ? shrink : 1, work.pixels);
  work.resampler->resample(work.pixels, crop, out);
}

}  // namespace sluice
