#include "sluice/data/memory_dataset.h"

#include <algorithm>

#include "sluice/core/ensure.h"

namespace sluice {

MemoryDataset::MemoryDataset(std::string_view owner, Content content)
    : Dataset(content.input),
      content_(std::move(content)),
      normalisation_(content_.mean, content_.deviation) {
  const auto pixels = static_cast<std::size_t>(input().pixels());
  const std::size_t images = content_.images.size() / pixels;
  ensure(images > 0 && content_.images.size() % pixels == 0, "[", owner,
         "] there must be images of ", pixels, " bytes each, got ",
         content_.images.size(), " bytes");
  ensure(images == content_.labels.size(), "[", owner,
         "] there must be a label per image, got ", content_.labels.size(),
         " labels of ", images, " images");
  const auto largest =
      *std::max_element(content_.labels.begin(), content_.labels.end());
  ensure(largest < input().classes, "[", owner, "] labels must be below ",
         input().classes, ", got ", largest, "; it is another data set");
}

std::span<const std::uint8_t> MemoryDataset::image(std::size_t index) const {
  const auto pixels = static_cast<std::size_t>(input().pixels());
  return std::span(content_.images).subspan(index * pixels, pixels);
}

Rendered MemoryDataset::render(std::size_t index,
                               std::optional<std::uint64_t> random,
                               std::span<float> out) const {
  const Change change =
      random ? draw_change(augmentation(), *random) : Change{};
  sluice::render(input(), image(index), change, normalisation_, out);
  return {label(index)};
}

}  // namespace sluice
