#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// What the benchmarks share.

namespace sluice {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

double median(std::vector<double> values);

// 1000, 1e6, 25M or 1.5k; throws std::invalid_argument for anything else.
std::size_t parse_size(const std::string& text);

// Throw std::invalid_argument unless the option's value makes sense.
void check_density(double density);
void check_threads(std::int64_t threads);
void check_count(const std::string& option, std::int64_t value);

// Method specs out of texts in which commas separate both methods and
// parameters: "topk,dgc:upper=1.5,lower=0.7" are two.
std::vector<std::string> split_specs(const std::vector<std::string>& texts);

// A line on standard error for people who wait; nothing if it is not a
// terminal.
void show_progress(const std::string& line);

}  // namespace sluice
