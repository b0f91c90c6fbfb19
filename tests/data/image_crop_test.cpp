#include <algorithm>
#include <cmath>
#include <map>

#include "image_support.h"
#include "sluice/core/hash.h"
#include "sluice/data/crop.h"

namespace sluice::testing {
namespace {

TEST(RandomCrop, StaysInsideAndInRange) {
  const Extent image = {500, 375};
  const CropRange range;
  double areas = 0;
  double least = 1;
  double most = 0;
  int flips = 0;
  constexpr int kDraws = 5000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const Crop crop = random_crop(image, range, mix64(i));
    const Box& box = crop.box;
    ASSERT_GE(box.x, 0);
    ASSERT_GE(box.y, 0);
    ASSERT_LE(box.x + box.width, 500);
    ASSERT_LE(box.y + box.height, 375);
    ASSERT_EQ(box.x, std::floor(box.x));
    ASSERT_EQ(crop.reach.width, box.width);
    // To the rounding of the sides.
    const double ratio = box.width / box.height;
    ASSERT_LT(ratio, 4.0 / 3 + 0.02);
    ASSERT_GT(ratio, 3.0 / 4 - 0.02);
    const double area = box.width * box.height / (500.0 * 375);
    areas += area;
    least = std::min(least, area);
    most = std::max(most, area);
    flips += crop.flip ? 1 : 0;
  }
  EXPECT_NEAR(least, 0.08, 0.002);
  EXPECT_GT(most, 0.97);
  // Large ones fit less often than small ones: 0.432 by simulation.
  EXPECT_NEAR(areas / kDraws, 0.432, 0.015);
  EXPECT_NEAR(flips, kDraws / 2, 150);
}

TEST(RandomCrop, IsAFunctionOfItsBits) {
  const auto text = [](const Crop& v) {
    return std::vector<double>{v.box.x, v.box.y, v.box.width, v.box.height,
                               double(v.flip)};
  };
  const CropRange range;
  EXPECT_EQ(text(random_crop({300, 200}, range, 7)),
            text(random_crop({300, 200}, range, 7)));
  EXPECT_NE(text(random_crop({300, 200}, range, 7)),
            text(random_crop({300, 200}, range, 8)));
}

TEST(RandomCrop, TakesTheMiddleOfWhatNothingFits) {
  CropRange range;
  range.least_area = 0.9;
  const Box wide = random_crop({1000, 100}, range, 3).box;
  EXPECT_EQ(wide.width, 133);
  EXPECT_EQ(wide.height, 100);
  EXPECT_EQ(wide.x, 433);
  EXPECT_EQ(wide.y, 0);
  const Box tall = random_crop({100, 1000}, range, 3).box;
  EXPECT_EQ(tall.width, 100);
  EXPECT_EQ(tall.height, 133);
  EXPECT_EQ(tall.y, 433);
  const Box one = random_crop({1, 1}, {}, 3).box;
  EXPECT_EQ(one.width, 1);
  EXPECT_EQ(one.height, 1);
}

// Numbers of torchvision's Resize(256) and CenterCrop(224).
TEST(CentralCrop, IsWhatResizingAndCuttingLeaves) {
  const Crop crop = central_crop({500, 375}, 224, 256);
  EXPECT_FALSE(crop.flip);
  EXPECT_DOUBLE_EQ(crop.box.x, 58 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(crop.box.width, 224 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(crop.box.y, 16 * 375.0 / 256);
  EXPECT_DOUBLE_EQ(crop.box.height, 224 * 375.0 / 256);
  EXPECT_LE(crop.reach.x, crop.box.x - 1);
  EXPECT_GE(crop.reach.x + crop.reach.width, crop.box.x + crop.box.width + 1);
  // As much as there is.
  const Crop small = central_crop({7, 9}, 256, 256);
  EXPECT_EQ(small.reach.x, 0);
  EXPECT_EQ(small.reach.width, 7);
}

// What resizing is, written as its definition.
std::vector<double> reference(const Pixels& pixels, const Crop& crop,
                              std::int64_t size) {
  const auto weight = [](double begin, double length, std::int64_t n,
                         std::int64_t i, std::int64_t x) {
    const double ratio = length / double(n);
    const double support = std::max(ratio, 1.0);
    const double centre = begin + (double(i) + 0.5) * ratio;
    return std::max(0.0, 1 - std::abs(double(x) + 0.5 - centre) / support);
  };
  const Box& reach = crop.reach;
  const auto right = std::int64_t(reach.x + reach.width);
  const auto bottom = std::int64_t(reach.y + reach.height);
  std::vector<double> out;
  for (int c = 0; c < 3; ++c) {
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t j = 0; j < size; ++j) {
        double sum = 0;
        double all = 0;
        for (auto y = std::int64_t(reach.y); y < bottom; ++y) {
          for (auto x = std::int64_t(reach.x); x < right; ++x) {
            const double w = weight(crop.box.y, crop.box.height, size, i, y) *
                             weight(crop.box.x, crop.box.width, size,
                                    crop.flip ? size - 1 - j : j, x);
            sum += w * pixels.row(y)[4 * x + c];
            all += w;
          }
        }
        out.push_back(sum / all);
      }
    }
  }
  return out;
}

class Resampling : public ::testing::Test {
 protected:
  Resampling() {
    pixels_.extent = {61, 47};
    for (std::int64_t y = 0; y < 47; ++y) {
      for (std::int64_t x = 0; x < 61; ++x) {
        for (const int c : rough(x, y)) {
          pixels_.bytes.push_back(std::uint8_t(c));
        }
        pixels_.bytes.push_back(77);
      }
    }
  }
  // As bytes.
  std::vector<float> show(const Crop& crop, std::int64_t size) {
    Resampler resampler(size, {0, 0, 0}, {1 / 255.0, 1 / 255.0, 1 / 255.0});
    std::vector<float> out(std::size_t(3 * size * size));
    resampler.resample(pixels_, crop, out);
    return out;
  }
  void check(const Crop& crop, std::int64_t size) {
    const auto wanted = reference(pixels_, crop, size);
    const auto is = show(crop, size);
    for (std::size_t i = 0; i < is.size(); ++i) {
      ASSERT_NEAR(is[i], wanted[i], 1e-3) << i;
    }
  }

  Pixels pixels_;
};

TEST_F(Resampling, LeavesPixelsAsTheyAre) {
  const Box box = {5, 3, 16, 16};
  const auto out = show({box, box, false}, 16);
  const auto flipped = show({box, box, true}, 16);
  for (std::size_t y = 0; y < 16; ++y) {
    for (std::size_t x = 0; x < 16; ++x) {
      const auto colour = rough(std::int64_t(x + 5), std::int64_t(y + 3));
      for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(out[c * 256 + y * 16 + x], colour[c], 1e-4);
        EXPECT_NEAR(flipped[c * 256 + y * 16 + 15 - x], colour[c], 1e-4);
      }
    }
  }
}

TEST_F(Resampling, IsItsDefinition) {
  const Box all = {0, 0, 61, 47};
  check({all, all, false}, 13);
  check({all, all, true}, 24);
  check({all, all, false}, 64);
  const Box part = {11, 7, 33, 20};
  check({part, part, true}, 8);
  check({part, part, false}, 50);
  const Box bit = {11, 7, 1, 2};
  check({bit, bit, false}, 9);
  check(central_crop({61, 47}, 16, 20), 16);
  check(central_crop({61, 47}, 64, 73), 64);
}

TEST_F(Resampling, KnowsWherePixelsBegin) {
  const Box box = {11, 7, 33, 20};
  const auto whole = show({box, box, true}, 12);
  Pixels part;
  part.extent = {35, 22};
  part.left = 10;
  part.top = 6;
  for (std::int64_t y = 0; y < 22; ++y) {
    const std::uint8_t* from = pixels_.row(y + 6) + 4 * 10;
    part.bytes.insert(part.bytes.end(), from, from + 4 * 35);
  }
  pixels_ = part;
  EXPECT_EQ(show({box, box, true}, 12), whole);
}

TEST_F(Resampling, KnowsThatPixelsWereMadeSmaller) {
  // A ramp, twice as large as the pixels say.
  for (std::int64_t y = 0; y < 47; ++y) {
    for (std::int64_t x = 0; x < 61; ++x) {
      pixels_.row(y)[4 * x] = std::uint8_t(4 * x + 2);
    }
  }
  pixels_.scale = 0.5;
  const Box box = {20, 10, 80, 40};
  const auto out = show({box, box, false}, 20);
  for (std::size_t x = 1; x < 19; ++x) {
    // Pixel x covers [20 + 4 x, 24 + 4 x) of the image.
    EXPECT_NEAR(out[x], 2 * (20 + 4 * double(x) + 2), 1e-3);
  }
}

TEST_F(Resampling, Normalises) {
  Resampler resampler(4, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  pixels_.extent = {1, 1};
  pixels_.bytes = {255, 0, 51, 99};
  std::vector<float> out(48);
  resampler.resample(pixels_, {{0, 0, 1, 1}, {0, 0, 1, 1}, false}, out);
  EXPECT_NEAR(out[0], (1 - 0.485) / 0.229, 1e-5);
  EXPECT_NEAR(out[16], (0 - 0.456) / 0.224, 1e-5);
  EXPECT_NEAR(out[47], (0.2 - 0.406) / 0.225, 1e-5);
}

}  // namespace
}  // namespace sluice::testing
