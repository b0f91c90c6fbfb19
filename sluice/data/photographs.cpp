#include "sluice/data/photographs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"
#include "sluice/data/jpeg.h"

namespace sluice {
namespace {

// In [-1, 1).
float signed_unit(std::uint64_t random) {
  return static_cast<float>(random >> 40) * 0x1p-23F - 1;
}

// Adds smooth noise with a random value every `cell` pixels.
void add_octave(const Extent& extent, std::int64_t cell, float strength,
                std::uint64_t seed, std::vector<float>& plane) {
  const std::int64_t across = extent.width / cell + 2;
  const std::int64_t down = extent.height / cell + 2;
  std::vector<float> lattice(static_cast<std::size_t>(across * down));
  for (std::size_t i = 0; i < lattice.size(); ++i) {
    lattice[i] = strength * signed_unit(mix64(seed, i));
  }
  const float step = 1 / static_cast<float>(cell);
  for (std::int64_t y = 0; y < extent.height; ++y) {
    const float* above = &lattice[static_cast<std::size_t>(y / cell * across)];
    const float* below = above + across;
    const float v = static_cast<float>(y % cell) * step;
    float* row = &plane[static_cast<std::size_t>(y * extent.width)];
    for (std::int64_t x = 0; x < extent.width; ++x) {
      const std::int64_t at = x / cell;
      const float u = static_cast<float>(x % cell) * step;
      const float top = above[at] + u * (above[at + 1] - above[at]);
      const float bottom = below[at] + u * (below[at + 1] - below[at]);
      row[x] += top + v * (bottom - top);
    }
  }
}

// A rectangle that is lighter or darker than the rest.
void add_edge(const Extent& extent, std::uint64_t seed,
              std::vector<float>& plane) {
  const auto pick = [&](std::uint64_t what, std::int64_t n) {
    return static_cast<std::int64_t>(
        bounded(mix64(seed, what), static_cast<std::uint64_t>(n)));
  };
  const auto [x0, x1] =
      std::minmax({pick(1, extent.width), pick(2, extent.width)});
  const auto [y0, y1] =
      std::minmax({pick(3, extent.height), pick(4, extent.height)});
  const float strength = 40 * signed_unit(mix64(seed, 5));
  for (std::int64_t y = y0; y < y1; ++y) {
    for (std::int64_t x = x0; x < x1; ++x) {
      plane[static_cast<std::size_t>(y * extent.width + x)] += strength;
    }
  }
}

}  // namespace

std::vector<std::uint8_t> paint_photograph(const Extent& extent,
                                           std::uint64_t seed) {
  const auto pixels = static_cast<std::size_t>(extent.width * extent.height);
  // One plane of light, which has most of the detail, and three of colour.
  std::vector<float> light(pixels, 128);
  for (std::int64_t cell = 1; cell <= 128; cell *= 2) {
    const float strength = 4.5F * std::pow(static_cast<float>(cell), 0.6F);
    add_octave(extent, cell, strength, mix64(seed, 1, std::uint64_t(cell)),
               light);
  }
  for (std::uint64_t i = 0; i < 8; ++i)
    add_edge(extent, mix64(seed, 2, i), light);
  std::vector<std::uint8_t> rgb(3 * pixels);
  for (std::uint64_t c = 0; c < 3; ++c) {
    std::vector<float> plane = light;
    for (std::int64_t cell = 8; cell <= 128; cell *= 4) {
      add_octave(extent, cell, 2 * std::pow(static_cast<float>(cell), 0.6F),
                 mix64(seed, 3 + c, std::uint64_t(cell)), plane);
    }
    for (std::size_t i = 0; i < pixels; ++i) {
      rgb[3 * i + c] =
          static_cast<std::uint8_t>(std::clamp(plane[i], 0.0F, 255.0F));
    }
  }
  return rgb;
}

void write_photographs(const std::string& folder, std::size_t count,
                       const Extent& extent, int quality) {
  namespace fs = std::filesystem;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes =
        encode_jpeg(extent, paint_photograph(extent, i), quality);
    const char* name = i % 2 == 0 ? "a" : "b";
    const fs::path path =
        fs::path(folder) / "train" / name / concat(1'000'000 + i, ".jpg");
    fs::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    ensure(file.flush().good(), "[photographs] '", path.string(),
           "' must be writable");
  }
  fs::create_directory_symlink("train", fs::path(folder) / "val");
}

}  // namespace sluice
