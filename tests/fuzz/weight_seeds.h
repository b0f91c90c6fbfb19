#pragma once

#include <string>
#include <vector>

namespace sluice::fuzz {

// Seeds of the fuzzers of weights, by the fuzzer's name.
struct Seed {
  const char* fuzzer;
  std::string bytes;
};
std::vector<Seed> weight_seeds();

}  // namespace sluice::fuzz
