#include "sluice/torch/models/gpt2.h"

#include <cmath>

#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr double kGpt2Epsilon = 1e-5;

}  // namespace

class Gpt2::SelfAttention final : public torch::nn::Module {
 public:
  SelfAttention(std::int64_t width, Heads heads) : heads_(std::move(heads)) {
    into = register_module("c_attn", Linear(width, 3 * width));
    out = register_module("c_proj", Linear(width, width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto parts = into->forward(x).chunk(3, 2);
    return out->forward(heads_->forward(parts[0], parts[1], parts[2]));
  }

  Linear into{nullptr}, out{nullptr};

 private:
  Heads heads_;
};

class Gpt2::Feed final : public torch::nn::Module {
 public:
  explicit Feed(std::int64_t width) {
    into = register_module("c_fc", Linear(width, 4 * width));
    out = register_module("c_proj", Linear(4 * width, width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return out->forward(torch::gelu(into->forward(x), "tanh"));
  }

  Linear into{nullptr}, out{nullptr};
};

class Gpt2::Block final : public torch::nn::Module {
 public:
  Block(std::int64_t width, const Heads& heads, Dropout dropout)
      : dropout_(std::move(dropout)) {
    norm1_ = register_module("ln_1", LayerNorm(width, kGpt2Epsilon));
    attention_ =
        register_module("attn", std::make_shared<SelfAttention>(width, heads));
    norm2_ = register_module("ln_2", LayerNorm(width, kGpt2Epsilon));
    feed_ = register_module("mlp", std::make_shared<Feed>(width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y =
        x + dropout_->forward(attention_->forward(norm1_->forward(x)));
    return y + dropout_->forward(feed_->forward(norm2_->forward(y)));
  }

  void shrink_residual_weights(double by) {
    attention_->out->weight.div_(by);
    feed_->out->weight.div_(by);
  }

 private:
  Dropout dropout_;
  LayerNorm norm1_{nullptr}, norm2_{nullptr};
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<Feed> feed_;
};

Gpt2::Gpt2(const Variant& size, const Params& params, const TokenInput& input)
    : LanguageModel(init_gpt2), name_(size.name), context_(params.context) {
  const auto given = [](std::int64_t own, std::int64_t published) {
    return own > 0 ? own : published;
  };
  const std::int64_t width = given(params.width, size.width);
  const std::int64_t heads = given(params.heads, size.heads);
  check_heads(name_, width, heads);
  check_length(name_, "context", input.length, context_);
  architecture_ = {.type = "gpt2",
                   .width = width,
                   .layers = given(params.layers, size.layers),
                   .heads = heads,
                   .inner_width = 4 * width,
                   .vocabulary = input.vocabulary,
                   .positions = context_,
                   .epsilon = 1e-5};
  const double share =
      params.attention_dropout < 0 ? params.dropout : params.attention_dropout;
  dropout_ = register_module("dropout", Dropout(params.dropout, noise()));
  heads_ = register_module(
      "heads", Heads(HeadsImpl::Options{heads, true, share}, noise()));
  const auto body = std::make_shared<torch::nn::Module>("Transformer");
  words_ = body->register_module("wte", Embedding(input.vocabulary, width));
  positions_ = body->register_module("wpe", Embedding(context_, width));
  torch::nn::ModuleList list;
  for (std::int64_t i = 0; i < given(params.layers, size.layers); ++i) {
    blocks_.push_back(std::make_shared<Block>(width, heads_, dropout_));
    list->push_back(blocks_.back());
  }
  body->register_module("h", list);
  norm_ = body->register_module("ln_f", LayerNorm(width, kGpt2Epsilon));
  register_module("transformer", body);
}

torch::Tensor Gpt2::forward(const torch::Tensor& tokens, State&) {
  const std::int64_t time = tokens.size(1);
  check_length(name_, "context", time, context_);
  torch::Tensor x =
      words_->forward(tokens) + positions_->weight.narrow(0, 0, time);
  x = dropout_->forward(x);
  for (const auto& block : blocks_) x = block->forward(x);
  return torch::linear(norm_->forward(x), words_->weight);
}

void Gpt2::draw_parameters(torch::Generator& generator) {
  LanguageModel::draw_parameters(generator);
  const double by = std::sqrt(2.0 * static_cast<double>(blocks_.size()));
  for (const auto& block : blocks_) block->shrink_residual_weights(by);
}

}  // namespace sluice
