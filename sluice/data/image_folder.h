#pragma once

#include <vector>

#include "sluice/core/hash.h"
#include "sluice/data/crop.h"
#include "sluice/data/dataset.h"

namespace sluice {

// The images below a folder, which has a folder for each class. Files and
// classes are in the order of their names, byte by byte.
class ImageTree {
 public:
  // Names that end in .jpg, .jpeg or .png in any case and do not begin with a
  // dot, in folders of the class to any depth. Throws std::runtime_error,
  // beginning with "[`owner`]", if there are no classes, or one has no images;
  // `per_class` above 0 keeps the first so many of each.
  ImageTree(std::string_view owner, const std::string& folder,
            std::size_t per_class);

  const std::vector<std::string>& classes() const { return classes_; }
  std::size_t size() const { return begins_.size(); }
  std::size_t label(std::size_t index) const;
  std::string path(std::size_t index) const;
  // A hash of the names of all files, in their order.
  std::uint64_t fingerprint() const;
  // Whether any file is said to be one.
  bool has_jpeg() const { return has_jpeg_; }
  bool has_png() const { return has_png_; }

 private:
  void add_class(std::string_view owner, const std::string& name,
                 std::size_t per_class);

  std::string folder_;
  std::vector<std::string> classes_;
  std::vector<std::size_t> class_begins_;  // first image of each
  // A million short strings would take several times the memory.
  std::string names_;  // each ends with a zero byte
  std::vector<std::size_t> begins_;
  bool has_jpeg_ = false;
  bool has_png_ = false;
};

// Images in folders, as ImageNet is laid out: train/CLASS/* to train with,
// val/CLASS/* (or validation, or test) to evaluate with. They stay on disk and
// are decoded when they are wanted.
//
// Training takes random crops, the test split central ones; see crop.h.
//
// An image that cannot be read stops the run, or (broken=skip) the next one
// that can be, in the order of the data set, takes its place, with its own
// label and the same random bits. So all ranks and all runs replace alike.
class ImageFolder final : public Dataset {
 public:
  static constexpr std::string_view kName = "imagefolder";
  static constexpr std::string_view kSummary =
      "your own images, as ImageNet is laid out: train/CLASS/*.jpg and "
      "val/CLASS/*.jpg; JPEG and PNG, 3 x 224 x 224";
  struct Params {
    std::int64_t size = 224;
    std::int64_t resize = 0;
    double least_area = 0.08;
    double most_ratio = 4.0 / 3;
    bool flip = true;
    bool scaled = true;
    std::int64_t per_class = 0;
    std::string broken = "stop";
  };
  static ParamList list(Params& p);

  ImageFolder(const Params& params, const DatasetPlace& place);

  std::size_t size() const override { return tree_.size(); }
  std::int64_t label(std::size_t index) const override {
    return static_cast<std::int64_t>(tree_.label(index));
  }
  Rendered render(std::size_t index, std::optional<std::uint64_t> random,
                  std::span<float> out) const override;
  std::uint64_t fingerprint() const override {
    return mix64(Dataset::fingerprint(), tree_.fingerprint());
  }
  bool is_slow() const override { return true; }

  const std::vector<std::string>& classes() const { return tree_.classes(); }
  std::vector<std::string> class_names() const override { return classes(); }
  std::string path(std::size_t index) const { return tree_.path(index); }

 private:
  ImageFolder(const Params& params, ImageTree tree);

  void draw(std::size_t index, std::optional<std::uint64_t> random,
            std::span<float> out) const;

  Params params_;
  bool training_;
  ImageTree tree_;
};

}  // namespace sluice
