#include "image_support.h"

#include <cstddef>
#include <cstdio>

// After <cstdio>, which it needs.
#include <jpeglib.h>
#include <png.h>

#include <cmath>
#include <cstdlib>

namespace sluice::testing {

std::vector<int> smooth(std::int64_t x, std::int64_t y) {
  const auto wave = [](double t) {
    return static_cast<int>(128 + 100 * std::sin(t));
  };
  const auto u = static_cast<double>(x);
  const auto v = static_cast<double>(y);
  return {wave(u / 23 + v / 31), wave(u / 37 - v / 29), wave(v / 41 + 1)};
}

std::vector<int> rough(std::int64_t x, std::int64_t y) {
  const auto some = [&](std::int64_t a, std::int64_t b) {
    return static_cast<int>((x * a + y * b + x * y * 7) % 256);
  };
  return {some(97, 31), some(53, 151), some(199, 83)};
}

Paint flat(const std::vector<int>& colour) {
  return [colour](std::int64_t, std::int64_t) { return colour; };
}

Bytes jpeg(const Extent& extent, const Paint& paint, const JpegKind& kind) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors;  // exits: what the tests write is in order
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(extent.width);
  info.image_height = static_cast<JDIMENSION>(extent.height);
  info.input_components = kind.channels;
  info.in_color_space = kind.channels == 1   ? JCS_GRAYSCALE
                        : kind.channels == 3 ? JCS_RGB
                                             : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kind.quality, TRUE);
  if (kind.channels == 3) {
    info.comp_info[0].h_samp_factor = kind.across;
    info.comp_info[0].v_samp_factor = kind.down;
  }
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (!kind.exif.empty()) {
    jpeg_write_marker(&info, JPEG_APP0 + 1, kind.exif.data(),
                      static_cast<unsigned>(kind.exif.size()));
  }
  for (std::int64_t y = 0; y < extent.height; ++y) {
    Bytes row;
    for (std::int64_t x = 0; x < extent.width; ++x) {
      for (const int c : paint(x, y)) row.push_back(std::uint8_t(c));
    }
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(buffer, buffer + size);
  std::free(buffer);
  return bytes;
}

namespace {

// One row, packed as PNG has it.
Bytes packed_row(std::int64_t y, const Extent& extent, const Paint& paint,
                 int depth) {
  Bytes row;
  int bits = 0;
  for (std::int64_t x = 0; x < extent.width; ++x) {
    for (const int c : paint(x, y)) {
      if (depth == 16) row.push_back(std::uint8_t(c >> 8));
      if (depth >= 8) {
        row.push_back(std::uint8_t(c));
        continue;
      }
      if (bits == 0) row.push_back(0);
      bits += depth;
      row.back() = std::uint8_t(row.back() | c << (8 - bits));
      bits %= 8;
    }
  }
  return row;
}

}  // namespace

Bytes png(const Extent& extent, const Paint& paint, const PngKind& kind) {
  png_structp file =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(file);
  Bytes bytes;
  const auto write = [](png_structp png, png_bytep data, std::size_t n) {
    auto& to = *static_cast<Bytes*>(png_get_io_ptr(png));
    to.insert(to.end(), data, data + n);
  };
  png_set_write_fn(file, &bytes, write, [](png_structp) {});
  png_set_IHDR(file, info, static_cast<png_uint_32>(extent.width),
               static_cast<png_uint_32>(extent.height), kind.depth, kind.colour,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> colours;
  for (const auto& c : kind.palette) {
    colours.push_back({png_byte(c[0]), png_byte(c[1]), png_byte(c[2])});
  }
  if (!colours.empty()) {
    png_set_PLTE(file, info, colours.data(), static_cast<int>(colours.size()));
  }
  if (!kind.transparency.empty()) {
    png_set_tRNS(file, info, kind.transparency.data(),
                 static_cast<int>(kind.transparency.size()), nullptr);
  }
  png_write_info(file, info);
  std::vector<Bytes> rows;
  for (std::int64_t y = 0; y < extent.height; ++y) {
    rows.push_back(packed_row(y, extent, paint, kind.depth));
  }
  std::vector<png_bytep> pointers;
  for (Bytes& row : rows) pointers.push_back(row.data());
  png_write_image(file, pointers.data());
  png_write_end(file, info);
  png_destroy_write_struct(&file, &info);
  return bytes;
}

Pixels read_all(const Bytes& bytes, double shrink) {
  const auto reader = open_image(bytes);
  const auto [width, height] = reader->extent();
  Pixels pixels;
  reader->read({0, 0, double(width), double(height)}, shrink, pixels);
  return pixels;
}

std::vector<int> pixel(const Pixels& pixels, std::int64_t x, std::int64_t y) {
  const std::uint8_t* p = pixels.row(y) + 4 * x;
  return {p[0], p[1], p[2]};
}

}  // namespace sluice::testing
