#include "sluice/run/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace sluice {

std::size_t terminal_columns(int fd, std::size_t otherwise) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const long given = columns != nullptr ? std::strtol(columns, nullptr, 10) : 0;
  return given > 0 ? static_cast<std::size_t>(given) : otherwise;
}

bool has_colours(int fd) {
  const char* no = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  return isatty(fd) != 0 && (no == nullptr || *no == '\0') && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

std::string fit_parts(const std::vector<std::string>& parts,
                      std::size_t columns) {
  std::string line;
  for (const std::string& part : parts) {
    const std::string_view gap = line.empty() ? "" : "  ";
    if (line.size() + gap.size() + part.size() > columns) break;
    line.append(gap).append(part);
  }
  if (line.empty() && !parts.empty()) line = parts[0].substr(0, columns);
  return line;
}

std::string wrap(std::string_view text, std::size_t columns) {
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (used > 0 && used + 1 + word.size() > columns) {
      out += "\n";
      used = 0;
    } else if (used > 0) {
      out += " ";
      ++used;
    }
    out += word;
    used += word.size();
  }
  return out;
}

std::string duration_text(double seconds) {
  const auto s = static_cast<long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

}  // namespace sluice
