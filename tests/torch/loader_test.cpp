#include "sluice/torch/data/loader.h"

#include <atomic>
#include <set>

#include "files.h"
#include "sluice/torch/data/batch_feed.h"

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
  EXPECT_EQ(batch.tensors[0].sizes(),
            (std::vector<std::int64_t>{6, 3, 32, 32}));
  EXPECT_EQ(batch.tensors[0].scalar_type(), torch::kFloat32);
  EXPECT_EQ(batch.tensors[1].sizes(), (std::vector<std::int64_t>{6}));
  EXPECT_EQ(loader.position(), (Position{0, 1}));
}

// By label, which is the index of the sample.
std::map<std::int64_t, torch::Tensor> images_of_epoch(
    const Dataset& data, const SamplerOptions& options) {
  Loader loader(data, options);
  std::map<std::int64_t, torch::Tensor> images;
  while (loader.position().epoch == 0) {
    const Batch batch = loader.next();
    for (std::int64_t i = 0; i < batch.tensors[1].size(0); ++i) {
      images[batch.tensors[1][i].item<std::int64_t>()] = batch.tensors[0][i];
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
    const auto order = torch::argsort(batch.tensors[1]);
    return batch.tensors[0].index_select(0, order);
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
    EXPECT_TRUE(torch::equal(a.tensors[0], b.tensors[0]));
    EXPECT_TRUE(torch::equal(a.tensors[1], b.tensors[1]));
  }
}

bool same(const Batch& a, const Batch& b) {
  return torch::equal(a.tensors[0], b.tensors[0]) &&
         torch::equal(a.tensors[1], b.tensors[1]);
}

TEST_F(LoaderTest, ThreadsAndPrefetchChangeNothing) {
  const SamplerOptions options = {.batch = 6, .rank = 1, .ranks = 2, .seed = 4};
  for (const std::size_t threads : {1, 3}) {
    for (const std::size_t prefetch : {0, 1, 5}) {
      Loader plain(*data_, options);
      Loader ahead(*data_, options, {threads, prefetch});
      // Into the fourth epoch.
      for (int i = 0; i < 11; ++i) {
        EXPECT_TRUE(same(plain.next(), ahead.next())) << i;
        EXPECT_EQ(plain.position(), ahead.position());
      }
    }
  }
}

TEST_F(LoaderTest, ResumesAtWhatWasHandedOut) {
  const SamplerOptions options = {.batch = 4, .seed = 9};
  Loader through(*data_, options, {2, 4});
  for (int i = 0; i < 13; ++i) through.next();
  EXPECT_EQ(through.position(), (Position{1, 3}));
  Loader resumed(*data_, options, {3, 2});
  // What was made ahead of here must go.
  resumed.next();
  resumed.seek(through.position());
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(same(through.next(), resumed.next()));
}

// As the others, but sample 7 cannot be read for now, and 9 is replaced.
class Damaged final : public Dataset {
 public:
  explicit Damaged(const Dataset& good) : Dataset(good.input()), good_(good) {}
  std::size_t size() const override { return good_.size(); }
  std::int64_t label(std::size_t index) const override {
    return good_.label(index);
  }
  Rendered render(std::size_t index, std::optional<std::uint64_t> random,
                  std::span<float> out) const override {
    if (index == 7 && broken) throw std::runtime_error("7 is broken");
    Rendered rendered = good_.render(index, random, out);
    if (index == 9) rendered.problem = "9 was broken";
    return rendered;
  }
  bool is_slow() const override { return true; }

  std::atomic<bool> broken = true;

 private:
  const Dataset& good_;
};

TEST_F(LoaderTest, ErrorsComeWithTheirBatchAndCanBeMended) {
  Damaged damaged(*data_);
  for (const LoaderOptions& how : {LoaderOptions{0, 0}, LoaderOptions{3, 3}}) {
    damaged.broken = true;
    const SamplerOptions options = {.batch = 5, .seed = 2};
    Loader plain(*data_, options);
    Loader loader(damaged, options, how);
    std::uint64_t replaced = 0;
    int errors = 0;
    while (loader.position().epoch < 2) {
      const Position before = loader.position();
      Batch batch;
      try {
        batch = loader.next();
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "7 is broken");
        EXPECT_EQ(loader.position(), before);
        damaged.broken = false;
        ++errors;
        continue;
      }
      EXPECT_TRUE(same(batch, plain.next()));
      replaced += batch.outcome.replaced;
      if (batch.outcome.replaced > 0) {
        EXPECT_EQ(batch.outcome.problem, "9 was broken");
      }
    }
    EXPECT_EQ(errors, 1);
    EXPECT_EQ(replaced, 2U);
  }
}

TEST_F(LoaderTest, FeedsTheSameBatchesAhead) {
  Damaged damaged(*data_);
  damaged.broken = false;
  const SamplerOptions options = {.batch = 5, .seed = 2};
  Loader plain(*data_, options);
  Loader loader(damaged, options, {2, 2});
  BatchFeed feed(loader, torch::kCPU, at::MemoryFormat::ChannelsLast);
  for (int i = 0; i < 12; ++i) {
    const Position place = plain.position();
    feed.seek(place);
    const Batch batch = feed.next();
    EXPECT_TRUE(batch.tensors[0].is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(torch::equal(batch.tensors[0], plain.next().tensors[0]));
    if (i % 3 > 0) feed.prefetch();
    if (i == 5) plain.seek({1, 4});  // past what was fetched ahead
  }
}

TEST_F(LoaderTest, FeedsErrorsWithTheirBatch) {
  Damaged damaged(*data_);
  damaged.broken = true;
  Loader loader(damaged, {.batch = 40, .seed = 2});
  BatchFeed feed(loader, torch::kCPU, at::MemoryFormat::Contiguous);
  feed.prefetch();
  EXPECT_EQ(message_of<std::runtime_error>([&] { feed.next(); }),
            "7 is broken");
  damaged.broken = false;
  EXPECT_EQ(feed.next().tensors[1].size(0), 40);
}

TEST_F(LoaderTest, UsesThreadsWhereTheyPay) {
  EXPECT_EQ(data_threads(data_->is_slow(), 0, 1), 0U);
  EXPECT_EQ(data_threads(data_->is_slow(), 3, 1), 3U);
  const Damaged slow(*data_);
  const std::size_t alone = data_threads(slow.is_slow(), 0, 1);
  EXPECT_GE(alone, 1U);
  EXPECT_LE(alone, 8U);
  EXPECT_EQ(data_threads(slow.is_slow(), 0, 100000), 1U);
  EXPECT_EQ(data_threads(slow.is_slow(), 5, 4), 5U);
}

TEST_F(LoaderTest, UsesMemoryAgainThatNobodyHolds) {
  const SamplerOptions options = {.batch = 8, .seed = 4};
  for (const std::size_t threads : {0, 2}) {
    Loader plain(*data_, options);
    Loader loader(*data_, options, {threads, 1});
    std::vector<Batch> kept;
    std::vector<Batch> wanted;
    std::vector<torch::Tensor> views;
    std::set<const void*> places;
    for (int i = 0; i < 30; ++i) {
      const Batch batch = loader.next();
      wanted.push_back(plain.next());
      places.insert(batch.tensors[0].data_ptr());
      // Some are kept, some only in part; nobody may write to those.
      if (i % 5 == 0) kept.push_back(batch);
      if (i % 5 == 1) views.push_back(batch.tensors[0][3]);
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(same(kept[i], wanted[5 * i]));
      EXPECT_TRUE(torch::equal(views[i], wanted[5 * i + 1].tensors[0][3]));
    }
    EXPECT_LT(places.size(), 30U);
  }
}

// In one batch.
Batch evaluated(const Dataset& data, const Partition& samples) {
  return *EvaluationLoader(data, samples, 40).next();
}

TEST_F(LoaderTest, EvaluatesTheSameAhead) {
  for (const LoaderOptions& how : {LoaderOptions{0, 2}, LoaderOptions{2, 3}}) {
    EvaluationLoader loader(*data_, {3, 38}, 8, how);
    std::uint64_t at = 3;
    while (const auto batch = loader.next()) {
      const std::uint64_t end = std::min<std::uint64_t>(at + 8, 38);
      EXPECT_TRUE(same(*batch, evaluated(*data_, {at, end})));
      at = end;
    }
    EXPECT_EQ(at, 38U);
    EXPECT_FALSE(loader.next());
  }
}

TEST_F(LoaderTest, EvaluatesEverySampleAsItIs) {
  std::int64_t next = 0;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const Batch batch = evaluated(*data_, evaluation_partition(40, rank, 3));
    for (std::int64_t i = 0; i < batch.tensors[1].size(0); ++i) {
      EXPECT_EQ(batch.tensors[1][i].item<std::int64_t>(), next++);
    }
  }
  EXPECT_EQ(next, 40);
  const Batch one = evaluated(*data_, {7, 8});
  std::vector<float> plain(3072);
  data_->render(7, {}, plain);
  EXPECT_TRUE(torch::equal(one.tensors[0].flatten(), torch::tensor(plain)));
  EXPECT_FALSE(EvaluationLoader(*data_, {7, 7}, 40).next());
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              evaluated(*data_, {0, 41});
            }),
            "[evaluation] samples must lie in [0, 40], got [0, 41)");
}

}  // namespace
}  // namespace sluice::testing
