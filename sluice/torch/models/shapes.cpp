#include "sluice/torch/models/shapes.h"

#include <cmath>

#include "sluice/config/number_list.h"
#include "sluice/core/error.h"

namespace sluice {

std::int64_t padding_to_32(std::string_view model, const ImageInput& input) {
  const bool square = input.height == input.width;
  require(square && (input.height == 28 || input.height == 32), "[model '",
          model, "'] images must be 28 x 28 or 32 x 32, got ", input.height,
          " x ", input.width);
  return (32 - input.height) / 2;
}

std::vector<std::int64_t> parse_widths(std::string_view model,
                                       std::string_view text) {
  const std::string what = concat("[model '", model, "'] parameter 'widths'");
  std::vector<std::int64_t> widths;
  for (const double width : parse_number_list(what, text)) {
    require(width >= 1 && width <= 1e6 && width == std::floor(width), what,
            " must be whole numbers from 1 to 1000000, got '", text, "'");
    widths.push_back(static_cast<std::int64_t>(width));
  }
  return widths;
}

}  // namespace sluice
