#pragma once

#include <string_view>

namespace sluice {

// Calls f(number, line) for every line of `text`, from 1, without its end ("\n"
// or "\r\n").
template <class F>
void for_each_line(std::string_view text, F&& f) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    f(number, line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace sluice
