#include "sluice/cli/bench/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/core/error.h"
#include "sluice/core/number_text.h"
#include "sluice/run/terminal.h"

namespace sluice {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  return values[middle];
}

std::size_t parse_size(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  double unit = 1;
  if (error == std::errc() && rest + 1 == end) {
    unit = *rest == 'k' ? 1e3 : *rest == 'M' ? 1e6 : *rest == 'G' ? 1e9 : 0;
  }
  const double size = value * unit;
  require(error == std::errc() && (rest == end || rest + 1 == end) &&
              size >= 1 && size <= 0x1p32 && std::floor(size) == size,
          "[bench] a size must be a whole number from 1 to 2^32, as in 1000, "
          "1e6 or 25M, got '",
          text, "'");
  return static_cast<std::size_t>(size);
}

void check_density(double density) {
  require(density > 0 && density <= 1,
          "[bench] density must be above 0 and at most 1, got ",
          shortest(density));
}

void check_threads(std::int64_t threads) {
  require(threads >= 1 && threads <= 1024,
          "[bench] threads must be from 1 to 1024, got ", threads);
}

void check_count(const std::string& option, std::int64_t value) {
  constexpr std::int64_t kMost = 1 << 30;
  require(value >= 1 && value <= kMost, "[bench] ", option,
          " must be from 1 to ", kMost, ", got ", value);
}

std::vector<std::string> split_specs(const std::vector<std::string>& texts) {
  std::vector<std::string> specs;
  for (const std::string& text : texts) {
    if (!text.empty() && text.front() == '{') {
      specs.push_back(text);
      continue;
    }
    std::size_t begin = 0;
    bool first = true;
    while (begin <= text.size()) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string piece = text.substr(begin, end - begin);
      // key=value goes on with the method before it; name:key=value does not.
      const std::size_t equals = piece.find('=');
      const bool parameter =
          !first && equals != std::string::npos && piece.find(':') > equals;
      if (parameter) {
        specs.back() += "," + piece;
      } else {
        specs.push_back(piece);
      }
      first = false;
      begin = end + 1;
    }
  }
  return specs;
}

void show_progress(const std::string& line) {
  if (isatty(STDERR_FILENO) == 0) return;
  // A line that wraps could not be taken back.
  fmt::print(stderr, "\r\033[K{}",
             line.substr(0, terminal_columns(STDERR_FILENO) - 1));
  std::fflush(stderr);
}

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Time the parts, as ratios to a floor timed in the same run");
  bench->require_subcommand(1);
  bench->option_defaults()->always_capture_default();
  add_bench_select(*bench);
  add_bench_wire(*bench);
  add_bench_collective(*bench);
  add_bench_data(*bench);
  add_bench_audio(*bench);
  add_bench_text(*bench);
  add_examples(*bench, {"sluice bench select --n 1M --sparsifier topk,adtopk",
                        "sluice bench collective --n 1M --workers 4 --engine "
                        "simulated --net 50us,1Gbit"});
}

}  // namespace sluice
