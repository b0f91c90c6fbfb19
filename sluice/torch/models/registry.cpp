#include <array>

#include "sluice/torch/models/alexnet.h"
#include "sluice/torch/models/bert.h"
#include "sluice/torch/models/convnets.h"
#include "sluice/torch/models/deepspeech.h"
#include "sluice/torch/models/gpt2.h"
#include "sluice/torch/models/imagenet_resnet.h"
#include "sluice/torch/models/lstm.h"
#include "sluice/torch/models/mlp.h"
#include "sluice/torch/models/model.h"
#include "sluice/torch/models/resnet.h"
#include "sluice/torch/models/transformer.h"
#include "sluice/torch/models/vgg.h"
#include "sluice/torch/models/vit.h"

namespace sluice {
namespace {

template <class T>
std::unique_ptr<Model> make(const Spec& spec, const ModelInput& input) {
  const auto* own = std::get_if<typename T::Takes>(&input);
  if (own != nullptr) return std::make_unique<T>(params_from<T>(spec), *own);
  std::string others;
  for (const std::string_view name : models_for(input)) {
    others += concat(" ", name);
  }
  throw std::invalid_argument(concat(
      "[model '", T::kName, "'] takes ", T::kTakes, ", but the data are ",
      describe(input), "; models of such data:", others));
}

template <class T>
constexpr ModelEntry entry() {
  return {T::kName, T::kSummary,
          [] {
            typename T::Params params;
            return describe(T::kName, T::kSummary, T::list(params));
          },
          make<T>};
}

template <class... T>
struct Table {
  static constexpr std::array kEntries = {entry<T>()...};
  static constexpr std::array kTakes = {
      ModelInput(typename T::Takes()).index()...};
};

using All = Table<
    Logistic, Mlp, Fcn5net, MnistNet, Lenet, VariantOf<Resnet, kResnet20>,
    VariantOf<Resnet, kResnet56>, VariantOf<Resnet, kResnet110>,
    VariantOf<ImagenetResnet, kResnet18>, VariantOf<ImagenetResnet, kResnet34>,
    VariantOf<ImagenetResnet, kResnet50>, VariantOf<ImagenetResnet, kResnet101>,
    VariantOf<ImagenetResnet, kResnet152>, VariantOf<Vgg, kVgg16>,
    VariantOf<Vgg, kVgg19>, Alexnet, VariantOf<Vit, kVitTiny>,
    VariantOf<Vit, kVitSmall>, VariantOf<Vit, kVitBase>,
    VariantOf<Vit, kVitLarge>, LstmModel, TransformerModel,
    VariantOf<Gpt2, kGpt2Small>, VariantOf<Gpt2, kGpt2Medium>,
    VariantOf<Gpt2, kGpt2Large>, VariantOf<Gpt2, kGpt2Xl>,
    VariantOf<Bert, kBertBase>, VariantOf<Bert, kBertLarge>, DeepSpeech>;

void check_input(const ImageInput& input) {
  require(input.channels > 0 && input.height > 0 && input.width > 0 &&
              input.classes > 1,
          "[make_model] images must have channels and pixels and there must be "
          "two classes at least, got ",
          input.channels, " x ", input.height, " x ", input.width, " and ",
          input.classes, " classes");
}
void check_input(const TokenInput& input) {
  require(input.vocabulary > 1 && input.length > 0,
          "[make_model] there must be two words at least, and sequences of one "
          "or more, got ",
          input.vocabulary, " and ", input.length);
}
void check_input(const SpeechInput& input) {
  require(input.bins > 0 && input.labels > 1,
          "[make_model] spectra must have bands and there must be two labels "
          "at least, got ",
          input.bins, " and ", input.labels);
}

}  // namespace

std::span<const ModelEntry> models() { return All::kEntries; }

std::vector<std::string_view> models_for(const ModelInput& input) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < All::kEntries.size(); ++i) {
    if (All::kTakes[i] == input.index()) {
      names.push_back(All::kEntries[i].name);
    }
  }
  return names;
}

std::shared_ptr<Model> make_model(std::string_view text,
                                  const ModelInput& input, std::uint64_t seed) {
  std::visit([](const auto& own) { check_input(own); }, input);
  std::shared_ptr<Model> model = make_from(models(), Model::kKind, text, input);
  model->initialise(seed);
  return model;
}

}  // namespace sluice
