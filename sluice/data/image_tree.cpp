#include <algorithm>
#include <filesystem>

#include "sluice/core/checksum.h"
#include "sluice/core/ensure.h"
#include "sluice/data/image_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool ends_with(std::string_view name, std::string_view ending) {
  const auto equal = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
  };
  return name.size() > ending.size() &&
         std::equal(ending.begin(), ending.end(),
                    name.end() - static_cast<std::ptrdiff_t>(ending.size()),
                    [&](char b, char a) { return equal(a, b); });
}

bool is_jpeg(std::string_view name) {
  return ends_with(name, ".jpg") || ends_with(name, ".jpeg");
}

bool is_hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}

// Of folders, or of images to any depth.
std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !is_hidden(entry.path())) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> images_in(const fs::path& folder) {
  std::vector<std::string> names;
  // As text: relative() would look at the disk for each of them.
  const std::size_t skip = folder.native().size() + 1;
  for (fs::recursive_directory_iterator it(folder), end; it != end; ++it) {
    if (is_hidden(it->path())) {
      it.disable_recursion_pending();
      continue;
    }
    const std::string& path = it->path().native();
    if ((is_jpeg(path) || ends_with(path, ".png")) && it->is_regular_file()) {
      names.push_back(path.substr(skip));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool holds_images(const fs::path& folder) {
  return std::any_of(fs::directory_iterator(folder), {},
                     [](const fs::directory_entry& entry) {
                       const std::string name = entry.path().string();
                       return is_jpeg(name) || ends_with(name, ".png");
                     });
}

}  // namespace

ImageTree::ImageTree(std::string_view owner, const std::string& folder,
                     std::size_t per_class)
    : folder_(folder) {
  try {
    classes_ = folders_in(folder);
    ensure(!classes_.empty(), "[", owner, "] '", folder,
           "' must hold a folder for each class, ",
           holds_images(folder) ? "holds images; sort them into folders that "
                                  "are named after their classes"
                                : "holds none");
    for (const std::string& name : classes_) add_class(owner, name, per_class);
  } catch (const fs::filesystem_error& e) {
    ensure(false, "[", owner, "] '", folder,
           "' must be a folder that can be read: ", e.what());
  }
}

void ImageTree::add_class(std::string_view owner, const std::string& name,
                          std::size_t per_class) {
  class_begins_.push_back(begins_.size());
  auto images = images_in(fs::path(folder_) / name);
  ensure(!images.empty(), "[", owner, "] '", folder_, "/", name,
         "' must hold images (.jpg, .jpeg or .png), holds none; remove it if "
         "it is no class");
  if (per_class > 0) images.resize(std::min(images.size(), per_class));
  for (const std::string& image : images) {
    begins_.push_back(names_.size());
    names_.append(image).push_back('\0');
    (is_jpeg(image) ? has_jpeg_ : has_png_) = true;
  }
}

std::size_t ImageTree::label(std::size_t index) const {
  const auto after =
      std::upper_bound(class_begins_.begin(), class_begins_.end(), index);
  return static_cast<std::size_t>(after - class_begins_.begin()) - 1;
}

std::uint64_t ImageTree::fingerprint() const {
  Checksum sum;
  for (const std::string& name : classes_) {
    sum.add(std::as_bytes(std::span(name)));
  }
  sum.add(std::as_bytes(std::span(names_)));
  return sum.fold();
}

std::string ImageTree::path(std::size_t index) const {
  return concat(folder_, "/", classes_[label(index)], "/",
                names_.data() + begins_[index]);
}

}  // namespace sluice
