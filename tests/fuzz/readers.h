#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

// What the fuzzers of readers share. A reader either takes its input or throws
// what it says it throws; anything else ends the fuzzer.

namespace sluice::fuzz {

inline void expect_that(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "[fuzz] %s\n", what);
  std::abort();
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file in memory that holds these bytes, for readers that take a path. There
// is one, so the path is good until the next call.
std::string file_of(std::span<const std::byte> bytes);

// A checkpoint from "JSON" + '\n' + data, whose checksums and sizes are right
// whatever else is wrong: random bytes would never come past them.
std::string sealed_checkpoint(std::string_view input);

}  // namespace sluice::fuzz
