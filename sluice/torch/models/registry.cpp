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

template <class T>
constexpr auto entry() {
  return registry_entry<T, Model, const Input&>();
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

}  // namespace

std::span<const ModelEntry> models() { return kModels; }

std::shared_ptr<Model> make_model(std::string_view text, const Input& input,
                                  std::uint64_t seed) {
  require(input.channels > 0 && input.height > 0 && input.width > 0 &&
              input.classes > 1,
          "[make_model] images must have channels and pixels and there must be "
          "two classes at least, got ",
          input.channels, " x ", input.height, " x ", input.width, " and ",
          input.classes, " classes");
  std::shared_ptr<Model> model = make_from(models(), Model::kKind, text, input);
  model->initialise(seed);
  return model;
}

}  // namespace sluice
