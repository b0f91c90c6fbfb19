#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sluice/core/registry.h"
#include "sluice/data/input.h"
#include "sluice/torch/models/init.h"
#include "sluice/torch/models/noise.h"

namespace sluice {

// A network that tells classes of images apart.
class Model : public torch::nn::Module {
 public:
  static constexpr std::string_view kKind = "model";

  // Scores (logits), batch x classes, of images, batch x channels x height x
  // width.
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;

  // Draws all parameters anew, from `seed` alone: torch's own generator is
  // neither read nor moved, so ranks that are threads agree.
  void initialise(std::uint64_t seed);

  // Seeds what forward draws while training (dropout). Given a hash of (seed,
  // rank, step) before every step, a run that resumes draws what it would have
  // drawn; never called, models that draw use the same numbers every time.
  void seed_noise(std::uint64_t seed) { noise_->seed(seed); }

 protected:
  explicit Model(Init init) : init_(init) {}
  const std::shared_ptr<Noise>& noise() const { return noise_; }

  virtual void draw_parameters(torch::Generator& generator) {
    init_(*this, generator);
  }

 private:
  Init init_;
  std::shared_ptr<Noise> noise_ = std::make_shared<Noise>();
};

// One of a family of models that differ in numbers alone: a row of them, which
// begins with name and summary.
template <class Family, const typename Family::Variant& kVariant>
class VariantOf final : public Family {
 public:
  static constexpr std::string_view kName = kVariant.name;
  static constexpr std::string_view kSummary = kVariant.summary;
  VariantOf(const typename Family::Params& params, const Input& input)
      : Family(kVariant, params, input) {}
};

using ModelEntry = RegistryEntry<Model, const Input&>;

// Every model there is.
std::span<const ModelEntry> models();

// From "name", "name:key=value,..." or a JSON object (see parse_spec),
// initialised from `seed`, on the CPU, in training mode. Throws
// std::invalid_argument if the model cannot take such images.
std::shared_ptr<Model> make_model(std::string_view text, const Input& input,
                                  std::uint64_t seed = 0);

}  // namespace sluice
