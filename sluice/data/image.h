#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// Compressed images: JPEG and PNG, told apart by how they begin. EXIF, gamma
// and colour profiles are ignored, transparency is dropped.

namespace sluice {

// An image that cannot be read; says why, but not which one it is.
class BrokenImage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// In pixels.
struct Extent {
  std::int64_t width = 0;
  std::int64_t height = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

// A part of an image, in its pixels; (0, 0) is the corner of the first one.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// Pixels that were decoded: rows of red, green, blue and a byte that means
// nothing. Pixel (0, 0) is pixel (left, top) of the image made smaller by
// `scale`, which is at most 1.
struct Pixels {
  Extent extent;
  std::int64_t left = 0;
  std::int64_t top = 0;
  double scale = 1;
  std::vector<std::uint8_t> bytes;  // 4 * width * height of them, or more

  const std::uint8_t* row(std::int64_t y) const {
    return bytes.data() + static_cast<std::size_t>(4 * y * extent.width);
  }
  std::uint8_t* row(std::int64_t y) {
    return bytes.data() + static_cast<std::size_t>(4 * y * extent.width);
  }
};

// An image whose header has been read.
class ImageReader {
 public:
  virtual ~ImageReader() = default;

  virtual Extent extent() const = 0;
  // Decodes at least `part`, once. A format that can do so for less work makes
  // the image smaller on the way, but not by more than `shrink`. Throws
  // BrokenImage; an image that is cut short is broken even if `part` is there.
  virtual void read(const Box& part, double shrink, Pixels& out) = 0;
};

// What an image may have; more is rather a damaged or a hostile file than a
// photograph, and all of it may have to be decoded.
inline constexpr std::int64_t kMostPixels = 100'000'000;
inline constexpr std::size_t kMostImageBytes = std::size_t{256} << 20;

// For readers: throws BrokenImage if a header asks for too many pixels.
void check_extent(const Extent& extent);

// Reads the header. `bytes` must outlive the reader. Throws BrokenImage, and
// std::runtime_error for a format that this build does not read.
std::unique_ptr<ImageReader> open_image(std::span<const std::uint8_t> bytes);

}  // namespace sluice
