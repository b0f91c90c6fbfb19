#include "sluice/torch/models/attention.h"

#include <cmath>
#include <limits>

#include "sluice/core/error.h"

namespace sluice {

HeadsImpl::HeadsImpl(const Options& options, std::shared_ptr<Noise> noise)
    : options_(options), noise_(std::move(noise)) {}

torch::Tensor HeadsImpl::forward(const torch::Tensor& queries,
                                 const torch::Tensor& keys,
                                 const torch::Tensor& values,
                                 const torch::Tensor& counts) {
  const auto split = [&](const torch::Tensor& x) {
    return x.unflatten(2, {options_.heads, -1}).transpose(1, 2);
  };
  torch::Tensor mask;
  if (counts.defined()) mask = counts.unsqueeze(1).unsqueeze(1);
  const torch::Tensor q = split(queries), k = split(keys), v = split(values);
  torch::Tensor mixed;
  const auto fused = [&](double dropout) {
    return at::scaled_dot_product_attention(
        q, k, v,
        mask.defined() ? std::optional<torch::Tensor>(mask) : std::nullopt,
        dropout, options_.causal);
  };
  if (!is_training() || options_.dropout == 0) {
    mixed = fused(0);
  } else if (q.is_cpu()) {
    mixed = mix_with_noise(q, k, v, mask);
  } else {
    mixed = noise_->lend(q.device(), [&] { return fused(options_.dropout); });
  }
  return mixed.transpose(1, 2).flatten(2);
}

torch::Tensor HeadsImpl::mix_with_noise(const torch::Tensor& queries,
                                        const torch::Tensor& keys,
                                        const torch::Tensor& values,
                                        const torch::Tensor& mask) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const double scale = 1 / std::sqrt(static_cast<double>(queries.size(3)));
  torch::Tensor scores = torch::matmul(queries * scale, keys.transpose(2, 3));
  if (options_.causal) {
    const std::int64_t time = scores.size(3);
    scores = scores + torch::full({time, time}, kNever,
                                  scores.options().requires_grad(false))
                          .triu_(1);
  }
  if (mask.defined()) scores = scores.masked_fill(mask.logical_not(), kNever);
  return torch::matmul(
      noise_->drop(torch::softmax(scores, 3), options_.dropout), values);
}

void check_heads(std::string_view model, std::int64_t width,
                 std::int64_t heads) {
  std::int64_t fits = heads;
  while (width % fits != 0) --fits;
  require(fits == heads, "[model '", model, "'] heads must divide the width, ",
          width, ", got ", heads, "; heads=", fits, " would do");
}

void check_length(std::string_view model, std::string_view parameter,
                  std::int64_t length, std::int64_t limit) {
  require(length <= limit, "[model '", model, "'] sequences must have ", limit,
          " tokens at most (parameter '", parameter, "'), got ", length);
}

}  // namespace sluice
