#include "sluice/torch/models/deepspeech.h"

#include <cmath>

#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr std::int64_t kMaps = 32;

std::int64_t half(std::int64_t n) { return (n + 1) / 2; }

torch::Tensor cut_off(const torch::Tensor& x) {
  return torch::hardtanh(x, 0, 20);
}

// Which of `times` lie beyond the lengths: bool, batch x times, on the device
// of the data; undefined if none does.
torch::Tensor beyond(const torch::Tensor& lengths, std::int64_t times,
                     const torch::Device& device) {
  if (lengths.min().item<std::int64_t>() >= times) return {};
  return torch::arange(times).ge(lengths.unsqueeze(1)).to(device);
}

torch::Tensor silence(const torch::Tensor& x, const torch::Tensor& where) {
  return where.defined() ? x.masked_fill(where, 0) : x;
}

void check_lengths(const torch::Tensor& spectra, const torch::Tensor& lengths) {
  const std::int64_t clips = spectra.size(0), times = spectra.size(2);
  require(lengths.numel() == clips,
          "[model 'deepspeech'] there must be one "
          "length per clip, got ",
          lengths.numel(), " for ", clips);
  const auto least = lengths.min().item<std::int64_t>();
  const auto most = lengths.max().item<std::int64_t>();
  require(least >= 1 && most <= times,
          "[model 'deepspeech'] lengths must lie in [1, ", times,
          "], the times of the spectra, got ", least, " to ", most);
}

}  // namespace

class DeepSpeech::Front final : public torch::nn::Module {
 public:
  Front() {
    const auto body = std::make_shared<torch::nn::Module>("seq_module");
    conv1_ = body->register_module(
        "0", Conv(1, kMaps, Sides(41, 11),
                  ConvImpl::Options{.stride = 2, .padding = Sides(20, 5)}));
    norm1_ = body->register_module("1", BatchNorm(kMaps));
    conv2_ = body->register_module(
        "3", Conv(kMaps, kMaps, Sides(21, 11),
                  ConvImpl::Options{.stride = Sides(2, 1),
                                    .padding = Sides(10, 5)}));
    norm2_ = body->register_module("4", BatchNorm(kMaps));
    register_module("seq_module", body);
  }

  // Masks are batch x 1 x 1 x time, before and after the first convolution.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& before,
                        const torch::Tensor& after) {
    torch::Tensor y = conv1_->forward(silence(x, before));
    y = cut_off(silence(norm1_->forward(silence(y, after)), after));
    y = conv2_->forward(y);
    return cut_off(silence(norm2_->forward(silence(y, after)), after));
  }

 private:
  Conv conv1_{nullptr}, conv2_{nullptr};
  BatchNorm norm1_{nullptr}, norm2_{nullptr};
};

// Over all times of all clips alike.
class DeepSpeech::RowNorm final : public torch::nn::Module {
 public:
  explicit RowNorm(std::int64_t width) {
    norm_ = register_module("module", BatchNorm(width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return norm_->forward(x.flatten(0, 1)).view_as(x);
  }

 private:
  BatchNorm norm_{nullptr};
};

class DeepSpeech::Recurrent final : public torch::nn::Module {
 public:
  Recurrent(std::int64_t inputs, std::int64_t width, bool normalised) {
    if (normalised) {
      norm_ = register_module("batch_norm", std::make_shared<RowNorm>(inputs));
    }
    rnn_ = register_module("rnn", Lstm(inputs, width));
  }

  // time x batch x inputs; the mask is time x batch x 1. Going one way, what is
  // heard in padding reaches nothing before it.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& padding) {
    LstmImpl::Carried carried;
    return silence(rnn_->forward(norm_ ? norm_->forward(x) : x, carried, 0,
                                 /*batch_first=*/false),
                   padding);
  }

 private:
  std::shared_ptr<RowNorm> norm_;
  Lstm rnn_{nullptr};
};

class DeepSpeech::Ahead final : public torch::nn::Module {
 public:
  Ahead(std::int64_t width, std::int64_t context) : context_(context) {
    const auto body = std::make_shared<torch::nn::Module>("Lookahead");
    weight_ =
        body->register_parameter("weight", torch::empty({width, context + 1}));
    register_module("0", body);
  }

  // time x batch x width.
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor channels =
        torch::constant_pad_nd(x.permute({1, 2, 0}), {0, context_}, 0);
    const auto options =
        torch::nn::functional::Conv1dFuncOptions().groups(weight_.size(0));
    return cut_off(
        torch::nn::functional::conv1d(channels, weight_.unsqueeze(1), options)
            .permute({2, 0, 1}));
  }

  void draw(torch::Generator& generator) {
    const double bound = 1 / std::sqrt(static_cast<double>(context_ + 1));
    weight_.uniform_(-bound, bound, generator);
  }

 private:
  std::int64_t context_;
  torch::Tensor weight_;
};

class DeepSpeech::Last final : public torch::nn::Module {
 public:
  Last(std::int64_t width, std::int64_t labels) {
    const auto body = std::make_shared<torch::nn::Module>("SequenceWise");
    torch::nn::Sequential layers;
    layers->push_back(BatchNorm(width));
    layers->push_back(Linear(width, labels, /*with_bias=*/false));
    layers_ = body->register_module("module", layers);
    register_module("0", body);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return layers_->forward(x.flatten(0, 1))
        .unflatten(0, {x.size(0), x.size(1)});
  }

 private:
  torch::nn::Sequential layers_{nullptr};
};

DeepSpeech::DeepSpeech(const Params& params, const SpeechInput& input)
    : SpeechModel(init_uniform) {
  front_ = register_module("conv", std::make_shared<Front>());
  const auto list = std::make_shared<torch::nn::Module>("rnns");
  std::int64_t inputs = kMaps * half(half(input.bins));
  for (std::int64_t i = 0; i < params.layers; ++i) {
    recurrent_.push_back(list->register_module(
        std::to_string(i),
        std::make_shared<Recurrent>(inputs, params.width, i > 0)));
    inputs = params.width;
  }
  register_module("rnns", list);
  ahead_ = register_module(
      "lookahead", std::make_shared<Ahead>(params.width, params.context));
  last_ =
      register_module("fc", std::make_shared<Last>(params.width, input.labels));
}

SpeechModel::Spelled DeepSpeech::forward(const torch::Tensor& spectra,
                                         const torch::Tensor& lengths) {
  check_lengths(spectra, lengths);
  const torch::Tensor halves = lengths.add(1).div(2, "floor");
  const std::int64_t times = half(spectra.size(2));
  const auto mask = [](const torch::Tensor& x) {
    return x.defined() ? x.unsqueeze(1).unsqueeze(1) : x;
  };
  const torch::Tensor padding = beyond(halves, times, spectra.device());
  torch::Tensor x = front_->forward(
      spectra.unsqueeze(1),
      mask(beyond(lengths, spectra.size(2), spectra.device())), mask(padding));
  x = x.flatten(1, 2).permute({2, 0, 1}).contiguous();
  const torch::Tensor later =
      padding.defined() ? padding.t().unsqueeze(2) : padding;
  for (const auto& layer : recurrent_) x = layer->forward(x, later);
  return {last_->forward(ahead_->forward(x)).transpose(0, 1), halves};
}

void DeepSpeech::draw_parameters(torch::Generator& generator) {
  SpeechModel::draw_parameters(generator);
  ahead_->draw(generator);
}

}  // namespace sluice
