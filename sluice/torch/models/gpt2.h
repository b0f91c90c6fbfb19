#pragma once

#include "sluice/torch/models/attention.h"
#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// GPT-2 (Radford et al. 2019): tokens and learned positions, blocks of
// attention to earlier tokens and of two linear layers with GELU (by tanh),
// normalisation first; scores are products with the embedding, which is a
// parameter once. Tensors are named as in Hugging Face's
// (`transformer.h.0.attn.c_attn.weight`), but weights are outputs x inputs, as
// everywhere here. init_gpt2; what adds to the residual path is drawn smaller,
// by the root of twice the layers. Sequences have `context` tokens at most, or
// std::invalid_argument is thrown.
class Gpt2 : public LanguageModel {
 public:
  struct Params {
    std::int64_t layers = 0;
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t context = 1024;
    double dropout = 0.1;
    double attention_dropout = -1;
  };
  static ParamList list(Params& p) {
    return {
        {"layers", &p.layers, "blocks; 0: as published", 0, 1024},
        {"width", &p.width, "of tokens between blocks; 0: as published", 0,
         65536},
        {"heads", &p.heads,
         "of attention, must divide the width; 0: as published", 0, 1024},
        {"context", &p.context, "tokens of the longest sequence", 1, 1048576},
        {"dropout", &p.dropout, "after positions, attention and linear layers",
         0, 0.99},
        {"attention_dropout", &p.attention_dropout,
         "of attention's probabilities, with 0 of which training uses fused "
         "kernels; -1: as dropout",
         -1, 0.99}};
  }

  struct Variant {
    std::string_view name, summary;
    std::int64_t layers, width, heads;
  };

  torch::Tensor forward(const torch::Tensor& tokens, State& state) override;
  Architecture architecture() const override { return architecture_; }

 protected:
  Gpt2(const Variant& size, const Params& params, const TokenInput& input);

 private:
  class SelfAttention;
  class Feed;
  class Block;
  void draw_parameters(torch::Generator& generator) override;

  Architecture architecture_;
  std::string_view name_;
  std::int64_t context_;
  Dropout dropout_{nullptr};
  Heads heads_{nullptr};
  Embedding words_{nullptr}, positions_{nullptr};
  std::vector<std::shared_ptr<Block>> blocks_;
  LayerNorm norm_{nullptr};
};

// Parameters at 50,257 tokens: 124,439,808.
inline constexpr Gpt2::Variant kGpt2Small = {
    "gpt2", "GPT-2 of 12 blocks, width 768, 12 heads", 12, 768, 12};
// 354,823,168.
inline constexpr Gpt2::Variant kGpt2Medium = {
    "gpt2-medium", "GPT-2 of 24 blocks, width 1024, 16 heads", 24, 1024, 16};
// 774,030,080.
inline constexpr Gpt2::Variant kGpt2Large = {
    "gpt2-large", "GPT-2 of 36 blocks, width 1280, 20 heads", 36, 1280, 20};
// 1,557,611,200.
inline constexpr Gpt2::Variant kGpt2Xl = {
    "gpt2-xl", "GPT-2 of 48 blocks, width 1600, 25 heads", 48, 1600, 25};

}  // namespace sluice
