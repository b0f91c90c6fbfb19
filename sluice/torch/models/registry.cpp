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

constexpr std::array kModels = {
    registry_entry<Logistic, Model, const Input&>(),
    registry_entry<Mlp, Model, const Input&>(),
    registry_entry<Fcn5net, Model, const Input&>(),
    registry_entry<MnistNet, Model, const Input&>(),
    registry_entry<Lenet, Model, const Input&>(),
    registry_entry<Resnet20, Model, const Input&>(),
    registry_entry<Resnet56, Model, const Input&>(),
    registry_entry<Resnet110, Model, const Input&>(),
    registry_entry<Resnet18, Model, const Input&>(),
    registry_entry<Resnet34, Model, const Input&>(),
    registry_entry<Resnet50, Model, const Input&>(),
    registry_entry<Resnet101, Model, const Input&>(),
    registry_entry<Resnet152, Model, const Input&>(),
    registry_entry<Vgg16, Model, const Input&>(),
    registry_entry<Vgg19, Model, const Input&>(),
    registry_entry<Alexnet, Model, const Input&>(),
    registry_entry<VitTiny, Model, const Input&>(),
    registry_entry<VitSmall, Model, const Input&>(),
    registry_entry<VitBase, Model, const Input&>(),
    registry_entry<VitLarge, Model, const Input&>(),
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
