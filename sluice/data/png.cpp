#include "sluice/data/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

namespace sluice {
namespace {

class PngReader final : public ImageReader {
 public:
  explicit PngReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &jump_out,
                                  [](png_structp, png_const_charp) {});
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    try {
      if (info_ == nullptr) throw BrokenImage("libpng has no memory for it");
      guard([&] {
        png_set_read_fn(png_, this, &take);
        // A few bytes of text or profile can inflate to all memory there is.
        png_set_chunk_malloc_max(png_, png_alloc_size_t{4} << 20);
        png_set_chunk_cache_max(png_, 8);
        png_read_info(png_, info_);
      });
      check_extent(extent());
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  ~PngReader() override { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Extent extent() const override {
    return {png_get_image_width(png_, info_),
            png_get_image_height(png_, info_)};
  }

  void read(const Box&, double, Pixels& out) override {
    out.extent = extent();
    out.left = 0;
    out.top = 0;
    out.scale = 1;
    guard([&] {
      png_set_scale_16(png_);
      png_set_expand(png_);
      png_set_strip_alpha(png_);
      png_set_gray_to_rgb(png_);
      png_set_filler(png_, 0, PNG_FILLER_AFTER);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    const auto [width, height] = out.extent;
    if (png_get_rowbytes(png_, info_) != static_cast<std::size_t>(4 * width)) {
      throw BrokenImage("libpng does not know how to make it RGB");
    }
    out.bytes.resize(std::max(out.bytes.size(),
                              static_cast<std::size_t>(4 * width * height)));
    std::vector<png_bytep> rows;
    for (std::int64_t y = 0; y < height; ++y) rows.push_back(out.row(y));
    guard([&] {
      png_read_image(png_, rows.data());
      png_read_end(png_, nullptr);
    });
  }

 private:
  // Calls libpng, whose errors come back as a BrokenImage. They jump over
  // `call` and what it called, so none of these may hold anything with a
  // destructor.
  template <class F>
  void guard(F&& call) {
    if (setjmp(place_) != 0) throw BrokenImage(message_.data());
    call();
  }

  [[noreturn]] static void jump_out(png_structp png, png_const_charp why) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(self.message_.data(), self.message_.size(), "%s", why);
    std::longjmp(self.place_, 1);
  }

  static void take(png_structp png, png_bytep out, std::size_t size) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > self.rest_.size()) png_error(png, "it was cut short");
    std::memcpy(out, self.rest_.data(), size);
    self.rest_ = self.rest_.subspan(size);
  }

  std::span<const std::uint8_t> rest_;  // not read yet
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf place_;
  std::array<char, 200> message_;
};

}  // namespace

bool reads_png() { return true; }

std::unique_ptr<ImageReader> open_png(std::span<const std::uint8_t> bytes) {
  return std::make_unique<PngReader>(bytes);
}

}  // namespace sluice
