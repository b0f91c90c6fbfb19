#include "sluice/torch/models/transformer.h"

#include <cmath>

#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr double kLayerEpsilon = 1e-5;

torch::Tensor make_sines(std::int64_t times, std::int64_t width) {
  const auto options = torch::TensorOptions(torch::kDouble);
  const torch::Tensor rates =
      torch::arange(0, width, 2, options)
          .mul(-std::log(10000.0) / static_cast<double>(width))
          .exp();
  const torch::Tensor angles =
      torch::arange(times, options).unsqueeze(1) * rates;
  // Of an odd width the last pair has no cosine.
  return torch::stack({angles.sin(), angles.cos()}, 2)
      .flatten(1)
      .narrow(1, 0, width);
}

}  // namespace

// torch.nn.MultiheadAttention: one weight for queries, keys and values.
class TransformerModel::SelfAttention final : public torch::nn::Module {
 public:
  SelfAttention(std::int64_t width, Heads heads) : heads_(std::move(heads)) {
    in_weight_ =
        register_parameter("in_proj_weight", torch::empty({3 * width, width}));
    in_bias_ = register_parameter("in_proj_bias", torch::empty({3 * width}));
    out_ = register_module("out_proj", Linear(width, width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto parts = torch::linear(x, in_weight_, in_bias_).chunk(3, 2);
    return out_->forward(heads_->forward(parts[0], parts[1], parts[2]));
  }

  void draw(torch::Generator& generator) {
    const auto sides =
        static_cast<double>(in_weight_.size(0) + in_weight_.size(1));
    const double bound = std::sqrt(6 / sides);
    in_weight_.uniform_(-bound, bound, generator);
    in_bias_.zero_();
    out_->bias.zero_();
  }

 private:
  Heads heads_;
  torch::Tensor in_weight_, in_bias_;
  Linear out_{nullptr};
};

class TransformerModel::Layer final : public torch::nn::Module {
 public:
  Layer(std::int64_t width, std::int64_t ffn, const Heads& heads,
        Dropout dropout)
      : dropout_(std::move(dropout)) {
    attention_ = register_module("self_attn",
                                 std::make_shared<SelfAttention>(width, heads));
    linear1_ = register_module("linear1", Linear(width, ffn));
    linear2_ = register_module("linear2", Linear(ffn, width));
    norm1_ = register_module("norm1", LayerNorm(width, kLayerEpsilon));
    norm2_ = register_module("norm2", LayerNorm(width, kLayerEpsilon));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y =
        norm1_->forward(x + dropout_->forward(attention_->forward(x)));
    const torch::Tensor inner =
        dropout_->forward(torch::relu(linear1_->forward(y)));
    return norm2_->forward(y + dropout_->forward(linear2_->forward(inner)));
  }

  void draw(torch::Generator& generator) { attention_->draw(generator); }

 private:
  Dropout dropout_;
  std::shared_ptr<SelfAttention> attention_;
  Linear linear1_{nullptr}, linear2_{nullptr};
  LayerNorm norm1_{nullptr}, norm2_{nullptr};
};

TransformerModel::TransformerModel(const Params& params,
                                   const TokenInput& input)
    : LanguageModel(init_uniform) {
  check_heads(kName, params.width, params.heads);
  const double share =
      params.attention_dropout < 0 ? params.dropout : params.attention_dropout;
  const std::int64_t ffn = params.ffn > 0 ? params.ffn : params.width;
  encoder_ =
      register_module("encoder", Embedding(input.vocabulary, params.width));
  dropout_ = register_module("dropout", Dropout(params.dropout, noise()));
  heads_ = register_module(
      "heads", Heads(HeadsImpl::Options{params.heads, true, share}, noise()));
  torch::nn::ModuleList list;
  for (std::int64_t i = 0; i < params.layers; ++i) {
    layers_.push_back(
        std::make_shared<Layer>(params.width, ffn, heads_, dropout_));
    list->push_back(layers_.back());
  }
  const auto layers = std::make_shared<torch::nn::Module>("TransformerEncoder");
  layers->register_module("layers", list);
  register_module("transformer_encoder", layers);
  decoder_ = register_module("decoder", Linear(params.width, input.vocabulary));
}

torch::Tensor TransformerModel::forward(const torch::Tensor& tokens, State&) {
  torch::Tensor x = encoder_->forward(tokens);
  x = x * std::sqrt(static_cast<double>(x.size(2))) + positions(x);
  x = dropout_->forward(x);
  for (const auto& layer : layers_) x = layer->forward(x);
  return decoder_->forward(x);
}

torch::Tensor TransformerModel::positions(const torch::Tensor& x) {
  const std::int64_t times = x.size(1);
  if (!positions_.defined() || positions_.size(0) < times) {
    positions_ = make_sines(times, x.size(2));
  }
  // Kept where and as they are used, so that a step copies nothing.
  if (positions_.device() != x.device() || positions_.dtype() != x.dtype()) {
    positions_ = make_sines(positions_.size(0), x.size(2))
                     .to(x.device(), x.scalar_type());
  }
  return positions_.narrow(0, 0, times);
}

void TransformerModel::draw_parameters(torch::Generator& generator) {
  LanguageModel::draw_parameters(generator);
  for (const auto& layer : layers_) layer->draw(generator);
  encoder_->weight.uniform_(-0.1, 0.1, generator);
  decoder_->weight.uniform_(-0.1, 0.1, generator);
  decoder_->bias.zero_();
}

}  // namespace sluice
