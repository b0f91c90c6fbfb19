#include "sluice/config/number_list.h"

#include <charconv>

#include "sluice/core/error.h"

namespace sluice {

std::vector<double> parse_number_list(std::string_view what,
                                      std::string_view text) {
  std::vector<double> numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t dash = rest.find('-');
    const std::string_view item = rest.substr(0, dash);
    double value = 0;
    const auto [end, error] =
        std::from_chars(item.data(), item.data() + item.size(), value,
                        std::chars_format::fixed);
    const bool ends_in_dash = dash == rest.size() - 1;
    require(error == std::errc() && end == item.data() + item.size() &&
                !ends_in_dash,
            what, " must be numbers joined by '-', as in 30-60-80, got '", text,
            "'");
    numbers.push_back(value);
    rest.remove_prefix(dash == std::string_view::npos ? rest.size() : dash + 1);
  }
  return numbers;
}

}  // namespace sluice
