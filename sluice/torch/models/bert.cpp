#include "sluice/torch/models/bert.h"

#include "sluice/core/error.h"

namespace sluice {

ParamList Bert::list(Params& p) {
  return {
      {"layers", &p.layers, "0: as published", 0, 1024},
      {"width", &p.width, "of tokens between layers; 0: as published", 0,
       65536},
      {"heads", &p.heads,
       "of attention, must divide the width; 0: as published", 0, 1024},
      {"ffn", &p.ffn, "width inside the linear part; 0: four times the width",
       0, 1048576},
      {"positions", &p.positions, "tokens of the longest sequence", 1, 1048576},
      {"multiple", &p.multiple,
       "the vocabulary is padded to a multiple of this; 1: not", 1, 1024},
      {"dropout", &p.dropout, "after embeddings, attention and linear layers",
       0, 0.99},
      {"attention_dropout", &p.attention_dropout,
       "of attention's probabilities, with 0 of which training uses fused "
       "kernels; -1: as dropout",
       -1, 0.99},
      {"eps", &p.eps, "epsilon of normalisation", 0, 1}};
}

// What all layers are made with.
struct Bert::Parts {
  std::int64_t width, ffn;
  double epsilon;
  Dropout dropout;
  Heads heads;
};

class Bert::Embeddings final : public torch::nn::Module {
 public:
  Embeddings(const Parts& parts, std::int64_t words, std::int64_t positions)
      : dropout_(parts.dropout) {
    const auto add = [&](const char* name, std::int64_t rows) {
      return register_module(name, Embedding(rows, parts.width));
    };
    words_ = add("word_embeddings", words);
    positions_ = add("position_embeddings", positions);
    segments_ = add("token_type_embeddings", 2);
    norm_ = register_module("LayerNorm", LayerNorm(parts.width, parts.epsilon));
  }

  torch::Tensor forward(const torch::Tensor& tokens,
                        const torch::Tensor& segments) {
    const torch::Tensor x = words_->forward(tokens) +
                            segments_->forward(segments) +
                            positions_->weight.narrow(0, 0, tokens.size(1));
    return dropout_->forward(norm_->forward(x));
  }

 private:
  Dropout dropout_;
  Embedding words_{nullptr}, positions_{nullptr}, segments_{nullptr};
  LayerNorm norm_{nullptr};
};

class Bert::SelfAttention final : public torch::nn::Module {
 public:
  explicit SelfAttention(const Parts& parts) : heads_(parts.heads) {
    const auto add = [&](const char* name) {
      return register_module(name, Linear(parts.width, parts.width));
    };
    query_ = add("query");
    key_ = add("key");
    value_ = add("value");
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& counts) {
    return heads_->forward(query_->forward(x), key_->forward(x),
                           value_->forward(x), counts);
  }

 private:
  Heads heads_;
  Linear query_{nullptr}, key_{nullptr}, value_{nullptr};
};

// The end of both halves of a layer: back to the width, and onto what came in.
class Bert::DenseNorm final : public torch::nn::Module {
 public:
  DenseNorm(const Parts& parts, std::int64_t inputs) : dropout_(parts.dropout) {
    dense_ = register_module("dense", Linear(inputs, parts.width));
    norm_ = register_module("LayerNorm", LayerNorm(parts.width, parts.epsilon));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& before) {
    return norm_->forward(dropout_->forward(dense_->forward(x)) + before);
  }

 private:
  Dropout dropout_;
  Linear dense_{nullptr};
  LayerNorm norm_{nullptr};
};

// A linear layer by the name of `dense`.
class Bert::Dense final : public torch::nn::Module {
 public:
  Dense(std::int64_t inputs, std::int64_t outputs) {
    dense_ = register_module("dense", Linear(inputs, outputs));
  }

  torch::Tensor forward(const torch::Tensor& x) { return dense_->forward(x); }

 private:
  Linear dense_{nullptr};
};

class Bert::Attention final : public torch::nn::Module {
 public:
  explicit Attention(const Parts& parts) {
    self_ = register_module("self", std::make_shared<SelfAttention>(parts));
    output_ = register_module("output",
                              std::make_shared<DenseNorm>(parts, parts.width));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& counts) {
    return output_->forward(self_->forward(x, counts), x);
  }

 private:
  std::shared_ptr<SelfAttention> self_;
  std::shared_ptr<DenseNorm> output_;
};

class Bert::Layer final : public torch::nn::Module {
 public:
  explicit Layer(const Parts& parts) {
    attention_ =
        register_module("attention", std::make_shared<Attention>(parts));
    intermediate_ = register_module(
        "intermediate", std::make_shared<Dense>(parts.width, parts.ffn));
    output_ = register_module("output",
                              std::make_shared<DenseNorm>(parts, parts.ffn));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& counts) {
    const torch::Tensor y = attention_->forward(x, counts);
    return output_->forward(torch::gelu(intermediate_->forward(y)), y);
  }

 private:
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Dense> intermediate_;
  std::shared_ptr<DenseNorm> output_;
};

Bert::Bert(const Variant& size, const Params& params, const TokenInput& input)
    : SpanModel(init_transformer),
      name_(size.name),
      longest_(params.positions) {
  const auto given = [](std::int64_t own, std::int64_t published) {
    return own > 0 ? own : published;
  };
  const std::int64_t width = given(params.width, size.width);
  const std::int64_t heads = given(params.heads, size.heads);
  check_heads(name_, width, heads);
  check_length(name_, "positions", input.length, longest_);
  architecture_ = {.type = "bert",
                   .width = width,
                   .layers = given(params.layers, size.layers),
                   .heads = heads,
                   .inner_width = given(params.ffn, 4 * width),
                   .vocabulary = input.vocabulary,
                   .positions = longest_,
                   .epsilon = params.eps};
  const double share =
      params.attention_dropout < 0 ? params.dropout : params.attention_dropout;
  dropout_ = register_module("dropout", Dropout(params.dropout, noise()));
  heads_ = register_module(
      "heads", Heads(HeadsImpl::Options{heads, false, share}, noise()));
  const Parts parts = {width, given(params.ffn, 4 * width), params.eps,
                       dropout_, heads_};
  const std::int64_t times =
      (input.vocabulary + params.multiple - 1) / params.multiple;
  const auto body = std::make_shared<torch::nn::Module>("Bert");
  embeddings_ = body->register_module(
      "embeddings",
      std::make_shared<Embeddings>(parts, times * params.multiple, longest_));
  torch::nn::ModuleList list;
  for (std::int64_t i = 0; i < given(params.layers, size.layers); ++i) {
    layers_.push_back(std::make_shared<Layer>(parts));
    list->push_back(layers_.back());
  }
  const auto encoder = std::make_shared<torch::nn::Module>("Encoder");
  encoder->register_module("layer", list);
  body->register_module("encoder", encoder);
  pooler_ =
      body->register_module("pooler", std::make_shared<Dense>(width, width));
  register_module("bert", body);
  outputs_ = register_module("qa_outputs", Linear(width, 2));
}

torch::Tensor Bert::forward(const torch::Tensor& tokens,
                            const torch::Tensor& segments,
                            const torch::Tensor& mask) {
  check_length(name_, "positions", tokens.size(1), longest_);
  // With nothing to look at, attention would be 0 / 0.
  torch::Tensor counts = mask.ne(0);
  counts = counts.logical_or(counts.any(1, /*keepdim=*/true).logical_not());
  torch::Tensor x = embeddings_->forward(tokens, segments);
  for (const auto& layer : layers_) x = layer->forward(x, counts);
  const torch::Tensor scores = outputs_->forward(x);
  if (!is_training()) return scores;
  // Every parameter gets a gradient: exchanges wait for all of them.
  const torch::Tensor pooled = torch::tanh(pooler_->forward(x.select(1, 0)));
  return scores + 0 * pooled.sum();
}

}  // namespace sluice
