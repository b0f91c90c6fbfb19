#include "sluice/data/dataset.h"

#include <cmath>
#include <numbers>

#include "files.h"
#include "sluice/data/augment.h"
#include "sluice/data/memory_dataset.h"

namespace sluice::testing {
namespace {

using Invalid = std::invalid_argument;
using Broken = std::runtime_error;

constexpr std::size_t kMnistPixels = 28 * 28;
constexpr std::size_t kCifarPixels = 3 * 32 * 32;

// A data set whose images are in memory.
std::unique_ptr<MemoryDataset> make_memory_dataset(
    std::string_view text, const DatasetPlace& place = {}) {
  auto data = make_dataset(text, place);
  auto& memory = dynamic_cast<MemoryDataset&>(*data);
  data.release();
  return std::unique_ptr<MemoryDataset>(&memory);
}

std::string complaint(std::string_view text, const DatasetPlace& place) {
  return message_of<Broken>([&] { make_dataset(text, place); });
}

// Five training and three test images.
class MnistFiles : public ::testing::Test {
 protected:
  MnistFiles() {
    write_bytes(images_, idx({5, 28, 28}, counting(5 * kMnistPixels)));
    write_bytes(labels_, idx({5}, {0, 1, 2, 3, 9}));
    write_gzip(folder_ / "t10k-images-idx3-ubyte.gz",
               idx({3, 28, 28}, counting(3 * kMnistPixels)));
    write_gzip(folder_ / "t10k-labels-idx1-ubyte.gz", idx({3}, {7, 8, 9}));
  }
  std::string train_complaint() {
    return complaint("mnist", {Split::kTrain, folder_.path()});
  }
  std::string test_complaint() {
    return complaint("mnist", {Split::kTest, folder_.path()});
  }

  TempFolder folder_;
  std::string images_ = folder_ / "train-images-idx3-ubyte";
  std::string labels_ = folder_ / "train-labels-idx1-ubyte";
};

TEST_F(MnistFiles, AreReadAsTheyAreAndAsGzip) {
  const auto train =
      make_memory_dataset("mnist", {Split::kTrain, folder_.path()});
  EXPECT_EQ(train->size(), 5U);
  EXPECT_EQ(train->input(), (ImageInput{1, 28, 28, 10}));
  EXPECT_EQ(train->label(4), 9);
  const Bytes all = counting(5 * kMnistPixels);
  const auto image = train->image(3);
  EXPECT_TRUE(std::equal(image.begin(), image.end(),
                         all.begin() + 3 * long{kMnistPixels}));
  std::vector<float> floats(kMnistPixels);
  train->render(3, {}, floats);
  EXPECT_FLOAT_EQ(floats[10], float((image[10] / 255.0 - 0.1307) / 0.3081));
  // No augmentation: random bits change nothing.
  std::vector<float> again(kMnistPixels);
  train->render(3, 123, again);
  EXPECT_EQ(again, floats);

  const auto test =
      make_memory_dataset("mnist", {Split::kTest, folder_.path()});
  EXPECT_EQ(test->size(), 3U);
  EXPECT_EQ(test->label(0), 7);
  const auto two =
      make_memory_dataset("mnist:limit=2", {Split::kTrain, folder_.path()});
  EXPECT_EQ(two->size(), 2U);
}

TEST_F(MnistFiles, OfFashionNormaliseOtherwise) {
  const auto data =
      make_memory_dataset("fashion-mnist", {Split::kTrain, folder_.path()});
  std::vector<float> floats(kMnistPixels);
  data->render(0, {}, floats);
  EXPECT_FLOAT_EQ(floats[0], float((0 - 0.2860) / 0.3530));
}

TEST_F(MnistFiles, AreNamedIfMissing) {
  std::filesystem::remove(images_);
  EXPECT_EQ(train_complaint(),
            "[dataset 'mnist'] folder '" + folder_.path() +
                "' must hold train-images-idx3-ubyte or "
                "train-images-idx3-ubyte.gz; get it from "
                "https://ossci-datasets.s3.amazonaws.com/mnist/ and give the "
                "folder as --data-dir");
  const auto both = complaint("mnist", {Split::kTrain, "/no/such/folder"});
  EXPECT_CONTAINS(both, "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte");
  EXPECT_CONTAINS(complaint("mnist", {}),
                  "[dataset 'mnist'] a folder must be given that holds "
                  "train-images");
  EXPECT_CONTAINS(complaint("fashion-mnist", {Split::kTrain, "/no/such"}),
                  "install the Debian package dataset-fashion-mnist");
}

TEST_F(MnistFiles, AreCheckedForTheirMagic) {
  write_bytes(images_, idx({5}, {0, 1, 2, 3, 9, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(train_complaint(),
            "[dataset 'mnist'] '" + images_ +
                "' must begin with 2051 (IDX, bytes, 3 dimensions), begins "
                "with 2049; it is another file, or damaged");
  write_bytes(images_, {});
  EXPECT_CONTAINS(train_complaint(),
                  "must have a header of 16 bytes, has 0 bytes; it was cut "
                  "short");
}

TEST_F(MnistFiles, AreCheckedForTheirSize) {
  Bytes bytes = idx({5, 28, 28}, counting(5 * kMnistPixels));
  bytes.pop_back();
  write_bytes(images_, bytes);
  EXPECT_CONTAINS(train_complaint(),
                  "must hold as many bytes as its header says (3920), holds "
                  "3919; it was cut short or is damaged");
  write_bytes(images_, idx({0xffffffff, 0xffffffff, 0xffffffff}, {1}));
  EXPECT_EQ(train_complaint(),
            "[dataset 'mnist'] '" + images_ +
                "' must announce at most 2147483648 bytes in its header, "
                "announces more; it is damaged");
  write_bytes(images_, idx({5, 14, 14}, counting(5 * 14 * 14)));
  EXPECT_CONTAINS(train_complaint(),
                  "must hold images of 28 x 28, holds 14 x 14; it is another "
                  "data set");
  write_bytes(images_, idx({4, 28, 28}, counting(4 * kMnistPixels)));
  EXPECT_CONTAINS(train_complaint(), "hold 4 images and 5 labels");
}

TEST_F(MnistFiles, AreCheckedForTheirLabels) {
  write_bytes(labels_, idx({5}, {0, 1, 2, 3, 10}));
  EXPECT_EQ(train_complaint(),
            "[dataset 'mnist'] labels must be below 10, got 10; it is another "
            "data set");
  write_bytes(images_, idx({0, 28, 28}, {}));
  write_bytes(labels_, idx({0}, {}));
  EXPECT_CONTAINS(train_complaint(),
                  "there must be images of 784 bytes each, got 0 bytes");
}

TEST_F(MnistFiles, AreCheckedAsGzip) {
  const std::string path = folder_ / "t10k-images-idx3-ubyte.gz";
  const Bytes good = read_bytes(path);
  write_bytes(path, Bytes(good.begin(), good.end() - 9));
  EXPECT_CONTAINS(test_complaint(), "must be a whole gzip file, but: ");
  Bytes flipped = good;
  flipped[flipped.size() - 6] ^= 1;  // the checksum
  write_bytes(path, flipped);
  EXPECT_CONTAINS(test_complaint(), "incorrect data check");
  write_bytes(path, {0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_CONTAINS(test_complaint(), "; fetch it once more");
  write_bytes(path, counting(100));
  EXPECT_CONTAINS(test_complaint(), "must begin with 2051");
}

// Kilobytes of gzip can hold gigabytes: they filled all memory before they were
// refused.
TEST_F(MnistFiles, AreInflatedNoFurtherThanTheirHeaderSays) {
  const std::string path = folder_ / "t10k-images-idx3-ubyte.gz";
  Bytes bomb = idx({3, 28, 28}, Bytes(std::size_t{1} << 26, 0));
  write_gzip(path, bomb);
  ASSERT_LT(std::filesystem::file_size(path), 1U << 17);
  {
    // The first pages are intact, so only a reader that goes on notices.
    Bytes cut = read_bytes(path);
    cut.resize(cut.size() / 2);
    write_bytes(path, cut);
  }
  EXPECT_EQ(test_complaint(),
            "[dataset 'mnist'] '" + path +
                "' must hold as many bytes as its header says (2352), holds "
                "more; it was cut short or is damaged");
  // Neither for images of another size, whatever the header announces.
  bomb = idx({1 << 11, 1 << 10, 1 << 10}, Bytes(100, 0));
  write_gzip(path, bomb);
  EXPECT_CONTAINS(test_complaint(), "must hold images of 28 x 28, holds 1024");
}

// Records with label i, or coarse 1 and fine i, and pixels that count.
Bytes records(std::size_t n, bool fine) {
  Bytes bytes;
  const Bytes pixels = counting(kCifarPixels);
  for (std::size_t i = 0; i < n; ++i) {
    if (fine) bytes.push_back(1);
    bytes.push_back(static_cast<std::uint8_t>(i));
    bytes.insert(bytes.end(), pixels.begin(), pixels.end());
  }
  return bytes;
}

TEST(Cifar10, ReadsAllBatchesFromEitherFolder) {
  const TempFolder folder;
  const std::string inner = folder / "cifar-10-batches-bin";
  std::filesystem::create_directory(inner);
  for (int i = 1; i <= 5; ++i) {
    write_bytes(inner + "/data_batch_" + std::to_string(i) + ".bin",
                records(2, false));
  }
  write_bytes(inner + "/test_batch.bin", records(3, false));
  const char* text = "cifar10:train=10,test=3";
  for (const std::string& place : {folder.path(), inner}) {
    const auto train = make_memory_dataset(text, {Split::kTrain, place});
    EXPECT_EQ(train->size(), 10U);
    EXPECT_EQ(train->input(), (ImageInput{3, 32, 32, 10}));
    EXPECT_EQ(train->label(9), 1);
    EXPECT_EQ(train->augmentation().crop_pad, 4);
    EXPECT_TRUE(train->augmentation().flip);
    EXPECT_EQ(train->augmentation().degrees, 0);
    const auto test = make_memory_dataset(text, {Split::kTest, place});
    EXPECT_EQ(test->size(), 3U);
    EXPECT_EQ(test->augmentation().crop_pad, 0);
    std::vector<float> floats(kCifarPixels);
    test->render(2, {}, floats);
    EXPECT_FLOAT_EQ(floats[1], float((1 / 255.0 - 0.491) / 0.247));
    EXPECT_FLOAT_EQ(floats[2048], float((2048 % 251 / 255.0 - 0.447) / 0.262));
  }
}

TEST(Cifar10, NamesWhatIsMissingOrCut) {
  const TempFolder folder;
  EXPECT_EQ(complaint("cifar10", {Split::kTest, folder.path()}),
            "[dataset 'cifar10'] folder '" + folder.path() +
                "' must hold test_batch.bin; get "
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz, "
                "unpack it and give the folder as --data-dir");
  write_bytes(folder / "test_batch.bin", records(3, false));
  EXPECT_CONTAINS(complaint("cifar10", {Split::kTest, folder.path()}),
                  "must have 30730000 bytes, has 9219; it was cut short");
  EXPECT_CONTAINS(complaint("cifar10:test=2", {Split::kTest, folder.path()}),
                  "must have 6146 bytes, has more; it is another file");
  write_bytes(folder / "test_batch.bin", records(12, false));
  EXPECT_CONTAINS(complaint("cifar10:test=12", {Split::kTest, folder.path()}),
                  "labels must be below 10, got 11");
}

TEST(Cifar100, ReadsFineLabels) {
  const TempFolder folder;
  write_bytes(folder / "train.bin", records(100, true));
  const auto data =
      make_memory_dataset("cifar100:train=100", {Split::kTrain, folder.path()});
  EXPECT_EQ(data->input(), (ImageInput{3, 32, 32, 100}));
  EXPECT_EQ(data->label(99), 99);
  EXPECT_EQ(data->image(99)[5], 5);
  EXPECT_EQ(data->augmentation().degrees, 15);
  EXPECT_CONTAINS(complaint("cifar100", {Split::kTest, folder.path()}),
                  "must hold test.bin; get "
                  "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz");
}

TEST(Synthetic, IsTheSameEverywhere) {
  const auto data = make_memory_dataset("synthetic:train=50,test=20");
  EXPECT_EQ(data->size(), 50U);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data->size(); ++i) {
    for (const std::uint8_t pixel : data->image(i)) sum = sum * 31 + pixel;
    sum = sum * 31 + static_cast<std::uint64_t>(data->label(i));
  }
  EXPECT_EQ(sum, 6413428717057762674ULL);
  const auto test =
      make_memory_dataset("synthetic:train=50,test=20", {Split::kTest, ""});
  EXPECT_EQ(test->size(), 20U);
  EXPECT_FALSE(std::equal(test->image(0).begin(), test->image(0).end(),
                          data->image(0).begin()));
  const auto other = make_memory_dataset("synthetic:train=50,seed=2");
  EXPECT_FALSE(std::equal(other->image(0).begin(), other->image(0).end(),
                          data->image(0).begin()));
}

TEST(Synthetic, HasTheShapeAskedFor) {
  const auto data = make_memory_dataset(
      "synthetic:channels=3,height=8,width=6,classes=4,train=64,noise=0");
  EXPECT_EQ(data->input(), (ImageInput{3, 8, 6, 4}));
  // Without noise a class is one picture.
  for (std::size_t i = 1; i < data->size(); ++i) {
    const bool same = std::equal(data->image(i).begin(), data->image(i).end(),
                                 data->image(0).begin());
    EXPECT_EQ(same, data->label(i) == data->label(0));
  }
  EXPECT_CONTAINS(
      message_of<Invalid>([] { make_dataset("synthetic:classes=1"); }),
      "[dataset 'synthetic'] parameter 'classes' must lie in [2, 1e+05], got "
      "1");
  EXPECT_CONTAINS(message_of<Invalid>([] {
                    make_dataset("synthetic", {Split::kTrain, "/somewhere"});
                  }),
                  "so no folder may be given, got '/somewhere'");
}

TEST(Datasets, AreListedForUnknownNames) {
  EXPECT_EQ(message_of<Invalid>([] { make_dataset("imagenet"); }),
            "[make_dataset] no dataset 'imagenet'; known: fashion-mnist mnist "
            "cifar10 cifar100 imagefolder synthetic");
  for (const auto& entry : datasets()) {
    EXPECT_FALSE(entry.describe().parameters.empty());
  }
}

TEST(FashionMnist, IsWhatDebianInstalls) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  }
  const auto train = make_memory_dataset("fashion-mnist");
  EXPECT_EQ(train->size(), 60000U);
  EXPECT_EQ(train->label(0), 9);
  EXPECT_EQ(make_dataset("fashion-mnist", {Split::kTest, ""})->size(), 10000U);
}

// A 1 x 4 x 4 image with byte 10 * (row + 1) + column, shown without
// normalisation so that floats are bytes.
class Rendering : public ::testing::Test {
 protected:
  std::vector<int> show(const Change& change) {
    std::vector<float> floats(16);
    render(input_, image_, change, bytes_, floats);
    std::vector<int> out;
    for (const float f : floats) out.push_back(int(std::lround(f)));
    return out;
  }

  ImageInput input_ = {1, 4, 4, 2};
  Bytes image_ = {10, 11, 12, 13, 20, 21, 22, 23,
                  30, 31, 32, 33, 40, 41, 42, 43};
  std::vector<double> mean_ = {0};
  std::vector<double> deviation_ = {1 / 255.0};
  Normalisation bytes_{mean_, deviation_};
};

TEST_F(Rendering, ShiftsInBlack) {
  EXPECT_EQ(show({1, 0, false, 0}),
            (std::vector<int>{20, 21, 22, 23, 30, 31, 32, 33, 40, 41, 42, 43, 0,
                              0, 0, 0}));
  EXPECT_EQ(show({0, -2, false, 0}),
            (std::vector<int>{0, 0, 10, 11, 0, 0, 20, 21, 0, 0, 30, 31, 0, 0,
                              40, 41}));
}

TEST_F(Rendering, FlipsAfterTheCut) {
  EXPECT_EQ(show({0, 1, true, 0}),
            (std::vector<int>{0, 13, 12, 11, 0, 23, 22, 21, 0, 33, 32, 31, 0,
                              43, 42, 41}));
}

TEST_F(Rendering, TurnsAboutTheMiddle) {
  EXPECT_EQ(show({0, 0, false, std::numbers::pi / 2}),
            (std::vector<int>{40, 30, 20, 10, 41, 31, 21, 11, 42, 32, 22, 12,
                              43, 33, 23, 13}));
  // Corners come from outside.
  const auto turned = show({0, 0, false, std::numbers::pi / 4});
  EXPECT_EQ(turned[0], 0);
  EXPECT_EQ(turned[15], 0);
}

TEST(Augmentation, StaysWithinItsBounds) {
  const Augmentation all = {4, true, 15};
  int flips = 0;
  std::vector<int> down(9);
  double least = 0;
  double most = 0;
  for (std::uint64_t i = 0; i < 9000; ++i) {
    const Change change = draw_change(all, i * 77);
    ASSERT_LE(std::abs(change.down), 4);
    ASSERT_LE(std::abs(change.right), 4);
    ++down[static_cast<std::size_t>(change.down + 4)];
    flips += change.flip ? 1 : 0;
    least = std::min(least, change.radians);
    most = std::max(most, change.radians);
  }
  EXPECT_NEAR(flips, 4500, 300);
  for (const int count : down) EXPECT_NEAR(count, 1000, 150);
  const double bound = 15 * std::numbers::pi / 180;
  EXPECT_NEAR(most, bound, 0.001);
  EXPECT_NEAR(least, -bound, 0.001);
  const Change none = draw_change({}, 99);
  EXPECT_TRUE(none.down == 0 && none.right == 0 && !none.flip &&
              none.radians == 0);
}

}  // namespace
}  // namespace sluice::testing
