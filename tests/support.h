#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/feedback/feedback.h"

// What the tests share: data, backends by name, plain references, and a rig
// that takes gradients from host memory through select and back.

namespace sluice::testing {

using Dims = std::vector<std::size_t>;

// "cpu/avx512", "cpu/avx2", "cpu/portable", "cuda" (those this machine has) and
// "fake".
std::vector<std::string> backend_names();
// "cpu/portable", "fake" and, where there is a GPU, "cuda": a backend of each
// kind, for suites in which the instruction set does not matter.
std::vector<std::string> device_names();
// Those of device_names() with a StagedLink: "fake+link".
std::vector<std::string> linked_names();
// All of them.
std::vector<std::string> device_and_linked_names();
// Whatever follows a "+" is for others.
std::unique_ptr<Backend> make_backend(std::string_view name,
                                      std::size_t threads = 1);

// Reproducible data.
std::vector<float> gaussian(std::size_t n, std::uint64_t seed = 1,
                            float scale = 1);
std::vector<float> laplace(std::size_t n, std::uint64_t seed = 1);
// Symmetric gamma with shape 1/2, and Student's t with 3 degrees of freedom.
std::vector<float> double_gamma(std::size_t n, std::uint64_t seed = 1);
std::vector<float> student3(std::size_t n, std::uint64_t seed = 1);

// Named adversarial data: zeros of both signs, equal, two-level, sparse, an
// embedding most of whose rows were not touched, ramp, denormal, huge,
// gaussian.
std::vector<std::string> data_names();
std::vector<float> make_data(std::string_view name, std::size_t n,
                             std::uint64_t seed = 1);

// The k largest magnitudes of what is finite and not 0 in x, ties to the lower
// index, ascending.
std::vector<std::uint32_t> reference_topk(std::span<const float> x,
                                          std::size_t k);

struct Sent {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  StepReport report;
};

// One worker's feedback around a sparsifier over tensors of these dimensions.
class Rig {
 public:
  struct Options {
    std::string backend = "cpu/portable";
    std::size_t threads = 1;
    std::string sparsifier = "topk";
    std::string feedback = "residual";
    ValueForm values = ValueForm::kFp32;
    std::vector<Dims> tensors;
    std::uint64_t seed = 7;
    std::uint64_t total_steps = 100;
    bool keeps_residual = true;
  };
  explicit Rig(const Options& options);

  // Selects from one gradient per tensor, concatenated; commits unless told
  // otherwise.
  Sent step(std::span<const float> gradients, double density,
            bool commit = true);
  // What it is made of: the gradients go to the device, a selection is
  // enqueued, and what the last one sent comes back.
  void set_gradients(std::span<const float> gradients);
  void select(double density);
  Sent sent();
  void rollback();
  // Ends a step that was not committed.
  void commit();

  std::vector<float> residual();
  void set_residual(std::span<const float> values);
  std::vector<float> momentum();
  std::size_t size() const { return bucket_.size(); }
  Backend& backend() { return *backend_; }
  Stream& stream() { return *stream_; }
  Feedback& feedback() { return *feedback_; }
  std::uint64_t steps = 0;

 private:
  std::vector<float> read(const float* device, std::size_t n);

  Options options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Arena> arena_;
  Bucket bucket_;
  std::unique_ptr<Feedback> feedback_;
  Buffer gradients_;
};

// sent + residual, as a dense vector.
std::vector<float> rebuild(const Sent& sent, std::span<const float> residual);

// A name that gtest accepts.
std::string safe_name(std::string_view text);

}  // namespace sluice::testing
