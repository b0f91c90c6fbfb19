#pragma once

#include "sluice/torch/models/attention.h"
#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// BERT (Devlin et al. 2019) with a head that finds answers: embeddings of
// tokens, positions and segments; layers of attention and of two linear layers
// with GELU, normalised afterwards; a linear layer to two scores per token.
// Tensors are named as in Hugging Face's BertForQuestionAnswering
// (`bert.encoder.layer.0.attention.self.query.weight`, `qa_outputs.weight`),
// with the pooler, which the head does not use: it is there for checkpoints of
// the published model, and its gradients are 0. init_transformer.
//
// Sequences have `positions` tokens at most, or std::invalid_argument is
// thrown; padding, which `mask` tells, changes no score of other tokens. A text
// of padding alone is taken as if all of it counted.
class Bert : public SpanModel {
 public:
  struct Params {
    std::int64_t layers = 0;
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t ffn = 0;
    std::int64_t positions = 512;
    std::int64_t multiple = 8;
    double dropout = 0.1;
    double attention_dropout = -1;
    double eps = 1e-12;
  };
  static ParamList list(Params& p);

  struct Variant {
    std::string_view name, summary;
    std::int64_t layers, width, heads;
  };

  torch::Tensor forward(const torch::Tensor& tokens,
                        const torch::Tensor& segments,
                        const torch::Tensor& mask) override;
  Architecture architecture() const override { return architecture_; }

 protected:
  Bert(const Variant& size, const Params& params, const TokenInput& input);

 private:
  struct Parts;
  class Embeddings;
  class SelfAttention;
  class DenseNorm;
  class Dense;
  class Attention;
  class Layer;

  Architecture architecture_;
  std::string_view name_;
  std::int64_t longest_;
  Dropout dropout_{nullptr};
  Heads heads_{nullptr};
  std::shared_ptr<Embeddings> embeddings_;
  std::vector<std::shared_ptr<Layer>> layers_;
  std::shared_ptr<Dense> pooler_;
  Linear outputs_{nullptr};
};

// Parameters at 30,522 tokens, which are padded to 30,528: 109,488,386.
inline constexpr Bert::Variant kBertBase = {
    "bert-base", "BERT of 12 layers, width 768, 12 heads, for questions", 12,
    768, 12};
// 335,150,082.
inline constexpr Bert::Variant kBertLarge = {
    "bert-large", "BERT of 24 layers, width 1024, 16 heads, for questions", 24,
    1024, 16};

}  // namespace sluice
