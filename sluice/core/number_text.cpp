#include "sluice/core/number_text.h"

#include <charconv>

namespace sluice {

std::string shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

}  // namespace sluice
