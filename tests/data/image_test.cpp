#include "sluice/data/image.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "image_support.h"
#include "sluice/core/hash.h"
#include "sluice/data/jpeg.h"

namespace sluice::testing {
namespace {

// The largest difference of any byte of `pixels` from the painted one.
int distance(const Pixels& pixels, const Paint& paint) {
  int most = 0;
  for (std::int64_t y = 0; y < pixels.extent.height; ++y) {
    for (std::int64_t x = 0; x < pixels.extent.width; ++x) {
      const auto is = pixel(pixels, x, y);
      const auto wanted = paint(pixels.left + x, pixels.top + y);
      for (std::size_t c = 0; c < 3; ++c) {
        most = std::max(most, std::abs(is[c] - wanted[c]));
      }
    }
  }
  return most;
}

std::string complaint(const Bytes& bytes) {
  return message_of<BrokenImage>([&] { read_all(bytes); });
}

TEST(Jpeg, IsReadAsItWasPainted) {
  for (const int sampling : {1, 2}) {
    for (const bool progressive : {false, true}) {
      const JpegKind kind = {.quality = 100,
                             .across = sampling,
                             .down = sampling,
                             .progressive = progressive};
      const Pixels pixels = read_all(jpeg({101, 67}, smooth, kind));
      EXPECT_EQ(pixels.extent, (Extent{101, 67}));
      EXPECT_EQ(pixels.scale, 1);
      EXPECT_LE(distance(pixels, smooth), 6) << sampling << progressive;
    }
  }
}

TEST(Jpeg, OfGreyBecomesRgb) {
  const auto paint = [](std::int64_t x, std::int64_t y) {
    return std::vector<int>{int(2 * x + y)};
  };
  const Pixels pixels =
      read_all(jpeg({40, 30}, paint, {.channels = 1, .quality = 100}));
  EXPECT_LE(distance(pixels,
                     [&](std::int64_t x, std::int64_t y) {
                       return std::vector<int>(3, paint(x, y)[0]);
                     }),
            2);
}

TEST(Jpeg, OfInksBecomesRgb) {
  // Inverted, as everybody who says that he is Adobe writes them, and libjpeg
  // says so for CMYK: 255 is no ink.
  const Bytes bytes = jpeg({32, 16}, flat({255, 102, 51, 204}),
                           {.channels = 4, .quality = 100});
  const auto is = pixel(read_all(bytes), 7, 9);
  EXPECT_NEAR(is[0], 204, 2);
  EXPECT_NEAR(is[1], 102 * 204 / 255, 2);
  EXPECT_NEAR(is[2], 51 * 204 / 255, 2);
}

// Whatever part is wanted, its pixels are those of the whole image.
TEST(Jpeg, PartsAreThoseOfTheWhole) {
  std::uint64_t random = 1;
  const auto draw = [&](std::int64_t n) {
    return static_cast<std::int64_t>(
        bounded(mix64(++random), static_cast<std::uint64_t>(n)));
  };
  const JpegKind kinds[] = {{.across = 1, .down = 1},
                            {.across = 2, .down = 1},
                            {.across = 2, .down = 2},
                            {.across = 2, .down = 2, .progressive = true},
                            {.channels = 1}};
  for (const JpegKind& kind : kinds) {
    const auto paint = [&](std::int64_t x, std::int64_t y) {
      auto colour = rough(x, y);
      colour.resize(static_cast<std::size_t>(kind.channels));
      return colour;
    };
    const Bytes bytes = jpeg({173, 118}, paint, kind);
    for (const double shrink : {1.0, 2.5, 8.0}) {
      const Pixels whole = read_all(bytes, shrink);
      for (int i = 0; i < 40; ++i) {
        const std::int64_t x = draw(173);
        const std::int64_t y = draw(118);
        const Box part = {double(x), double(y), double(1 + draw(173 - x)),
                          double(1 + draw(118 - y))};
        Pixels pixels;
        open_image(bytes)->read(part, shrink, pixels);
        ASSERT_LE(double(pixels.left), part.x * whole.scale);
        ASSERT_GE(double(pixels.left + pixels.extent.width),
                  std::min((part.x + part.width) * whole.scale,
                           double(whole.extent.width)));
        const auto begin = static_cast<std::int64_t>(part.x * whole.scale);
        const auto end = std::min(
            whole.extent.width,
            static_cast<std::int64_t>((part.x + part.width) * whole.scale) + 1);
        for (std::int64_t row = 0; row < pixels.extent.height; ++row) {
          for (std::int64_t column = begin; column < end; ++column) {
            ASSERT_EQ(pixel(pixels, column - pixels.left, row),
                      pixel(whole, column, pixels.top + row))
                << "column " << column << " row " << row << " scale "
                << whole.scale << " of " << part.x << " " << part.y << " "
                << part.width << " " << part.height;
          }
        }
      }
    }
  }
}

TEST(Jpeg, IsMadeSmallerNoMoreThanAllowed) {
  const Bytes bytes = jpeg({320, 160}, smooth, {.quality = 100});
  for (const auto& [shrink, scale] : {std::pair{1.99, 1.0},
                                      {2.0, 0.5},
                                      {3.9, 0.5},
                                      {4.0, 0.25},
                                      {8.0, 0.125},
                                      {80.0, 0.125}}) {
    const Pixels pixels = read_all(bytes, shrink);
    EXPECT_EQ(pixels.scale, scale);
    EXPECT_EQ(pixels.extent.width, std::int64_t(320 * scale));
    const auto middle = [&](std::int64_t x, std::int64_t y) {
      return smooth(std::int64_t((double(x) + 0.5) / scale),
                    std::int64_t((double(y) + 0.5) / scale));
    };
    EXPECT_LE(distance(pixels, middle), 12) << shrink;
  }
}

TEST(Jpeg, WholeAndPlainAreTheSame) {
  const Bytes bytes = jpeg({75, 50}, rough);
  const Pixels pixels = read_all(bytes);
  Bytes plain;
  EXPECT_EQ(decode_whole_jpeg(bytes, plain), (Extent{75, 50}));
  for (std::int64_t y = 0; y < 50; ++y) {
    for (std::int64_t x = 0; x < 75; ++x) {
      const auto* p = plain.data() + 3 * (75 * y + x);
      ASSERT_EQ(pixel(pixels, x, y), (std::vector<int>{p[0], p[1], p[2]}));
    }
  }
}

TEST(Jpeg, EncodesWhatItDecodes) {
  Bytes rgb;
  for (std::int64_t y = 0; y < 40; ++y) {
    for (std::int64_t x = 0; x < 60; ++x) {
      for (const int c : smooth(x, y)) rgb.push_back(std::uint8_t(c));
    }
  }
  EXPECT_LE(distance(read_all(encode_jpeg({60, 40}, rgb, 100)), smooth), 6);
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              encode_jpeg({60, 41}, rgb, 90);
            }),
            "[jpeg] expected 3 bytes for each of 60 x 41 pixels, got 7200");
}

TEST(Jpeg, ExifIsIgnored) {
  // Orientation 6: a camera that was held upright.
  const Bytes exif = {'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0,
                      0,   0,   8,   0,   1, 1, 18,  0,   3, 0,  0,
                      0,   1,   0,   6,   0, 0, 0,   0,   0, 0};
  const Pixels plain = read_all(jpeg({64, 32}, smooth));
  const Pixels turned = read_all(jpeg({64, 32}, smooth, {.exif = exif}));
  EXPECT_EQ(turned.extent, (Extent{64, 32}));
  EXPECT_EQ(turned.bytes, plain.bytes);
}

TEST(Jpeg, CutShortIsBrokenWhateverPartIsWanted) {
  for (const bool progressive : {false, true}) {
    const Bytes bytes = jpeg({200, 150}, rough, {.progressive = progressive});
    for (const std::size_t size :
         {bytes.size() / 2, bytes.size() * 9 / 10, bytes.size() - 1}) {
      const Bytes cut(bytes.begin(), bytes.begin() + std::ptrdiff_t(size));
      EXPECT_NE(complaint(cut), "");
      const auto reader = open_image(cut);
      Pixels pixels;
      EXPECT_CONTAINS(message_of<BrokenImage>([&] {
                        reader->read({0, 0, 30, 8}, 1, pixels);
                      }),
                      "remature end");
    }
  }
  const Bytes bytes = jpeg({200, 150}, rough);
  EXPECT_NE(complaint({bytes.begin(), bytes.begin() + 100}), "");
}

TEST(Jpeg, BytesAfterItsEndAreIgnored) {
  Bytes bytes = jpeg({64, 48}, smooth, {.quality = 100});
  bytes.insert(bytes.end(), 100, 0);
  EXPECT_LE(distance(read_all(bytes), smooth), 6);
  for (const char c : {'t', 'a', 'i', 'l'}) bytes.push_back(std::uint8_t(c));
  Pixels pixels;
  open_image(bytes)->read({0, 0, 64, 5}, 1, pixels);
  EXPECT_LE(distance(pixels, smooth), 6);
}

TEST(Jpeg, ThatClaimsTooMuchIsBroken) {
  Bytes bytes = jpeg({64, 48}, smooth);
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i) {
    if (bytes[i] != 0xff || bytes[i + 1] != 0xc0) continue;
    bytes[i + 5] = bytes[i + 7] = 0xf0;
    break;
  }
  EXPECT_CONTAINS(complaint(bytes),
                  "it says that it has 61504 x 61488 pixels, at most 100000000 "
                  "may be");
}

TEST(Images, DamagedAnywhereAreReadOrBroken) {
  const Bytes images[] = {jpeg({50, 40}, rough),
                          jpeg({50, 40}, rough, {.progressive = true}),
                          png({50, 40}, rough)};
  int broken = 0;
  for (const Bytes& image : images) {
    for (std::uint64_t i = 0; i < 300; ++i) {
      Bytes damaged = image;
      for (std::uint64_t j = 0; j < 3; ++j) {
        damaged[bounded(mix64(i, j), damaged.size())] =
            std::uint8_t(mix64(i, j, 1));
      }
      try {
        read_all(damaged);
      } catch (const BrokenImage&) {
        ++broken;
      }
    }
  }
  EXPECT_GT(broken, 300);
}

TEST(Images, ThatAreNoneAreBroken) {
  EXPECT_EQ(complaint({}), "it is empty");
  EXPECT_EQ(complaint({'G', 'I', 'F', '8', '9', 'a'}),
            "it begins as neither JPEG nor PNG does, with 47 49 46 38");
  EXPECT_EQ(complaint({7}), "it begins as neither JPEG nor PNG does, with 07");
  EXPECT_NE(complaint({0xff, 0xd8, 0xff}), "");
  EXPECT_NE(complaint({0xff, 0xd8, 0xff, 0xe0, 0, 16}), "");
  EXPECT_NE(complaint({0x89, 'P', 'N', 'G', '\r', '\n'}), "");
}

TEST(Png, OfRgbIsExact) {
  for (const bool interlaced : {false, true}) {
    const Pixels pixels =
        read_all(png({37, 23}, rough, {.interlaced = interlaced}), 8);
    EXPECT_EQ(pixels.extent, (Extent{37, 23}));
    EXPECT_EQ(distance(pixels, rough), 0);
  }
}

TEST(Png, OfGreyBecomesRgb) {
  for (const int depth : {1, 2, 4, 8}) {
    const int most = (1 << depth) - 1;
    const auto paint = [&](std::int64_t x, std::int64_t y) {
      return std::vector<int>{int(x + y) & most};
    };
    const Pixels pixels =
        read_all(png({19, 11}, paint, {.colour = 0, .depth = depth}));
    EXPECT_EQ(distance(pixels,
                       [&](std::int64_t x, std::int64_t y) {
                         return std::vector<int>(3,
                                                 paint(x, y)[0] * 255 / most);
                       }),
              0)
        << depth;
  }
}

TEST(Png, AlphaIsDropped) {
  const auto rgba = [](std::int64_t x, std::int64_t y) {
    auto colour = rough(x, y);
    colour.push_back(int(x * 9 % 256));
    return colour;
  };
  EXPECT_EQ(distance(read_all(png({20, 10}, rgba, {.colour = 6})), rough), 0);
  const auto grey = [](std::int64_t x, std::int64_t y) {
    return std::vector<int>{int(x * 5 + y), int(y * 20)};
  };
  EXPECT_EQ(distance(read_all(png({20, 10}, grey, {.colour = 4})),
                     [&](std::int64_t x, std::int64_t y) {
                       return std::vector<int>(3, grey(x, y)[0]);
                     }),
            0);
}

TEST(Png, PalettesAreLookedUp) {
  const std::vector<std::vector<int>> palette = {
      {1, 2, 3}, {200, 100, 50}, {0, 255, 0}, {9, 8, 7}};
  const auto index = [](std::int64_t x, std::int64_t y) {
    return std::vector<int>{int((x + 2 * y) % 4)};
  };
  const auto colour = [&](std::int64_t x, std::int64_t y) {
    return palette[std::size_t(index(x, y)[0])];
  };
  for (const int depth : {2, 8}) {
    for (const Bytes& transparency : {Bytes{}, Bytes{0, 128}}) {
      const PngKind kind = {.colour = 3,
                            .depth = depth,
                            .palette = palette,
                            .transparency = transparency};
      EXPECT_EQ(distance(read_all(png({15, 9}, index, kind)), colour), 0);
    }
  }
}

TEST(Png, SixteenBitsAreRoundedToEight) {
  const auto deep = [](std::int64_t x, std::int64_t y) {
    return std::vector<int>{int(x * 3277), int(y * 6553), 65535};
  };
  const auto rounded = [&](std::int64_t x, std::int64_t y) {
    auto colour = deep(x, y);
    for (int& c : colour) c = (c * 255 + 32895) >> 16;
    return colour;
  };
  EXPECT_EQ(distance(read_all(png({20, 10}, deep, {.depth = 16})), rounded), 0);
  const auto grey = [](std::int64_t x, std::int64_t) {
    return std::vector<int>{int(x * 3277)};
  };
  EXPECT_EQ(distance(read_all(png({20, 10}, grey, {.colour = 0, .depth = 16})),
                     [&](std::int64_t x, std::int64_t y) {
                       return std::vector<int>(3, rounded(x, y)[0]);
                     }),
            0);
}

TEST(Png, CutShortOrDamagedIsBroken) {
  const Bytes bytes = png({50, 40}, rough);
  for (const std::size_t size :
       {std::size_t{20}, bytes.size() / 2, bytes.size() - 1}) {
    EXPECT_EQ(complaint({bytes.begin(), bytes.begin() + std::ptrdiff_t(size)}),
              "it was cut short");
  }
  Bytes damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  EXPECT_NE(complaint(damaged), "");
}

}  // namespace
}  // namespace sluice::testing
