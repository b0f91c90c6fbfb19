#include "sluice/torch/models/vit.h"

#include <numeric>

#include "sluice/core/error.h"
#include "sluice/torch/models/shapes.h"

namespace sluice {
namespace {

class AttentionImpl final : public torch::nn::Module {
 public:
  AttentionImpl(std::int64_t width, std::int64_t heads) : heads_(heads) {
    qkv_ = register_module("qkv", Linear(width, 3 * width));
    proj_ = register_module("proj", Linear(width, width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
    const auto parts = qkv_->forward(x)
                           .reshape({batch, tokens, 3, heads_, width / heads_})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const torch::Tensor mixed =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return proj_->forward(
        mixed.transpose(1, 2).reshape({batch, tokens, width}));
  }

 private:
  std::int64_t heads_;
  Linear qkv_{nullptr}, proj_{nullptr};
};
TORCH_MODULE(Attention);

class EncoderBlockImpl final : public torch::nn::Module {
 public:
  EncoderBlockImpl(std::int64_t width, std::int64_t heads, double eps,
                   const Dropout& dropout)
      : dropout_(dropout) {
    norm1_ = register_module("norm1", LayerNorm(width, eps));
    attn_ = register_module("attn", Attention(width, heads));
    norm2_ = register_module("norm2", LayerNorm(width, eps));
    torch::nn::Sequential mlp;
    mlp->push_back("fc1", Linear(width, 4 * width));
    mlp->push_back("act", torch::nn::GELU());
    mlp->push_back("drop", dropout);
    mlp->push_back("fc2", Linear(4 * width, width));
    mlp_ = register_module("mlp", mlp);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y =
        x + dropout_->forward(attn_->forward(norm1_->forward(x)));
    return y + dropout_->forward(mlp_->forward(norm2_->forward(y)));
  }

 private:
  Dropout dropout_;
  LayerNorm norm1_{nullptr}, norm2_{nullptr};
  Attention attn_{nullptr};
  torch::nn::Sequential mlp_{nullptr};
};
TORCH_MODULE(EncoderBlock);

std::int64_t patch_side(std::string_view name, std::int64_t patch,
                        const ImageInput& input) {
  const std::int64_t side =
      patch > 0 ? patch : (is_imagenet_form("auto", input) ? 16 : 4);
  require(input.height % side == 0 && input.width % side == 0, "[model '", name,
          "'] sides of images must be multiples of the patch, ", side, ", got ",
          input.height, " x ", input.width,
          "; patch=", std::gcd(input.height, input.width),
          " or a divisor of it would do");
  return side;
}

}  // namespace

Vit::Vit(const Variant& size, const Params& params, const ImageInput& input)
    : ImageModel(init_transformer) {
  const std::int64_t side = patch_side(size.name, params.patch, input);
  architecture_ = {.type = "vit",
                   .width = size.width,
                   .layers = size.depth,
                   .heads = size.heads,
                   .inner_width = 4 * size.width,
                   .image_size = input.height,
                   .patch_size = side,
                   .epsilon = params.eps};
  const std::int64_t tokens = 1 + input.height / side * (input.width / side);
  cls_token_ =
      register_parameter("cls_token", torch::empty({1, 1, size.width}));
  pos_embed_ =
      register_parameter("pos_embed", torch::empty({1, tokens, size.width}));
  torch::nn::Sequential patches;
  patches->push_back("proj", Conv(input.channels, size.width, side,
                                  ConvImpl::Options{.stride = side}));
  patches_ = register_module("patch_embed", patches);
  dropout_ = register_module("dropout", Dropout(params.dropout, noise()));
  torch::nn::Sequential blocks;
  for (std::int64_t i = 0; i < size.depth; ++i) {
    blocks->push_back(
        EncoderBlock(size.width, size.heads, params.eps, dropout_));
  }
  blocks_ = register_module("blocks", blocks);
  norm_ = register_module("norm", LayerNorm(size.width, params.eps));
  head_ = register_module("head", Linear(size.width, input.classes));
}

torch::Tensor Vit::forward(const torch::Tensor& images) {
  const torch::Tensor patches =
      patches_->forward(images).flatten(2).transpose(1, 2);
  const torch::Tensor token = cls_token_.expand({images.size(0), -1, -1});
  torch::Tensor x = torch::cat({token, patches}, 1) + pos_embed_;
  x = blocks_->forward(dropout_->forward(x));
  return head_->forward(norm_->forward(x).select(1, 0));
}

void Vit::draw_parameters(torch::Generator& generator) {
  draw_truncated(cls_token_, 0.02, generator);
  draw_truncated(pos_embed_, 0.02, generator);
  ImageModel::draw_parameters(generator);
}

}  // namespace sluice
