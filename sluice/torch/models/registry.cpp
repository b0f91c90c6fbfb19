#include <array>

#include "sluice/torch/models/alexnet.h"
#include "sluice/torch/models/convnets.h"
#include "sluice/torch/models/imagenet_resnet.h"
#include "sluice/torch/models/mlp.h"
#include "sluice/torch/models/model.h"
#include "sluice/torch/models/resnet.h"
#include "sluice/torch/models/vgg.h"
#include "sluice/torch/models/vit.h"

namespace sluice {
namespace {

// A model gets the input of its kind.
template <class T>
constexpr ModelEntry entry() {
  return {T::kName, T::kSummary,
          [] {
            typename T::Params params;
            return describe(T::kName, T::kSummary, T::list(params));
          },
          [](const Spec& spec, const ModelInput& input) {
            const auto* own = std::get_if<typename T::Takes>(&input);
            require(own != nullptr, "[model '", T::kName, "'] takes ",
                    describe(ModelInput(typename T::Takes())),
                    " or the like, but the data are ", describe(input));
            return std::unique_ptr<Model>(
                std::make_unique<T>(params_from<T>(spec), *own));
          }};
}

constexpr std::array kModels = {
    entry<Logistic>(),
    entry<Mlp>(),
    entry<Fcn5net>(),
    entry<MnistNet>(),
    entry<Lenet>(),
    entry<VariantOf<Resnet, kResnet20>>(),
    entry<VariantOf<Resnet, kResnet56>>(),
    entry<VariantOf<Resnet, kResnet110>>(),
    entry<VariantOf<ImagenetResnet, kResnet18>>(),
    entry<VariantOf<ImagenetResnet, kResnet34>>(),
    entry<VariantOf<ImagenetResnet, kResnet50>>(),
    entry<VariantOf<ImagenetResnet, kResnet101>>(),
    entry<VariantOf<ImagenetResnet, kResnet152>>(),
    entry<VariantOf<Vgg, kVgg16>>(),
    entry<VariantOf<Vgg, kVgg19>>(),
    entry<Alexnet>(),
    entry<VariantOf<Vit, kVitTiny>>(),
    entry<VariantOf<Vit, kVitSmall>>(),
    entry<VariantOf<Vit, kVitBase>>(),
    entry<VariantOf<Vit, kVitLarge>>(),
};

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

std::span<const ModelEntry> models() { return kModels; }

std::shared_ptr<Model> make_model(std::string_view text,
                                  const ModelInput& input, std::uint64_t seed) {
  std::visit([](const auto& own) { check_input(own); }, input);
  std::shared_ptr<Model> model = make_from(models(), Model::kKind, text, input);
  model->initialise(seed);
  return model;
}

}  // namespace sluice
