#include "sluice/torch/data/dataset.h"

#include <algorithm>

#include "sluice/torch/ensure.h"

namespace sluice {

Dataset::Dataset(std::string_view owner, Content content)
    : content_(std::move(content)),
      normalisation_(content_.mean, content_.deviation) {
  const auto pixels = static_cast<std::size_t>(input().pixels());
  const std::size_t images = content_.images.size() / pixels;
  ensure(images > 0 && content_.images.size() % pixels == 0, "[", owner,
         "] there must be images of ", pixels, " bytes each, got ",
         content_.images.size(), " bytes");
  ensure(images == size(), "[", owner,
         "] there must be a label per image, got ", size(), " labels of ",
         images, " images");
  const auto largest =
      *std::max_element(content_.labels.begin(), content_.labels.end());
  ensure(largest < input().classes, "[", owner, "] labels must be below ",
         input().classes, ", got ", int{largest}, "; it is another data set");
}

std::span<const std::uint8_t> Dataset::image(std::size_t index) const {
  const auto pixels = static_cast<std::size_t>(input().pixels());
  return std::span(content_.images).subspan(index * pixels, pixels);
}

void Dataset::render_augmented(std::size_t index, std::uint64_t random,
                               std::span<float> out) const {
  render(input(), image(index), draw_change(augmentation(), random),
         normalisation_, out);
}

void Dataset::render_plain(std::size_t index, std::span<float> out) const {
  render(input(), image(index), {}, normalisation_, out);
}

}  // namespace sluice
