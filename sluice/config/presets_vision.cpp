#include "sluice/config/preset_values.h"

namespace sluice::preset {
namespace {

constexpr std::string_view kPlain =
    "gTop-k's and OMGS's rates; 1-D tensors dense, DGC's momentum and warm-up";
constexpr std::string_view kPlainAdtopk =
    "ADTopk's rates; every tensor keeps its residual, density falls in 4 "
    "epochs";

constexpr std::string_view kSgdImagenet =
    "sgd:momentum=0.9,weight_decay=0.0005";
constexpr std::string_view kSgdImagenetDgc =
    "sgd:momentum=0,weight_decay=0.005";
constexpr std::string_view kSgdAdtopk = "sgd:momentum=0.9,weight_decay=0.00005";
constexpr std::string_view kSgdAdtopkDgc = "sgd:momentum=0,weight_decay=0.0005";

const Values kCifarGtopk =
    kGtopk +
    Values{{"optimizer", kSgd4},
           {"lr_schedule", "steps:at=81-122-155,factor=0.1,warmup=10"}};
const Values kCifarOmgs =
    kOmgs + Values{{"optimizer", kSgd4},
                   {"lr_schedule", "steps:at=81-122-155,factor=0.1,warmup=5"}};
const Values kCifarSidco =
    kSidco +
    Values{{"optimizer", "sgd:momentum=0.9,weight_decay=0.0001,decay_1d=false"},
           {"lr_schedule",
            "steps:at=80-120-150,factor=0.1,warmup=5,warmup_from=step"}};
const Values kCifar =
    kDgc + Values{{"optimizer", kSgd4Dgc},
                  {"lr_schedule", "steps:at=81-122,factor=0.1,warmup=5"}};

const Values kImagenetGtopk =
    kGtopk + Values{{"optimizer", kSgdImagenet},
                    {"lr_schedule", "steps:at=30-60-80,factor=0.1,warmup=10"}};
const Values kImagenetOmgs =
    kOmgs + Values{{"optimizer", kSgdImagenet},
                   {"lr_schedule", "steps:at=30-60-80,factor=0.1,warmup=5"}};
const Values kImagenetSidco =
    kSidco +
    Values{{"optimizer",
            "sgd:momentum=0.875,weight_decay=0.000061035,decay_1d=false"},
           {"lr_schedule",
            "steps:at=30-60-80,factor=0.1,warmup=5,warmup_from=step"}};
const Values kImagenet =
    kDgc + Values{{"optimizer", kSgdImagenetDgc},
                  {"lr_schedule", "steps:at=30-60-80,factor=0.1,warmup=5"}};

// The rate is per worker: 0.0125 P, from 0.0125 on.
constexpr std::string_view kPerWorker =
    "steps:at=30-60-80,factor=0.1,warmup=5,per_worker=true";
const Values kAdtopkJob =
    kAdtopk + Values{{"optimizer", kSgdAdtopk}, {"lr_schedule", kPerWorker}};
// ADTopk with the memory of DGC.
const Values kAdtopkBetter =
    kAdtopk + Values{{"optimizer", kSgdAdtopkDgc},
                     {"lr_schedule", kPerWorker},
                     {"feedback", "dgc"},
                     {"density_schedule", "warmup:epochs=4"}};
// Its steps down lie after the end of these runs.
const Values kMnist =
    kOmgs + Values{{"optimizer", kSgd4}, {"lr_schedule", "constant:warmup=5"}};
const Values kVit = kAdtopk + Values{{"optimizer", "adamw:weight_decay=0"},
                                     {"lr_schedule", "linear"}};

constexpr std::string_view kVgg16Wide = "vgg16:widths=4096-4096";
constexpr std::string_view kVgg19Wide = "vgg19:widths=4096-4096";

}  // namespace

std::vector<Preset> vision() {
  const auto cifar10 = [](std::string_view model, std::string_view batch,
                          std::string_view epochs = "141") {
    return job(model, "cifar10", batch, "0.1", epochs);
  };
  const auto cifar100 = [](std::string_view model) {
    return job(model, "cifar100", "32", "0.0125", "80");
  };
  const auto imagenet = [](std::string_view model, std::string_view batch,
                           std::string_view rate = "0.01",
                           std::string_view epochs = "95") {
    return job(model, "imagefolder", batch, rate, epochs);
  };
  const auto mnist = [](std::string_view model, std::string_view rate,
                        std::string_view epochs) {
    return job(model, "mnist", "128", rate, epochs) + kMnist;
  };
  const auto fashion = [](std::string_view model) {
    return job(model, "fashion-mnist", "64", "0.5", "10") +
           Values{{"optimizer", "sgd:momentum=0"},
                  {"lr_schedule", "cosine:warmup=1,warmup_most=0.2"},
                  {"sparsifier", "adtopk"},
                  {"feedback", "residual"},
                  {"density", "0.01"}};
  };
  // Its memory, and what is kept out of it, as ADTopk's code has them.
  const Values vgg_exceptions = {{"dense", "features.0.weight"},
                                 {"no_feedback", "classifier.6.weight"}};
  const Values fc_exception = {{"no_feedback", "fc.weight"}};
  const Values d10 = {{"density", "0.1"}};
  const Values d5 = {{"density", "0.05"}};
  const Values d1 = {{"density", "0.01"}};
  return {
      {"mlp-fashion-mnist", "Sluice: docs/results.md", fashion("mlp")},
      {"fcn5net-fashion-mnist", "Sluice: docs/results.md", fashion("fcn5net")},
      {"logistic-mnist", kOmgsSource, mnist("logistic", "0.001", "30")},
      {"fcn5net-mnist", kOmgsSource, mnist("fcn5net", "0.01", "30")},
      {"mnistnet-mnist", kOmgsSource, mnist("mnistnet", "0.01", "80")},
      {"lenet-mnist", kSidcoSource, mnist("lenet", "0.01", "80") + kCifarSidco},

      {"resnet20-cifar10", kPlain, cifar10("resnet20", "32") + kCifar},
      {"resnet20-cifar10-gtopk", kGtopkSource,
       cifar10("resnet20", "32") + kCifarGtopk},
      {"resnet20-cifar10-omgs", kOmgsSource,
       cifar10("resnet20", "32") + kCifarOmgs},
      {"resnet20-cifar10-sidco", kSidcoSource,
       cifar10("resnet20", "512", "140") + kCifarSidco},
      {"resnet56-cifar10", kPlain, cifar10("resnet56", "128") + kCifar},
      {"resnet56-cifar10-omgs", kOmgsSource,
       cifar10("resnet56", "128") + kCifarOmgs},
      {"resnet56-cifar10-sidco", kSidcoSource,
       cifar10("resnet56", "128") + kCifarSidco},
      {"resnet110-cifar10", kPlain, cifar10("resnet110", "128") + kCifar},
      {"resnet110-cifar10-omgs", kOmgsSource,
       cifar10("resnet110", "128") + kCifarOmgs},
      {"resnet110-cifar10-sidco", kSidcoSource,
       cifar10("resnet110", "128") + kCifarSidco},
      {"resnet110-cifar10-dgc",
       "DGC (ICLR'18): 164 epochs, 4 of them warm-up; rates of He et al. 2016",
       cifar10("resnet110", "32", "164") + kCifar +
           Values{{"lr_schedule", "steps:at=82-123,factor=0.1"},
                  {"density_schedule", "0.25,0.0625,0.015625,0.004"}}},
      {"vgg16-cifar10", kPlain, cifar10("vgg16", "128") + kCifar},
      {"vgg16-cifar10-gtopk", kGtopkSource,
       cifar10("vgg16", "32") + kCifarGtopk},
      {"vgg16-cifar10-omgs", kOmgsSource, cifar10("vgg16", "128") + kCifarOmgs},
      {"vgg16-cifar10-sidco", kSidcoSource,
       cifar10("vgg16", "512", "140") + kCifarSidco},

      {"resnet50-cifar100", kPlainAdtopk,
       cifar100("resnet50") + kAdtopkBetter + d5},
      {"resnet50-cifar100-adtopk", kAdtopkSource,
       cifar100("resnet50") + kAdtopkJob + fc_exception + d10},
      {"resnet101-cifar100", kPlainAdtopk,
       cifar100("resnet101") + kAdtopkBetter + d5},
      {"resnet101-cifar100-adtopk", kAdtopkSource,
       cifar100("resnet101") + kAdtopkJob + fc_exception + d10},
      {"vgg16-cifar100", kPlainAdtopk,
       cifar100(kVgg16Wide) + kAdtopkBetter + d5},
      {"vgg16-cifar100-adtopk", kAdtopkSource,
       cifar100(kVgg16Wide) + kAdtopkJob + vgg_exceptions + d10},
      {"vgg19-cifar100",
       "ADTopk's rates; it publishes this network's size only",
       cifar100(kVgg19Wide) + kAdtopkBetter + d5},

      {"resnet50-imagenet",
       "DGC (ICLR'18): 90 epochs, 4 of them warm-up; rates of ADTopk's jobs",
       imagenet("resnet50", "32", "0.0125", "90") + kDgc +
           Values{{"optimizer", kSgdAdtopkDgc},
                  {"lr_schedule", kPerWorker},
                  {"density_schedule", "0.25,0.0625,0.015625,0.004"}}},
      {"resnet50-imagenet-gtopk", kGtopkSource,
       imagenet("resnet50", "64") + kImagenetGtopk},
      {"resnet50-imagenet-omgs", kOmgsSource,
       imagenet("resnet50", "32") + kImagenetOmgs},
      {"resnet50-imagenet-sidco", kSidcoSource,
       imagenet("resnet50", "160", "0.2", "90") + kImagenetSidco},
      {"resnet152-imagenet", kPlainAdtopk,
       imagenet("resnet152", "32", "0.0125", "80") + kAdtopkBetter + d5},
      {"resnet152-imagenet-adtopk", kAdtopkSource,
       imagenet("resnet152", "32", "0.0125", "80") + kAdtopkJob + fc_exception +
           d5},
      {"alexnet-imagenet", kPlain, imagenet("alexnet", "256") + kImagenet},
      {"alexnet-imagenet-gtopk", kGtopkSource,
       imagenet("alexnet", "256") + kImagenetGtopk},
      {"alexnet-imagenet-omgs", kOmgsSource,
       imagenet("alexnet", "256") + kImagenetOmgs},
      {"alexnet-imagenet-sidco", kSidcoSource,
       imagenet("alexnet", "128") + kImagenetSidco},
      {"vgg16-imagenet", kPlain, imagenet("vgg16", "64") + kImagenet},
      {"vgg16-imagenet-omgs", kOmgsSource,
       imagenet("vgg16", "64") + kImagenetOmgs},
      {"vgg16-imagenet-sidco", kSidcoSource,
       imagenet("vgg16", "128") + kImagenetSidco},
      {"vgg19-imagenet", kPlainAdtopk,
       imagenet("vgg19:bn=true", "32", "0.0125", "80") + kAdtopkBetter + d1},
      {"vgg19-imagenet-adtopk", kAdtopkSource,
       imagenet("vgg19:bn=true", "32", "0.0125", "80") + kAdtopkJob +
           vgg_exceptions + d1},
      {"vgg19-imagenet-sidco", kSidcoSource,
       imagenet("vgg19", "160", "0.05", "90") + kImagenetSidco},
      {"vit-base-imagenet",
       "ADTopk (extended): 8 epochs for its 80000; from random weights, not "
       "from its checkpoint",
       imagenet("vit-base", "32", "0.00005", "8") + kVit + d10},
      {"vit-large-imagenet",
       "ADTopk (extended): 8 epochs for its 80000; from random weights, not "
       "from its checkpoint",
       imagenet("vit-large", "32", "0.00005", "8") + kVit + d1},
  };
}

}  // namespace sluice::preset
