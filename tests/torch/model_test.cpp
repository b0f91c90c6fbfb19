#include "sluice/torch/models/model.h"

#include <thread>

#include "files.h"
#include "sluice/torch/data/loader.h"
#include "sluice/torch/optim/optimizer.h"
#include "sluice/torch/tensors.h"
#include "torch/blank_model.h"

namespace sluice::testing {
namespace {

using Invalid = std::invalid_argument;

constexpr ImageInput kMnist = {1, 28, 28, 10};
constexpr ImageInput kCifar = {3, 32, 32, 10};
constexpr ImageInput kCifar100 = {3, 32, 32, 100};
constexpr ImageInput kImagenet = {3, 224, 224, 1000};

struct Count {
  const char* text;
  ImageInput input;
  std::int64_t elements;
  std::size_t tensors;
};

void PrintTo(const Count& count, std::ostream* out) {
  *out << count.text << " on " << count.input.channels << " x "
       << count.input.height << " x " << count.input.width;
}

class ModelCounts : public ::testing::TestWithParam<Count> {};

TEST_P(ModelCounts, AreThoseOfThePapers) {
  const auto parameters =
      parameters_of(*blank_model(GetParam().text, GetParam().input));
  EXPECT_EQ(count_elements(parameters), GetParam().elements);
  EXPECT_EQ(parameters.size(), GetParam().tensors);
  for (const auto& [name, tensor] : parameters) {
    EXPECT_TRUE(tensor.is_meta()) << name;
  }
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

INSTANTIATE_TEST_SUITE_P(
    Large, ModelCounts,
    ::testing::Values(Count{"resnet18", kImagenet, 11689512, 62},
                      Count{"resnet34", kImagenet, 21797672, 110},
                      Count{"resnet50", kImagenet, 25557032, 161},
                      Count{"resnet50", kCifar100, 23705252, 161},
                      Count{"resnet50:form=imagenet", kCifar100, 23712932, 161},
                      Count{"resnet101", kImagenet, 44549160, 314},
                      Count{"resnet101", kCifar100, 42697380, 314},
                      Count{"resnet152", kImagenet, 60192808, 467},
                      Count{"vgg16", kImagenet, 138357544, 32},
                      Count{"vgg16:bn=true", kImagenet, 138365992, 58},
                      Count{"vgg16:widths=4096-4096", kCifar100, 34015396, 58},
                      Count{"vgg16:bn=false", kCifar, 14719818, 28},
                      Count{"vgg19", kImagenet, 143667240, 38},
                      Count{"vgg19:bn=true", kImagenet, 143678248, 70},
                      Count{"vgg19", kCifar100, 20086692, 66},
                      Count{"vgg19:widths=4096-4096", kCifar100, 39327652, 70},
                      Count{"alexnet", kImagenet, 61100840, 16},
                      Count{"vit-tiny", kImagenet, 5717416, 152},
                      Count{"vit-small", kImagenet, 22050664, 152},
                      Count{"vit-base", kImagenet, 86567656, 152},
                      Count{"vit-large", kImagenet, 304326632, 296}));

struct Named {
  const char* text;
  ImageInput input;
  const char* tensor;
  std::vector<std::int64_t> dims;
};

// What exceptions of methods refer to. The Python test compares all names of
// some networks; these are of the others too.
TEST(Models, NameTensorsAsTorchvisionAndTimmDo) {
  for (const Named& wanted : std::vector<Named>{
           {"resnet18", kImagenet, "conv1.weight", {64, 3, 7, 7}},
           {"resnet18", kCifar, "conv1.weight", {64, 3, 3, 3}},
           {"resnet34", kImagenet, "layer2.0.downsample.1.bias", {128}},
           {"resnet50", kImagenet, "fc.weight", {1000, 2048}},
           {"resnet50", kImagenet, "layer1.0.conv3.weight", {256, 64, 1, 1}},
           {"resnet101", kImagenet, "layer3.22.bn3.weight", {1024}},
           {"resnet152", kImagenet, "layer3.35.conv2.weight", {256, 256, 3, 3}},
           {"vgg16", kImagenet, "features.28.weight", {512, 512, 3, 3}},
           {"vgg16", kImagenet, "classifier.0.weight", {4096, 25088}},
           {"vgg16", kImagenet, "classifier.3.weight", {4096, 4096}},
           {"vgg16", kImagenet, "classifier.6.weight", {1000, 4096}},
           {"vgg16", kCifar, "fc.weight", {10, 512}},
           {"vgg16:widths=4096-4096",
            kCifar100,
            "classifier.6.weight",
            {100, 4096}},
           {"vgg19", kImagenet, "features.34.bias", {512}},
           {"vgg19:bn=true", kImagenet, "features.50.weight", {512}},
           {"alexnet", kImagenet, "features.10.weight", {256, 256, 3, 3}},
           {"alexnet", kImagenet, "classifier.1.weight", {4096, 9216}},
           {"alexnet", kImagenet, "classifier.6.bias", {1000}},
           {"vit-base", kImagenet, "pos_embed", {1, 197, 768}},
           {"vit-base", kCifar, "patch_embed.proj.weight", {768, 3, 4, 4}},
           {"vit-large", kImagenet, "blocks.23.mlp.fc1.weight", {4096, 1024}},
           {"vit-large", kImagenet, "head.weight", {1000, 1024}}}) {
    const auto tensors = parameters_of(*blank_model(wanted.text, wanted.input));
    const auto tensor = find_tensor(tensors, wanted.tensor);
    ASSERT_TRUE(tensor.defined()) << wanted.text << ": " << wanted.tensor;
    EXPECT_EQ(tensor.sizes(), wanted.dims) << wanted.tensor;
  }
}

// Else the tests that follow would have tensors without values.
TEST(BlankModel, LeavesTheKeysOfTheThreadAsTheyWere) {
  const auto keys = [] {
    const c10::impl::LocalDispatchKeySet set =
        c10::impl::tls_local_dispatch_key_set();
    return std::pair(set.included_.raw_repr(), set.excluded_.raw_repr());
  };
  // On a thread that has made no blank model before.
  std::thread([&] {
    const auto before = keys();
    const auto model = blank_model("lenet", kMnist);
    EXPECT_TRUE(parameters_of(*model)[0].tensor.is_meta());
    EXPECT_EQ(keys(), before);
  }).join();
}

// Larger ones differ from these in numbers only.
std::vector<std::string> model_names() {
  std::vector<std::string> names = {"alexnet:widths=64-64"};
  for (const std::string_view name : models_for(kCifar)) {
    if (name == "alexnet") continue;
    const auto model = blank_model(name, kCifar);
    if (count_elements(parameters_of(*model)) > 20'000'000) continue;
    names.emplace_back(name);
  }
  return names;
}

std::vector<ImageInput> inputs_of(const std::string& model) {
  if (model.starts_with("alexnet")) return {{1, 64, 80, 10}, {3, 64, 64, 100}};
  return {kMnist, kCifar, kCifar100};
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

TEST_P(EveryModel, ScoresSmallImages) {
  for (const ImageInput& input : inputs_of(GetParam())) {
    const auto model = make_model_of<ImageModel>(GetParam(), input);
    const auto x = torch::ones({2, input.channels, input.height, input.width});
    const auto scores = model->forward(x);
    EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, input.classes}));
    EXPECT_TRUE(scores.isfinite().all().item<bool>());
  }
}

TEST_P(EveryModel, FollowsItsSeedAlone) {
  const ImageInput input = inputs_of(GetParam())[0];
  torch::manual_seed(1);
  const auto a = parameters_of(*make_model(GetParam(), input, 5));
  torch::manual_seed(2);
  const auto b = parameters_of(*make_model(GetParam(), input, 5));
  const auto c = parameters_of(*make_model(GetParam(), input, 6));
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
  const Batch batch = *EvaluationLoader(*data, {0, 32}, 32).next();
  const auto model = make_model_of<ImageModel>(GetParam().text, data->input());
  const auto optimizer = make_optimizer("sgd", parameters_of(*model));
  const auto step = [&] {
    const auto loss = torch::cross_entropy_loss(
        model->forward(batch.tensors[0]), batch.tensors[1]);
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
                      Lesson{"resnet20", 0.05}, Lesson{"vgg16", 0.01},
                      Lesson{"resnet18:form=imagenet", 0.02},
                      Lesson{"vit-tiny:patch=14", 0.05}));

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
  EXPECT_NEAR(find_tensor(vgg, "fc.weight").std().item<double>(),
              std::sqrt(2.0 / 512), 2e-3);
  const auto large =
      parameters_of(*make_model("vgg16:form=imagenet,widths=64-64", kCifar, 1));
  EXPECT_NEAR(find_tensor(large, "classifier.0.weight").std().item<double>(),
              0.01, 1e-4);
  const auto resnet = parameters_of(*make_model("resnet18", kCifar, 1));
  EXPECT_NEAR(find_tensor(resnet, "layer4.1.conv1.weight").std().item<double>(),
              std::sqrt(2.0 / (512 * 9)), 1e-4);
  EXPECT_NEAR(find_tensor(resnet, "fc.weight").max().item<double>(),
              1 / std::sqrt(512.0), 1e-4);
  // Cut at two deviations, a normal has 0.88 of its deviation left.
  const auto vit = parameters_of(*make_model("vit-tiny", kCifar, 1));
  for (const char* name : {"blocks.3.attn.qkv.weight", "pos_embed",
                           "patch_embed.proj.weight", "cls_token"}) {
    const auto drawn = find_tensor(vit, name);
    EXPECT_NEAR(drawn.std().item<double>(), 0.0176, 2e-3) << name;
    EXPECT_LE(drawn.abs().max().item<double>(), 0.04 + 1e-6) << name;
  }
  const auto mlp = parameters_of(*make_model("mlp", kMnist, 1));
  const auto weight = find_tensor(mlp, "fc1.weight");
  EXPECT_NEAR(weight.max().item<double>(), 1.0 / 28, 1e-5);
  EXPECT_NEAR(weight.min().item<double>(), -1.0 / 28, 1e-5);
}

class Dropping : public OnOneThread<std::string> {};

TEST_P(Dropping, FollowsItsSeedWhileTraining) {
  const ImageInput input = inputs_of(GetParam())[0];
  const auto model = make_model_of<ImageModel>(GetParam(), input);
  const auto x = torch::ones({2, input.channels, input.height, input.width});
  const auto scores = [&](std::uint64_t seed) {
    model->seed_noise(seed);
    return model->forward(x);
  };
  EXPECT_TRUE(torch::equal(scores(1), scores(1)));
  EXPECT_FALSE(torch::equal(scores(1), scores(2)));
  model->eval();
  EXPECT_TRUE(torch::equal(scores(1), scores(2)));
}

INSTANTIATE_TEST_SUITE_P(All, Dropping,
                         ::testing::Values("mnistnet", "vgg16:widths=64",
                                           "alexnet:widths=64-64",
                                           "vit-tiny:dropout=0.1"));

// Of torch's own generator of the CPU, as fused kernels of a GPU draw.
std::vector<torch::Tensor> drop_by_torch(std::uint64_t seed, int times) {
  Noise noise;
  noise.seed(seed);
  const torch::Tensor ones = torch::ones({64});
  std::vector<torch::Tensor> dropped;
  for (int i = 0; i < times; ++i) {
    dropped.push_back(noise.lend(
        torch::kCPU, [&] { return torch::dropout(ones, 0.5, true); }));
  }
  return dropped;
}

TEST(Noise, LendsItsNumbersToTorchWhateverTheThreads) {
  constexpr int kTimes = 200;
  std::vector<std::vector<torch::Tensor>> of_thread(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < of_thread.size(); ++t) {
    threads.emplace_back(
        [&, t] { of_thread[t] = drop_by_torch(t == 2 ? 8 : 7, kTimes); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kTimes; ++i) {
    EXPECT_TRUE(of_thread[0][i].equal(of_thread[1][i])) << i;
    EXPECT_FALSE(of_thread[0][i].equal(of_thread[2][i])) << i;
    if (i > 0) {
      EXPECT_FALSE(of_thread[0][i].equal(of_thread[0][i - 1])) << i;
    }
  }
}

TEST(Noise, KeepsTheMean) {
  Noise noise;
  const auto x = torch::full({100, 20, 5, 5}, 3.0);
  const auto some = noise.drop(x, 0.25);
  EXPECT_NEAR(some.mean().item<double>(), 3, 0.05);
  EXPECT_EQ(some.max().item<float>(), 4);
  EXPECT_EQ(some.min().item<float>(), 0);
  const auto channels = noise.drop_channels(x, 0.25);
  EXPECT_NEAR(channels.mean().item<double>(), 3, 0.2);
  EXPECT_TRUE(torch::equal(channels.amax({2, 3}), channels.amin({2, 3})));
  EXPECT_TRUE(torch::equal(noise.drop(x, 0), x));
}

TEST(Vit, FusedAttentionIsThePlainOne) {
  const auto model = make_model_of<ImageModel>("vit-tiny", {3, 32, 32, 10}, 1);
  const torch::Tensor images = torch::rand({2, 3, 32, 32});
  const torch::NoGradGuard no_gradients;
  const torch::Tensor fused = model->forward(images);
  at::globalContext().setSDPUseFlash(false);
  const torch::Tensor plain = model->forward(images);
  at::globalContext().setSDPUseFlash(true);
  EXPECT_TRUE(torch::allclose(fused, plain, 1e-4, 1e-5));
}

TEST(Models, AreDescribed) {
  for (const ModelEntry& entry : models()) {
    EXPECT_EQ(entry.describe().name, entry.name);
    EXPECT_FALSE(entry.describe().summary.empty());
  }
}

TEST(Models, SayWhatWouldWork) {
  const auto complaint = [](std::string_view text, const ImageInput& input) {
    return message_of<Invalid>([&] { make_model(text, input); });
  };
  EXPECT_EQ(complaint("resnet21", kCifar),
            "[make_model] no model 'resnet21'; known: logistic mlp fcn5net "
            "mnistnet lenet resnet20 resnet56 resnet110 resnet18 resnet34 "
            "resnet50 resnet101 resnet152 vgg16 vgg19 alexnet vit-tiny "
            "vit-small vit-base vit-large lstm transformer gpt2 gpt2-medium "
            "gpt2-large gpt2-xl bert-base bert-large deepspeech");
  EXPECT_EQ(complaint("resnet20:depth=3", kCifar),
            "[model 'resnet20'] no parameter 'depth'; it has none");
  EXPECT_EQ(complaint("mlp:widths=12-x", kMnist),
            "[model 'mlp'] parameter 'widths' must be numbers joined by '-', "
            "as in 30-60-80, got '12-x'");
  for (const char* text : {"mlp:widths=0", "mlp:widths=1.5"}) {
    EXPECT_CONTAINS(complaint(text, kMnist),
                    "must be whole numbers from 1 to 1000000");
  }
  EXPECT_EQ(complaint("vgg16:form=cifar", {3, 64, 64, 10}),
            "[model 'vgg16'] images must be 28 x 28 or 32 x 32, got 64 x 64");
  EXPECT_EQ(complaint("vgg19:form=imagenet", kMnist),
            "[model 'vgg19'] images must be at least 32 x 32 in form imagenet, "
            "got 28 x 28");
  EXPECT_EQ(complaint("vgg16:widths=x", kCifar),
            "[model 'vgg16'] parameter 'widths' must be numbers joined by '-', "
            "as in 30-60-80, got 'x'");
  EXPECT_EQ(complaint("resnet50:form=tiny", kCifar),
            "[model 'resnet50'] parameter 'form' must be one of auto imagenet "
            "cifar, got 'tiny'");
  EXPECT_EQ(complaint("alexnet", kCifar),
            "[model 'alexnet'] images must be at least 63 x 63, got 32 x 32");
  EXPECT_EQ(complaint("vit-base:patch=16", kMnist),
            "[model 'vit-base'] sides of images must be multiples of the "
            "patch, 16, got 28 x 28; patch=28 or a divisor of it would do");
  EXPECT_EQ(complaint("lenet", {1, 28, 32, 10}),
            "[model 'lenet'] images must be 28 x 28 or 32 x 32, got 28 x 32");
  EXPECT_CONTAINS(complaint("mnistnet", {1, 12, 12, 10}),
                  "images must be at least 16 x 16, got 12 x 12");
  EXPECT_CONTAINS(complaint("resnet20", {1, 2, 2, 10}), "at least 4 x 4");
  EXPECT_EQ(message_of<Invalid>([] {
              make_model_of<ImageModel>("resnet18", {3, 8, 8, 10})
                  ->forward(torch::ones({1, 3, 8, 8}));
            }),
            "[batch norm] training needs two values per channel at least, got "
            "1; take a larger batch or larger images");
  EXPECT_CONTAINS(complaint("logistic", {1, 28, 28, 1}),
                  "two classes at least, got 1 x 28 x 28 and 1 classes");
}

}  // namespace
}  // namespace sluice::testing
