#include "sluice/torch/train/evaluation.h"

#include <ATen/autocast_mode.h>

#include <cstring>

#include "sluice/run/ranks.h"

namespace sluice {
namespace {

// Sums over the ranks in their order, so that all get the same.
Evaluation sum_over_ranks(Communicator& comm, std::uint64_t step,
                          const Evaluation& mine) {
  const auto all = gather_at_first(comm, "evaluation", step,
                                   std::as_bytes(std::span(&mine, 1)));
  Evaluation sum;
  for (const Bytes& bytes : all) {
    Evaluation theirs;
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    sum.loss += theirs.loss;
    sum.accuracy += theirs.accuracy;
    sum.samples += theirs.samples;
    sum.replaced += theirs.replaced;
  }
  const auto packed = std::as_bytes(std::span(&sum, 1));
  const Bytes sums = broadcast_first(comm, "evaluation", step,
                                     Bytes(packed.begin(), packed.end()));
  std::memcpy(&sum, sums.data(), sizeof(sum));
  return sum;
}

}  // namespace

torch::Tensor count_correct(const torch::Tensor& scores,
                            const torch::Tensor& labels) {
  return scores.argmax(1).eq(labels).sum();
}

Evaluation evaluate(Communicator& comm, std::uint64_t step, Model& model,
                    const torch::Device& device, const Dataset& dataset,
                    std::uint64_t batch, const LoaderOptions& how) {
  const torch::NoGradGuard no_gradients;
  model.eval();
  const Partition part =
      evaluation_partition(dataset.size(), comm.rank(), comm.size());
  Evaluation mine;
  // Read at the end, so that a device need not wait for the host.
  torch::Tensor sums =
      torch::zeros({2}, torch::dtype(torch::kFloat64).device(device));
  EvaluationLoader loader(dataset, part, batch, how);
  while (const auto samples = loader.next()) {
    const torch::Tensor labels = samples->labels.to(device);
    const torch::Tensor scores =
        dynamic_cast<ImageModel&>(model).forward(samples->images.to(device));
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        scores, labels,
        torch::nn::functional::CrossEntropyFuncOptions().reduction(
            torch::kSum));
    sums += torch::stack({loss, count_correct(scores, labels)});
    mine.samples += static_cast<double>(scores.size(0));
    mine.replaced += static_cast<double>(samples->outcome.replaced);
  }
  model.train();
  mine.loss = sums[0].item<double>();
  mine.accuracy = sums[1].item<double>();
  Evaluation sum = sum_over_ranks(comm, step, mine);
  sum.loss /= sum.samples;
  sum.accuracy /= sum.samples;
  return sum;
}

Autocast::Autocast(bool on, torch::DeviceType type) : on_(on), type_(type) {
  if (!on_) return;
  at::autocast::set_autocast_dtype(type_, at::kBFloat16);
  at::autocast::set_autocast_enabled(type_, true);
}

Autocast::~Autocast() {
  if (on_) at::autocast::set_autocast_enabled(type_, false);
}

AutocastCache::AutocastCache() { at::autocast::increment_nesting(); }

AutocastCache::~AutocastCache() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace sluice
