#include "sluice/torch/train/evaluation.h"

#include <ATen/autocast_mode.h>

#include <cstring>

#include "sluice/run/ranks.h"

namespace sluice {
namespace {

// What is added up, in one order.
std::vector<double*> numbers_of(Evaluation& e) {
  std::vector<double*> all = {&e.loss, &e.samples, &e.replaced};
  for (Score& s : e.scores) {
    all.push_back(&s.sum);
    all.push_back(&s.weight);
  }
  return all;
}

// Sums over the ranks in their order, so that all get the same.
void sum_over_ranks(Communicator& comm, std::uint64_t step, Evaluation& mine) {
  const std::vector<double*> numbers = numbers_of(mine);
  std::vector<double> values;
  for (const double* number : numbers) values.push_back(*number);
  const auto all = gather_at_first(comm, "evaluation", step,
                                   std::as_bytes(std::span(values)));
  std::fill(values.begin(), values.end(), 0.0);
  for (const Bytes& bytes : all) {
    std::vector<double> theirs(values.size());
    std::memcpy(theirs.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
  }
  const auto packed = std::as_bytes(std::span(values));
  const Bytes sums = broadcast_first(comm, "evaluation", step,
                                     Bytes(packed.begin(), packed.end()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::memcpy(numbers[i], sums.data() + i * sizeof(double), sizeof(double));
  }
}

}  // namespace

Evaluation evaluate(Communicator& comm, std::uint64_t step, Model& model,
                    const torch::Device& device, const Task& task,
                    std::uint64_t batch, const LoaderOptions& how) {
  const torch::NoGradGuard no_gradients;
  model.eval();
  Evaluation sum =
      task.evaluate(model, device, {comm.rank(), comm.size(), batch, how});
  model.train();
  sum_over_ranks(comm, step, sum);
  sum.loss /= sum.samples;
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
