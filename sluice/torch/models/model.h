#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/error.h"
#include "sluice/core/registry.h"
#include "sluice/data/input.h"
#include "sluice/torch/models/init.h"
#include "sluice/torch/models/noise.h"

namespace sluice {

// The numbers of a model of a known kind, for config.json; 0: it has none.
struct Architecture {
  std::string type;  // "bert", "gpt2", "vit"; empty: nobody else has it
  std::int64_t width = 0, layers = 0, heads = 0, inner_width = 0;
  std::int64_t vocabulary = 0, positions = 0;
  std::int64_t image_size = 0, patch_size = 0;
  double epsilon = 0;
};

// A network with parameters and noise. What it takes and gives is a matter of
// its kind, below.
class Model : public torch::nn::Module {
 public:
  static constexpr std::string_view kKind = "model";

  // Draws all parameters anew, from `seed` alone: torch's own generator is
  // neither read nor moved, so ranks that are threads agree.
  void initialise(std::uint64_t seed);

  virtual Architecture architecture() const { return {}; }

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

// Tells classes of images apart.
class ImageModel : public Model {
 public:
  using Takes = ImageInput;
  static constexpr std::string_view kTakes = "images";
  static constexpr std::string_view kSuch = "an image model, such as resnet20";

  // Scores (logits), batch x classes, of images, batch x channels x height x
  // width.
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;

 protected:
  using Model::Model;
};

// Says which token comes next.
class LanguageModel : public Model {
 public:
  using Takes = TokenInput;
  static constexpr std::string_view kTakes = "tokens";
  static constexpr std::string_view kSuch = "a language model, such as lstm";
  // What a recurrent model carries from one piece of a text to the next, batch
  // in the second dimension of each; empty at the start, and for others always.
  using State = std::vector<torch::Tensor>;

  // Whether it carries a state, so that pieces of a text must follow each
  // other.
  virtual bool is_recurrent() const { return false; }

  // Scores, batch x time x vocabulary, of the token after each of `tokens`
  // (int64, batch x time). Goes on from `state`, and leaves there what the next
  // piece goes on from, without history.
  virtual torch::Tensor forward(const torch::Tensor& tokens, State& state) = 0;

 protected:
  using Model::Model;
};

// Finds the span of a text that answers a question.
class SpanModel : public Model {
 public:
  using Takes = TokenInput;
  static constexpr std::string_view kTakes = "tokens";
  static constexpr std::string_view kSuch =
      "a model of questions, such as bert-base";

  // Scores, batch x time x 2, of each token being the first and the last of the
  // answer. All int64, batch x time: tokens, 0 for the question and 1 for the
  // text, and 0 for padding.
  virtual torch::Tensor forward(const torch::Tensor& tokens,
                                const torch::Tensor& segments,
                                const torch::Tensor& mask) = 0;

 protected:
  using Model::Model;
};

// Spells what is said.
class SpeechModel : public Model {
 public:
  using Takes = SpeechInput;
  static constexpr std::string_view kTakes = "spectra";
  static constexpr std::string_view kSuch =
      "a speech model, such as deepspeech";
  struct Spelled {
    torch::Tensor scores;   // batch x time x labels
    torch::Tensor lengths;  // int64, batch, on the CPU: times that count
  };

  // How many times of scores so many times of spectra come to.
  virtual std::int64_t times_of(std::int64_t times) const = 0;

  // Of spectra, batch x bins x time, of which `lengths` (int64, on the CPU)
  // times count.
  virtual Spelled forward(const torch::Tensor& spectra,
                          const torch::Tensor& lengths) = 0;

 protected:
  using Model::Model;
};

// One of a family of models that differ in numbers alone: a row of them, which
// begins with name and summary.
template <class Family, const typename Family::Variant& kVariant>
class VariantOf final : public Family {
 public:
  static constexpr std::string_view kName = kVariant.name;
  static constexpr std::string_view kSummary = kVariant.summary;
  VariantOf(const typename Family::Params& params,
            const typename Family::Takes& input)
      : Family(kVariant, params, input) {}
};

using ModelEntry = RegistryEntry<Model, const ModelInput&>;

// Every model there is.
std::span<const ModelEntry> models();
// The names of those that take such data.
std::vector<std::string_view> models_for(const ModelInput& input);

// From "name", "name:key=value,..." or a JSON object (see parse_spec),
// initialised from `seed`, on the CPU, in training mode. Throws
// std::invalid_argument if the model cannot take such data.
std::shared_ptr<Model> make_model(std::string_view text,
                                  const ModelInput& input,
                                  std::uint64_t seed = 0);
// The same for who knows its kind, such as ImageModel. Throws if it has
// another.
template <class Kind>
std::shared_ptr<Kind> make_model_of(std::string_view text,
                                    const typename Kind::Takes& input,
                                    std::uint64_t seed = 0) {
  auto model = std::dynamic_pointer_cast<Kind>(make_model(text, input, seed));
  require(model != nullptr, "[make_model] there must be ", Kind::kSuch,
          ", got '", text, "'");
  return model;
}

}  // namespace sluice
