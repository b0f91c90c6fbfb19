#include "sluice/torch/models/widths.h"

#include <cmath>

#include "sluice/config/number_list.h"
#include "sluice/core/error.h"

namespace sluice {

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
