#pragma once

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// The recurrent language model of Zaremba et al. 2014: an embedding, layers of
// LSTM, a linear layer over all words that does not share weights with the
// embedding; dropout before, between and after the layers. Embedding and last
// layer are drawn within +-0.1, its bias is 0. Tensors are named as in
// PyTorch's word language model (`encoder.weight`, `rnn.weight_ih_l0`,
// `decoder.bias`). The defaults are those of Penn Treebank, 66,034,000
// parameters at 10,000 words; hidden=500,dropout=0.5 has 37,319,278 at
// WikiText-2's 33,278.
//
// The state has two tensors per layer, 1 x batch x hidden: what it puts out,
// and its cell.
class LstmModel final : public LanguageModel {
 public:
  static constexpr std::string_view kName = "lstm";
  static constexpr std::string_view kSummary =
      "language model of LSTM layers between an embedding and a linear layer";
  struct Params {
    std::int64_t hidden = 1500;
    std::int64_t layers = 2;
    std::int64_t embed = 0;
    double dropout = 0.65;
  };
  static ParamList list(Params& p) {
    return {
        {"hidden", &p.hidden, "width of the recurrent layers", 1, 65536},
        {"layers", &p.layers, "recurrent layers", 1, 64},
        {"embed", &p.embed, "width of the embedding; 0: as hidden", 0, 65536},
        {"dropout", &p.dropout, "before, between and after recurrent layers", 0,
         0.99}};
  }

  LstmModel(const Params& params, const TokenInput& input);
  // Throws std::invalid_argument if the state is of another number of texts.
  bool is_recurrent() const override { return true; }
  torch::Tensor forward(const torch::Tensor& tokens, State& state) override;

 private:
  void draw_parameters(torch::Generator& generator) override;

  Embedding encoder_{nullptr};
  Lstm rnn_{nullptr};
  Linear decoder_{nullptr};
  Dropout dropout_{nullptr};
};

}  // namespace sluice
