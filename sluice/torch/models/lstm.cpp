#include "sluice/torch/models/lstm.h"

#include "sluice/core/error.h"

namespace sluice {
namespace {

void check_state(const LanguageModel::State& state, std::size_t tensors,
                 std::int64_t texts) {
  if (state.empty()) return;
  require(state.size() == tensors, "[model 'lstm'] a state must have ", tensors,
          " tensors, got ", state.size(), "; begin texts with an empty one");
  require(state[0].size(1) == texts,
          "[model 'lstm'] tokens must be of as many texts as the state, got ",
          texts, " and a state of ", state[0].size(1),
          "; begin other texts with an empty one");
}

}  // namespace

LstmModel::LstmModel(const Params& params, const TokenInput& input)
    : LanguageModel(init_uniform) {
  const std::int64_t embed = params.embed > 0 ? params.embed : params.hidden;
  encoder_ = register_module("encoder", Embedding(input.vocabulary, embed));
  rnn_ = register_module("rnn", Lstm(embed, params.hidden, params.layers));
  decoder_ =
      register_module("decoder", Linear(params.hidden, input.vocabulary));
  dropout_ = register_module("dropout", Dropout(params.dropout, noise()));
}

torch::Tensor LstmModel::forward(const torch::Tensor& tokens, State& state) {
  const std::size_t layers = rnn_->layers();
  check_state(state, 2 * layers, tokens.size(0));
  state.resize(2 * layers);
  torch::Tensor x = encoder_->forward(tokens);
  // One layer at a time: the dropout between them is the model's own.
  for (std::size_t i = 0; i < layers; ++i) {
    LstmImpl::Carried carried{state[2 * i], state[2 * i + 1]};
    x = rnn_->forward(dropout_->forward(x), carried, i, /*batch_first=*/true);
    state[2 * i] = carried.hidden.detach();
    state[2 * i + 1] = carried.cell.detach();
  }
  return decoder_->forward(dropout_->forward(x));
}

void LstmModel::draw_parameters(torch::Generator& generator) {
  LanguageModel::draw_parameters(generator);
  encoder_->weight.uniform_(-0.1, 0.1, generator);
  decoder_->weight.uniform_(-0.1, 0.1, generator);
  decoder_->bias.zero_();
}

}  // namespace sluice
