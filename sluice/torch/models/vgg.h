#pragma once

#include <array>

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"
#include "sluice/torch/models/shapes.h"

namespace sluice {

// VGG (Simonyan, Zisserman 2015): five stages of 3 x 3 convolutions with bias,
// each with a max-pooling after it, then linear layers. Tensors are named as in
// torchvision.
//
// The ImageNet form pools to 7 x 7 and has two inner linear layers of 4096 with
// dropout, and no normalisation unless `bn` asks for it; init_vgg; images of
// 32 x 32 at least. The form for small images, of 32 x 32, or of 28 x 28, which
// are padded, has batch normalisation and one linear layer, called `fc`;
// init_he. Inner layers (`widths`) make it the one of the ADTopk jobs.
class Vgg : public ImageModel {
 public:
  struct Params {
    std::string form = "auto";
    std::string bn = "auto";
    std::string widths = "auto";
    double dropout = 0.5;
  };
  static ParamList list(Params& p) {
    return {
        {"form", &p.form, "auto: cifar for images under 64 x 64", 0, 0, kForms},
        {"bn",
         &p.bn,
         "batch normalisation: true, false or, as the form has it, auto",
         0,
         0,
         {"auto", "true", "false"}},
        {"widths", &p.widths,
         "of the inner linear layers, joined by '-'; auto: 4096-4096, or "
         "none in form cifar"},
        {"dropout", &p.dropout, "after every inner linear layer", 0, 0.99}};
  }
  struct Variant {
    std::string_view name, summary;
    std::array<int, 5> stages;  // convolutions of each
  };

  torch::Tensor forward(const torch::Tensor& images) override;

 protected:
  Vgg(const Variant& variant, const Params& params, const ImageInput& input);

 private:
  torch::nn::Sequential inner_layers(std::int64_t inputs,
                                     const std::vector<std::int64_t>& widths,
                                     double dropout, std::int64_t classes);

  bool imagenet_;
  std::int64_t padding_ = 0;
  torch::nn::Sequential features_{nullptr};
  torch::nn::Sequential classifier_{nullptr};
  Linear fc_{nullptr};  // in place of `classifier_`
};

// Parameters on ImageNet: 138,357,544 (with bn: 138,365,992); on CIFAR-10:
// 14,728,266 in 54 tensors; on CIFAR-100 with widths=4096-4096: 34,015,396.
inline constexpr Vgg::Variant kVgg16 = {
    "vgg16", "VGG-16: 13 convolutions and linear layers", {2, 2, 3, 3, 3}};
// Parameters on ImageNet: 143,667,240 (with bn: 143,678,248); on CIFAR-100 with
// widths=4096-4096: 39,327,652.
inline constexpr Vgg::Variant kVgg19 = {
    "vgg19", "VGG-19: 16 convolutions and linear layers", {2, 2, 4, 4, 4}};

}  // namespace sluice
