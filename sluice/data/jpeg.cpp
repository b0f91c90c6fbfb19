#include "sluice/data/jpeg.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>

// After <cstdio>, which they need.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "sluice/core/error.h"

namespace sluice {
namespace {

// What libjpeg says of its errors.
struct Errors : jpeg_error_mgr {
  std::jmp_buf place;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void jump_out(j_common_ptr codec) {
  auto& errors = static_cast<Errors&>(*codec->err);
  errors.format_message(codec, errors.message.data());
  std::longjmp(errors.place, 1);
}

// libjpeg goes on with grey after most kinds of damage. Not all that it warns
// of is damage: cameras leave bytes behind, and odd version numbers.
void judge_warning(j_common_ptr codec, int level) {
  if (level >= 0) return;
  switch (codec->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
      jump_out(codec);
    default:
      return;
  }
}

void prepare(Errors& errors) {
  jpeg_std_error(&errors);
  errors.error_exit = &jump_out;
  errors.emit_message = &judge_warning;
  errors.output_message = [](j_common_ptr) {};
}

// Calls libjpeg, whose errors come back as a BrokenImage. They jump over
// `call` and what it called, so none of these may hold anything with a
// destructor.
template <class F>
void guarded(Errors& errors, F&& call) {
  if (setjmp(errors.place) != 0) throw BrokenImage(errors.message.data());
  call();
}

class Decoder {
 public:
  explicit Decoder(std::span<const std::uint8_t> bytes) {
    prepare(errors_);
    info.err = &errors_;
    try {
      guard([&] {
        jpeg_create_decompress(&info);
        // A progressive image is kept whole; this holds the largest.
        info.mem->max_memory_to_use = 1L << 30;
        jpeg_mem_src(&info, bytes.data(), bytes.size());
        jpeg_read_header(&info, TRUE);
      });
    } catch (...) {
      jpeg_destroy_decompress(&info);
      throw;
    }
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  template <class F>
  void guard(F&& call) {
    guarded(errors_, call);
  }

  jpeg_decompress_struct info = {};

 private:
  Errors errors_;
};

// Rows [y, end) to `first` and what follows it.
void read_rows(jpeg_decompress_struct& info, JDIMENSION end, JSAMPROW first,
               std::size_t stride) {
  // libjpeg makes up to this many at once, and copies if it may not.
  std::array<JSAMPROW, 8> rows;
  while (info.output_scanline < end) {
    const JDIMENSION most =
        std::min<JDIMENSION>(rows.size(), end - info.output_scanline);
    for (JDIMENSION i = 0; i < most; ++i) rows[i] = first + i * stride;
    first += jpeg_read_scanlines(&info, rows.data(), most) * stride;
  }
}

// In place. Adobe writes the amounts of ink inverted, and everybody who writes
// CMYK says that he is Adobe.
void cmyk_to_rgb(Pixels& pixels, bool inverted) {
  const auto count =
      static_cast<std::size_t>(pixels.extent.width * pixels.extent.height);
  const unsigned flip = inverted ? 0 : 255;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t* p = pixels.bytes.data() + 4 * i;
    const unsigned light = p[3] ^ flip;
    for (int c = 0; c < 3; ++c) {
      p[c] = static_cast<std::uint8_t>(((p[c] ^ flip) * light + 127) / 255);
    }
  }
}

class JpegReader final : public ImageReader {
 public:
  explicit JpegReader(std::span<const std::uint8_t> bytes) : decoder_(bytes) {
    check_extent(extent());
    auto last = bytes.end();
    while (last != bytes.begin() && last[-1] == 0) --last;
    ends_ = last - bytes.begin() >= 2 && last[-2] == 0xff && last[-1] == 0xd9;
  }

  Extent extent() const override {
    return {decoder_.info.image_width, decoder_.info.image_height};
  }

  void read(const Box& part, double shrink, Pixels& out) override {
    jpeg_decompress_struct& info = decoder_.info;
    const bool ink =
        info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    info.out_color_space = ink ? JCS_CMYK : JCS_EXT_RGBX;
    // For sizes between these libjpeg-turbo has no vector instructions: the
    // middle of 500 x 375 took 0.81 ms at 6/8, 0.55 at 8/8 (2.1.5, EPYC,
    // 2026-11-15).
    info.scale_num = shrink >= 8 ? 1 : shrink >= 4 ? 2 : shrink >= 2 ? 4 : 8;
    info.scale_denom = 8;
    out.scale = info.scale_num / 8.0;
    decoder_.guard([&] { jpeg_start_decompress(&info); });
    choose_columns(part, out);
    choose_rows(part, out);
    const std::size_t stride = std::size_t{4} * info.output_width;
    const auto rows = static_cast<std::size_t>(out.extent.height);
    // One more, for a row that nobody wants.
    out.bytes.resize(std::max(out.bytes.size(), stride * (rows + 1)));
    std::uint8_t* const last = out.bytes.data() + stride * rows;
    decoder_.guard([&] {
      const auto top = static_cast<JDIMENSION>(out.top);
      if (top > 0) jpeg_skip_scanlines(&info, top);
      read_rows(info, top + static_cast<JDIMENSION>(rows), out.bytes.data(),
                stride);
      if (!ends_) read_rest(last);
    });
    if (ink) cmyk_to_rgb(out, info.saw_Adobe_marker != 0);
  }

 private:
  // Without its last mark an image may have been cut: then all of it is looked
  // at, so that it is broken whatever part is wanted.
  void read_rest(JSAMPROW row) {
    jpeg_decompress_struct& info = decoder_.info;
    const JDIMENSION left = info.output_height - info.output_scanline;
    // Skipping up to the end would skip the bytes unseen.
    if (left > 1) jpeg_skip_scanlines(&info, left - 1);
    if (left > 0) read_rows(info, info.output_height, row, 0);
    jpeg_finish_decompress(&info);
  }

  // Decodes whole blocks around them.
  void choose_columns(const Box& part, Pixels& out) {
    jpeg_decompress_struct& info = decoder_.info;
    const auto all = static_cast<std::int64_t>(info.output_width);
    // Colours of a pixel are mixed from its neighbours too.
    constexpr std::int64_t kMargin = 2;
    const auto begin = static_cast<std::int64_t>(part.x * out.scale) - kMargin;
    const auto end = static_cast<std::int64_t>(
                         std::ceil((part.x + part.width) * out.scale)) +
                     kMargin;
    auto x = static_cast<JDIMENSION>(std::max<std::int64_t>(begin, 0));
    JDIMENSION width = static_cast<JDIMENSION>(std::min(end, all)) - x;
    if (static_cast<std::int64_t>(width) < all) {
      decoder_.guard([&] { jpeg_crop_scanline(&info, &x, &width); });
    }
    out.left = x;
    out.extent.width = info.output_width;
  }

  void choose_rows(const Box& part, Pixels& out) {
    const auto all = static_cast<std::int64_t>(decoder_.info.output_height);
    const auto end = static_cast<std::int64_t>(
        std::ceil((part.y + part.height) * out.scale));
    out.top = static_cast<std::int64_t>(part.y * out.scale);
    out.extent.height = std::min(end, all) - out.top;
  }

  Decoder decoder_;
  bool ends_ = false;  // with the mark that a JPEG ends with
};

}  // namespace

bool reads_jpeg() { return true; }

std::unique_ptr<ImageReader> open_jpeg(std::span<const std::uint8_t> bytes) {
  return std::make_unique<JpegReader>(bytes);
}

Extent decode_whole_jpeg(std::span<const std::uint8_t> bytes,
                         std::vector<std::uint8_t>& rgb) {
  Decoder decoder(bytes);
  jpeg_decompress_struct& info = decoder.info;
  info.out_color_space = JCS_RGB;
  decoder.guard([&] { jpeg_start_decompress(&info); });
  const std::size_t stride = std::size_t{3} * info.output_width;
  rgb.resize(std::max(rgb.size(), stride * info.output_height));
  decoder.guard([&] {
    read_rows(info, info.output_height, rgb.data(), stride);
    jpeg_finish_decompress(&info);
  });
  return {info.output_width, info.output_height};
}

std::vector<std::uint8_t> encode_jpeg(const Extent& extent,
                                      std::span<const std::uint8_t> rgb,
                                      int quality) {
  require(
      rgb.size() == static_cast<std::size_t>(3 * extent.width * extent.height),
      "[jpeg] expected 3 bytes for each of ", extent.width, " x ",
      extent.height, " pixels, got ", rgb.size());
  Errors errors;
  prepare(errors);
  jpeg_compress_struct info = {};
  info.err = &errors;
  unsigned char* buffer = nullptr;
  unsigned long size = 0;  // as libjpeg has it
  const auto compress = [&] {
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &buffer, &size);
    info.image_width = static_cast<JDIMENSION>(extent.width);
    info.image_height = static_cast<JDIMENSION>(extent.height);
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, quality, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      // libjpeg's older signature takes what it only reads as not constant.
      auto* row = const_cast<std::uint8_t*>(
          rgb.data() + std::size_t{3} * info.image_width * info.next_scanline);
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
  };
  std::vector<std::uint8_t> bytes;
  std::string problem;
  try {
    guarded(errors, compress);
    bytes.assign(buffer, buffer + size);
  } catch (const BrokenImage& e) {
    problem = e.what();
  }
  jpeg_destroy_compress(&info);
  std::free(buffer);
  require(problem.empty(), "[jpeg] cannot write ", extent.width, " x ",
          extent.height, " pixels: ", problem);
  return bytes;
}

}  // namespace sluice
