#include "sluice/data/input.h"

#include "sluice/core/error.h"

namespace sluice {
namespace {

std::string text_of(const ImageInput& x) {
  return concat("images of ", x.channels, " x ", x.height, " x ", x.width,
                " in ", x.classes, " classes");
}
std::string text_of(const TokenInput& x) {
  return concat("up to ", x.length, " tokens of ", x.vocabulary);
}
std::string text_of(const SpeechInput& x) {
  return concat("spectra of ", x.bins, " bands, spelled in ", x.labels,
                " labels");
}

}  // namespace

std::string describe(const ModelInput& input) {
  return std::visit([](const auto& x) { return text_of(x); }, input);
}

}  // namespace sluice
