#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace sluice {

// What models are fed and what they tell apart, by kind of data.

// Images of channels x height x width, of so many classes.
struct ImageInput {
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  std::int64_t classes = 10;

  constexpr std::int64_t pixels() const { return channels * height * width; }
  friend bool operator==(const ImageInput&, const ImageInput&) = default;
};

// Sequences of tokens, numbers below `vocabulary`, up to `length` of them.
struct TokenInput {
  std::int64_t vocabulary = 0;
  std::int64_t length = 0;

  friend bool operator==(const TokenInput&, const TokenInput&) = default;
};

// Spectra of `bins` bands over time; what is said is spelled in `labels`, of
// which the first is the blank.
struct SpeechInput {
  std::int64_t bins = 161;
  std::int64_t labels = 29;

  friend bool operator==(const SpeechInput&, const SpeechInput&) = default;
};

using ModelInput = std::variant<ImageInput, TokenInput, SpeechInput>;

// For people: "images of 3 x 32 x 32 in 10 classes".
std::string describe(const ModelInput& input);

}  // namespace sluice
