#include "sluice/torch/models/model.h"

#include <thread>

#include "sluice/torch/data/loader.h"
#include "sluice/torch/optim/optimizer.h"
#include "sluice/torch/tensors.h"
#include "torch_support.h"

namespace sluice::testing {
namespace {

using Invalid = std::invalid_argument;

constexpr Input kMnist = {1, 28, 28, 10};
constexpr Input kCifar = {3, 32, 32, 10};

struct Count {
  const char* text;
  Input input;
  std::int64_t elements;
  std::size_t tensors;
};

void PrintTo(const Count& count, std::ostream* out) {
  *out << count.text << " on " << count.input.channels << " channels";
}

class ModelCounts : public ::testing::TestWithParam<Count> {};

TEST_P(ModelCounts, AreThoseOfThePapers) {
  const auto parameters =
      parameters_of(*make_model(GetParam().text, GetParam().input));
  EXPECT_EQ(count_elements(parameters), GetParam().elements);
  EXPECT_EQ(parameters.size(), GetParam().tensors);
}

INSTANTIATE_TEST_SUITE_P(
    All, ModelCounts,
    ::testing::Values(Count{"logistic", kMnist, 7850, 2},
                      Count{"mlp", kMnist, 1863690, 6},
                      Count{"mlp:widths=16", kMnist, 12730, 4},
                      Count{"mlp:widths=", kMnist, 7850, 2},
                      Count{"fcn5net", kMnist, 199210, 6},
                      Count{"mnistnet", kMnist, 21840, 8},
                      Count{"lenet", kMnist, 61706, 10},
                      Count{"resnet20", kCifar, 269722, 59},
                      Count{"resnet20", kMnist, 269434, 59},
                      Count{"resnet56", kCifar, 853018, 167},
                      Count{"resnet110", kCifar, 1727962, 329},
                      Count{"vgg16", kCifar, 14728266, 54},
                      Count{"vgg16", kMnist, 14727114, 54}));

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelEntry& entry : models()) names.emplace_back(entry.name);
  return names;
}

// One thread: on a busy machine OpenMP's barriers take longer than the work.
template <class Param>
class OnOneThread : public ::testing::TestWithParam<Param> {
 protected:
  OnOneThread() { torch::set_num_threads(1); }
  ~OnOneThread() override { torch::set_num_threads(threads_); }

 private:
  int threads_ = torch::get_num_threads();
};

class EveryModel : public OnOneThread<std::string> {};

TEST_P(EveryModel, ScoresMnistAndCifar) {
  for (const Input& input : {kMnist, kCifar, Input{3, 32, 32, 100}}) {
    const auto model = make_model(GetParam(), input);
    const auto x = torch::ones({2, input.channels, input.height, input.width});
    const auto scores = model->forward(x);
    EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, input.classes}));
    EXPECT_TRUE(scores.isfinite().all().item<bool>());
  }
}

TEST_P(EveryModel, FollowsItsSeedAlone) {
  torch::manual_seed(1);
  const auto a = parameters_of(*make_model(GetParam(), kMnist, 5));
  torch::manual_seed(2);
  const auto b = parameters_of(*make_model(GetParam(), kMnist, 5));
  const auto c = parameters_of(*make_model(GetParam(), kMnist, 6));
  bool differs = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(torch::equal(a[i].tensor, b[i].tensor)) << a[i].name;
    EXPECT_TRUE(a[i].tensor.requires_grad());
    differs = differs || !torch::equal(a[i].tensor, c[i].tensor);
  }
  EXPECT_TRUE(differs);
}

INSTANTIATE_TEST_SUITE_P(All, EveryModel, ::testing::ValuesIn(model_names()));

struct Lesson {
  const char* text;
  double rate;
};

void PrintTo(const Lesson& lesson, std::ostream* out) { *out << lesson.text; }

class Learning : public OnOneThread<Lesson> {};

TEST_P(Learning, LowersTheLossInAFewSteps) {
  const auto data = make_dataset("synthetic:train=32,noise=0.5");
  const Batch batch = evaluation_batch(*data, {0, 32});
  const auto model = make_model(GetParam().text, data->input());
  const auto optimizer = make_optimizer("sgd", parameters_of(*model));
  const auto step = [&] {
    const auto loss =
        torch::cross_entropy_loss(model->forward(batch.images), batch.labels);
    optimizer->zero_gradients();
    loss.backward();
    optimizer->step(GetParam().rate);
    return loss.item<double>();
  };
  const double first = step();
  double last = first;
  for (int i = 0; i < 10; ++i) last = step();
  EXPECT_LT(last, 0.8 * first);
}

INSTANTIATE_TEST_SUITE_P(
    All, Learning,
    ::testing::Values(Lesson{"logistic", 0.01},
                      Lesson{"mlp:widths=64-64", 0.02}, Lesson{"fcn5net", 0.05},
                      Lesson{"mnistnet:dropout=0", 0.1}, Lesson{"lenet", 0.15},
                      Lesson{"resnet20", 0.05}, Lesson{"vgg16", 0.01}));

TEST(Models, AgreeAcrossThreads) {
  std::vector<std::shared_ptr<Model>> made(4);
  std::vector<std::thread> threads;
  for (auto& model : made) {
    threads.emplace_back([&] { model = make_model("resnet20", kCifar, 3); });
  }
  for (auto& thread : threads) thread.join();
  const auto first = parameters_of(*made[0]);
  for (const auto& model : made) {
    const auto other = parameters_of(*model);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(torch::equal(first[i].tensor, other[i].tensor));
    }
  }
}

// The scale of the first draw, roughly.
TEST(Models, DrawAsDocumented) {
  const auto vgg = parameters_of(*make_model("vgg16", kCifar, 1));
  const auto conv = find_tensor(vgg, "features.24.weight");
  ASSERT_EQ(conv.sizes(), (std::vector<std::int64_t>{512, 256, 3, 3}));
  EXPECT_NEAR(conv.std().item<double>(), std::sqrt(2.0 / (512 * 9)), 1e-4);
  EXPECT_EQ(find_tensor(vgg, "features.24.bias").abs().max().item<float>(), 0);
  const auto mlp = parameters_of(*make_model("mlp", kMnist, 1));
  const auto weight = find_tensor(mlp, "fc1.weight");
  EXPECT_NEAR(weight.max().item<double>(), 1.0 / 28, 1e-5);
  EXPECT_NEAR(weight.min().item<double>(), -1.0 / 28, 1e-5);
}

TEST(Models, DropWhatTheirNoiseSeedSays) {
  const auto model = make_model("mnistnet", kMnist);
  const auto x = torch::ones({4, 1, 28, 28});
  const auto scores = [&](std::uint64_t seed) {
    model->seed_noise(seed);
    return model->forward(x);
  };
  EXPECT_TRUE(torch::equal(scores(1), scores(1)));
  EXPECT_FALSE(torch::equal(scores(1), scores(2)));
  model->eval();
  EXPECT_TRUE(torch::equal(scores(1), scores(2)));
}

TEST(Models, AreDescribed) {
  for (const ModelEntry& entry : models()) {
    EXPECT_EQ(entry.describe().name, entry.name);
    EXPECT_FALSE(entry.describe().summary.empty());
  }
}

TEST(Models, SayWhatWouldWork) {
  const auto complaint = [](std::string_view text, const Input& input) {
    return message_of<Invalid>([&] { make_model(text, input); });
  };
  EXPECT_EQ(complaint("resnet21", kCifar),
            "[make_model] no model 'resnet21'; known: logistic mlp fcn5net "
            "mnistnet lenet resnet20 resnet56 resnet110 vgg16");
  EXPECT_EQ(complaint("resnet20:depth=3", kCifar),
            "[model 'resnet20'] no parameter 'depth'; it has none");
  EXPECT_EQ(complaint("mlp:widths=12-x", kMnist),
            "[model 'mlp'] parameter 'widths' must be numbers joined by '-', "
            "as in 30-60-80, got '12-x'");
  for (const char* text : {"mlp:widths=0", "mlp:widths=1.5"}) {
    EXPECT_CONTAINS(complaint(text, kMnist),
                    "must be whole numbers from 1 to 1000000");
  }
  EXPECT_EQ(complaint("vgg16", {3, 64, 64, 10}),
            "[model 'vgg16'] images must be 28 x 28 or 32 x 32, got 64 x 64");
  EXPECT_EQ(complaint("lenet", {1, 28, 32, 10}),
            "[model 'lenet'] images must be 28 x 28 or 32 x 32, got 28 x 32");
  EXPECT_CONTAINS(complaint("mnistnet", {1, 12, 12, 10}),
                  "images must be at least 16 x 16, got 12 x 12");
  EXPECT_CONTAINS(complaint("resnet20", {1, 2, 2, 10}), "at least 4 x 4");
  EXPECT_CONTAINS(complaint("logistic", {1, 28, 28, 1}),
                  "two classes at least, got 1 x 28 x 28 and 1 classes");
}

}  // namespace
}  // namespace sluice::testing
