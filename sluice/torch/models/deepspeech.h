#pragma once

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// DeepSpeech 2 (Amodei et al. 2016) that hears the past and a little ahead: two
// convolutions over bands and time that shrink both, cut to 0..20; one-way LSTM
// layers; a convolution over `context` times ahead, of each channel alone; a
// linear layer without bias over the labels. Normalisation after convolutions,
// between recurrent layers and before the last layer. init_uniform, and what
// looks ahead within +-1 / sqrt(context + 1). Tensors are named as in the
// published PyTorch version (`conv.seq_module.0.weight`,
// `rnns.1.batch_norm.module.weight`, `lookahead.0.weight`,
// `fc.0.module.1.weight`).
//
// 161 bands in 29 labels: 27,569,568 parameters; 43,476,256 at width 1024.
//
// Times beyond the lengths are zeroed after every layer, so they change no
// score in evaluation. While training they count, as zeros, in the statistics
// of normalisation, as published.
class DeepSpeech final : public SpeechModel {
 public:
  static constexpr std::string_view kName = "deepspeech";
  static constexpr std::string_view kSummary =
      "two convolutions, one-way LSTM layers, a look ahead, letters";
  struct Params {
    std::int64_t width = 800;
    std::int64_t layers = 5;
    std::int64_t context = 20;
  };
  static ParamList list(Params& p) {
    return {{"width", &p.width, "of the recurrent layers", 1, 65536},
            {"layers", &p.layers, "recurrent layers", 1, 64},
            {"context", &p.context, "times that the last layer looks ahead", 0,
             1024}};
  }

  DeepSpeech(const Params& params, const SpeechInput& input);

  std::int64_t times_of(std::int64_t times) const override {
    return (times + 1) / 2;
  }
  // Throws std::invalid_argument unless
  // lengths are one per clip, from 1 to the times there are.
  Spelled forward(const torch::Tensor& spectra,
                  const torch::Tensor& lengths) override;

 private:
  class Front;
  class Recurrent;
  class Ahead;
  class RowNorm;
  class Last;

  void draw_parameters(torch::Generator& generator) override;

  std::shared_ptr<Front> front_;
  std::vector<std::shared_ptr<Recurrent>> recurrent_;
  std::shared_ptr<Ahead> ahead_;
  std::shared_ptr<Last> last_;
};

}  // namespace sluice
