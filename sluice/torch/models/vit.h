#pragma once

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// A vision transformer (Dosovitskiy et al. 2021): square patches of the image
// as tokens, a class token, learned positions, blocks of attention and of two
// linear layers with GELU, normalisation first; the class token's last state
// is what the head sees. Tensors are named as in timm (`blocks.0.attn.qkv`);
// init_transformer, and the class token and positions like weights. Sides of
// images must be multiples of the patch.
class Vit : public ImageModel {
 public:
  struct Params {
    std::int64_t patch = 0;
    double dropout = 0;
    double eps = 1e-6;
  };
  static ParamList list(Params& p) {
    return {{"patch", &p.patch,
             "side of a patch in pixels; 0: 16, or 4 on images under 64 x 64",
             0, 1024},
            {"dropout", &p.dropout,
             "after positions, attention and linear layers of blocks", 0, 0.99},
            {"eps", &p.eps,
             "epsilon of normalisation: timm's; 1e-12 in files of Hugging Face",
             0, 1}};
  }

  struct Variant {
    std::string_view name, summary;
    std::int64_t width, depth, heads;
  };

  torch::Tensor forward(const torch::Tensor& images) override;
  Architecture architecture() const override { return architecture_; }

 protected:
  Vit(const Variant& size, const Params& params, const ImageInput& input);

 private:
  void draw_parameters(torch::Generator& generator) override;

  Architecture architecture_;
  torch::Tensor cls_token_, pos_embed_;
  torch::nn::Sequential patches_{nullptr}, blocks_{nullptr};
  Dropout dropout_{nullptr};
  LayerNorm norm_{nullptr};
  Linear head_{nullptr};
};

// Parameters on ImageNet: 5,717,416.
inline constexpr Vit::Variant kVitTiny = {
    "vit-tiny", "vision transformer of 12 blocks, width 192, 3 heads", 192, 12,
    3};
// 22,050,664.
inline constexpr Vit::Variant kVitSmall = {
    "vit-small", "vision transformer of 12 blocks, width 384, 6 heads", 384, 12,
    6};
// 86,567,656.
inline constexpr Vit::Variant kVitBase = {
    "vit-base", "vision transformer of 12 blocks, width 768, 12 heads", 768, 12,
    12};
// 304,326,632.
inline constexpr Vit::Variant kVitLarge = {
    "vit-large", "vision transformer of 24 blocks, width 1024, 16 heads", 1024,
    24, 16};

}  // namespace sluice
