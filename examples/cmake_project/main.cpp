// Sparsifies the gradients of two tensors for three steps, and shows that what
// is not sent stays in the residual: nothing is lost.

#include <array>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/feedback/feedback.h"
#include "sluice/sparsify/sparsifier.h"

namespace {

constexpr std::array<std::size_t, 2> kMatrix = {64, 32};
constexpr std::array<std::size_t, 1> kVector = {100};

// Multiples of 1/8, so that all sums below are exact.
std::vector<float> synthetic_gradient(std::size_t n, std::size_t step) {
  std::vector<float> gradient(n);
  for (std::size_t i = 0; i < n; ++i) {
    gradient[i] = static_cast<float>((i * 37 + step * 11) % 101) / 8 - 6;
  }
  return gradient;
}

}  // namespace

int main() {
  const auto backend = sluice::make_cpu_backend();
  const auto stream = backend->make_stream();

  // The matrix comes first in the bucket, and in the arena of residuals.
  sluice::Bucket bucket;
  bucket.add(0, sluice::shape3(kMatrix), 0);
  bucket.add(1, sluice::shape3(kVector), bucket.size());
  sluice::Arena arena(*backend, bucket.size());
  const std::shared_ptr<const sluice::Sparsifier> sparsifier =
      sluice::make_sparsifier("adtopk");
  const auto feedback =
      sluice::make_feedback("residual", {*backend, arena, bucket, sparsifier});

  std::vector<float> given(bucket.size());  // sum of all gradients
  std::vector<float> kept(bucket.size());   // what was sent, plus the residual
  for (std::size_t step = 0; step < 3; ++step) {
    const auto gradient = synthetic_gradient(bucket.size(), step);
    const std::array views = {
        sluice::contiguous_view(gradient.data(), kMatrix),
        sluice::contiguous_view(gradient.data() + bucket.segments()[1].base,
                                kVector)};
    feedback->select(*stream, views, {.step = step, .density = 0.05});
    sluice::SparseBlock& sent = feedback->staged();
    backend->wait(sent.fetch(*backend, *stream));
    std::printf("step %zu: %zu of %zu entries to send\n", step, sent.count(),
                bucket.size());
    for (std::size_t i = 0; i < sent.count(); ++i) {
      kept[sent.indices()[i]] += sent.values()[i];
    }
    for (std::size_t i = 0; i < given.size(); ++i) given[i] += gradient[i];
    feedback->commit(*stream);
  }

  backend->wait(backend->record(*stream));
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] += arena.residual()[i];
  const bool whole = kept == given;
  std::puts(whole ? "sent + residual == sum of gradients"
                  : "sent + residual differs from the sum of gradients");
  return whole ? 0 : 1;
}
