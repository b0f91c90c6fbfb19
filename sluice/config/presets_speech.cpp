#include "sluice/config/preset_values.h"

namespace sluice::preset {
namespace {

// Divided by 1.01 in every epoch.
const Values kAn4 = {{"lr_schedule", "exponential:factor=0.99009900990099"},
                     {"clip", "400"}};

}  // namespace

std::vector<Preset> speech() {
  const auto an4 = [](std::string_view batch, std::string_view rate) {
    return job("deepspeech", "an4", batch, rate, "100") + kAn4;
  };
  return {
      {"deepspeech-an4",
       "gTop-k's rates; 1-D tensors dense, DGC's momentum and warm-up",
       an4("8", "0.0003") + kDgc + Values{{"optimizer", kSgd4Dgc}}},
      {"deepspeech-an4-gtopk", kGtopkSource,
       an4("8", "0.0003") + kGtopk + Values{{"optimizer", kSgd4}}},
      {"deepspeech-an4-omgs", kOmgsSource,
       an4("4", "0.0002") + kOmgs + Values{{"optimizer", kSgd4}}},
      {"deepspeech-an4-sidco", kSidcoSource,
       job("deepspeech:width=1024", "an4", "20", "0.0004", "150") + kAn4 +
           kSidco +
           Values{{"optimizer",
                   "sgd:momentum=0.9,weight_decay=0.0001,decay_1d=false"}}},
      {"deepspeech-prompts-small",
       "Sluice: small, for two cores; not of a paper",
       job("deepspeech:width=256,layers=2", "prompts", "8", "0.002", "60") +
           Values{{"sparsifier", "topk"},
                  {"feedback", "residual"},
                  {"density", "0.01"},
                  {"density_schedule", "warmup:epochs=1"},
                  {"optimizer", "adamw:beta1=0"},
                  {"lr_schedule", "cosine:warmup=1,warmup_most=0.1"},
                  {"clip", "400"}}},
  };
}

}  // namespace sluice::preset
