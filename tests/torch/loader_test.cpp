#include "sluice/torch/data/loader.h"

#include "torch_support.h"

namespace sluice::testing {
namespace {

// Photographs that are augmented in every way.
class LoaderTest : public ::testing::Test {
 protected:
  LoaderTest() {
    Bytes bytes;
    for (int i = 0; i < 40; ++i) {
      bytes.push_back(0);
      bytes.push_back(static_cast<std::uint8_t>(i));
      for (int j = 0; j < 3072; ++j) {
        bytes.push_back(static_cast<std::uint8_t>(i * 7 + j * 13));
      }
    }
    write_bytes(folder_ / "train.bin", bytes);
    data_ = make_dataset("cifar100:train=40", {Split::kTrain, folder_.path()});
  }

  TempFolder folder_;
  std::unique_ptr<Dataset> data_;
};

TEST_F(LoaderTest, MakesBatchesOfTheRightShape) {
  Loader loader(*data_, {.batch = 6, .seed = 3});
  EXPECT_EQ(loader.steps_per_epoch(), 6U);
  const Batch batch = loader.next();
  EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{6, 3, 32, 32}));
  EXPECT_EQ(batch.images.scalar_type(), torch::kFloat32);
  EXPECT_EQ(batch.labels.sizes(), (std::vector<std::int64_t>{6}));
  EXPECT_EQ(loader.position(), (Position{0, 1}));
}

// By label, which is the index of the sample.
std::map<std::int64_t, torch::Tensor> images_of_epoch(
    const Dataset& data, const SamplerOptions& options) {
  Loader loader(data, options);
  std::map<std::int64_t, torch::Tensor> images;
  while (loader.position().epoch == 0) {
    const Batch batch = loader.next();
    for (std::int64_t i = 0; i < batch.labels.size(0); ++i) {
      images[batch.labels[i].item<std::int64_t>()] = batch.images[i];
    }
  }
  return images;
}

TEST_F(LoaderTest, AugmentsAlikeWhateverRanksBatchAndThreads) {
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const auto one = images_of_epoch(*data_, {.batch = 40, .seed = 3});
  torch::set_num_threads(3);
  std::map<std::int64_t, torch::Tensor> many;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    many.merge(images_of_epoch(
        *data_, {.batch = 5, .rank = rank, .ranks = 4, .seed = 3}));
  }
  torch::set_num_threads(threads);
  ASSERT_EQ(one.size(), 40U);
  ASSERT_EQ(many.size(), 40U);
  for (const auto& [label, image] : one) {
    EXPECT_TRUE(torch::equal(image, many.at(label))) << label;
  }
}

TEST_F(LoaderTest, AugmentsOtherwiseInAnotherEpochOrSeed) {
  const auto show = [&](std::uint64_t seed, std::uint64_t epoch) {
    Loader loader(*data_, {.batch = 40, .seed = seed});
    loader.seek({epoch, 0});
    const Batch batch = loader.next();
    const auto order = torch::argsort(batch.labels);
    return batch.images.index_select(0, order);
  };
  EXPECT_TRUE(torch::equal(show(1, 0), show(1, 0)));
  EXPECT_FALSE(torch::equal(show(1, 0), show(1, 1)));
  EXPECT_FALSE(torch::equal(show(1, 0), show(2, 0)));
}

TEST_F(LoaderTest, ResumesExactly) {
  const SamplerOptions options = {.batch = 4, .rank = 1, .ranks = 2, .seed = 9};
  Loader through(*data_, options);
  for (int i = 0; i < 13; ++i) through.next();
  Loader resumed(*data_, options);
  resumed.seek(through.position());
  for (int i = 0; i < 5; ++i) {
    const Batch a = through.next();
    const Batch b = resumed.next();
    EXPECT_TRUE(torch::equal(a.images, b.images));
    EXPECT_TRUE(torch::equal(a.labels, b.labels));
  }
}

TEST_F(LoaderTest, EvaluatesEverySampleAsItIs) {
  std::int64_t next = 0;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const Batch batch = evaluation_batch(*data_, evaluation_share(40, rank, 3));
    for (std::int64_t i = 0; i < batch.labels.size(0); ++i) {
      EXPECT_EQ(batch.labels[i].item<std::int64_t>(), next++);
    }
  }
  EXPECT_EQ(next, 40);
  const Batch one = evaluation_batch(*data_, {7, 8});
  std::vector<float> plain(3072);
  data_->render_plain(7, plain);
  EXPECT_TRUE(torch::equal(one.images.flatten(), torch::tensor(plain)));
  EXPECT_EQ(evaluation_batch(*data_, {7, 7}).images.size(0), 0);
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              evaluation_batch(*data_, {0, 41});
            }),
            "[evaluation_batch] samples must lie in [0, 40], got [0, 41)");
}

}  // namespace
}  // namespace sluice::testing
