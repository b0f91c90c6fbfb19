#pragma once

#include "sluice/torch/models/attention.h"
#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// A language model of encoder layers (Vaswani et al. 2017) that see earlier
// tokens only: embedding times the root of the width, plus sines as positions;
// layers of attention and of two linear layers with ReLU, normalised
// afterwards; a linear layer over all words that does not share weights with
// the embedding. Tensors are named as in torch.nn.TransformerEncoder
// (`transformer_encoder.layers.0.self_attn.in_proj_weight`) and drawn as there;
// embedding and last layer within +-0.1. The defaults are those of the
// published WikiText-2 job: 34,367,678 parameters at 33,278 words. Any length
// will do.
class TransformerModel final : public LanguageModel {
 public:
  static constexpr std::string_view kName = "transformer";
  static constexpr std::string_view kSummary =
      "language model of transformer encoder layers that look back only";
  struct Params {
    std::int64_t layers = 8;
    std::int64_t width = 400;
    std::int64_t ffn = 0;
    std::int64_t heads = 10;
    double dropout = 0.5;
    double attention_dropout = -1;
  };
  static ParamList list(Params& p) {
    return {
        {"layers", &p.layers, "encoder layers", 1, 1024},
        {"width", &p.width, "of tokens between layers", 2, 65536},
        {"ffn", &p.ffn, "width inside the linear part; 0: as width", 0,
         1048576},
        {"heads", &p.heads, "of attention; must divide the width", 1, 1024},
        {"dropout", &p.dropout, "after positions, attention and linear layers",
         0, 0.99},
        {"attention_dropout", &p.attention_dropout,
         "of attention's probabilities, with 0 of which training uses fused "
         "kernels; -1: as dropout",
         -1, 0.99}};
  }

  TransformerModel(const Params& params, const TokenInput& input);
  torch::Tensor forward(const torch::Tensor& tokens, State& state) override;

 private:
  class SelfAttention;
  class Layer;
  void draw_parameters(torch::Generator& generator) override;
  // Sines for the times of x, batch x time x width.
  torch::Tensor positions(const torch::Tensor& x);

  Embedding encoder_{nullptr};
  std::vector<std::shared_ptr<Layer>> layers_;
  Linear decoder_{nullptr};
  Dropout dropout_{nullptr};
  Heads heads_{nullptr};
  torch::Tensor positions_;  // of the longest sequence so far
};

}  // namespace sluice
