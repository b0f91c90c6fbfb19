#include "readers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sluice/core/checksum.h"
#include "sluice/core/json_check.h"
#include "sluice/run/checkpoint.h"
#include "sluice/run/json_count.h"

namespace sluice::fuzz {
namespace {

constexpr std::size_t kAlign = 64;

std::size_t aligned(std::size_t n) {
  return (n + kAlign - 1) / kAlign * kAlign;
}

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Bytes of a tensor as an index describes it, at most `most`.
std::size_t size_of(const nlohmann::json& tensor, std::size_t most) {
  std::uint64_t bytes = dtype_size(tensor.at("dtype").get<std::string>());
  for (const auto& dim : tensor.at("dims")) {
    const std::uint64_t count = count_in(dim).value_or(0);
    if (__builtin_mul_overflow(bytes, count, &bytes)) break;
  }
  return std::min<std::uint64_t>(bytes, most);
}

// That of the data: each tensor is a piece of its own.
std::uint32_t checksum_of(std::string_view json, std::string_view data) try {
  Checksum sum;
  if (!is_sound_json(json)) return 0;
  const auto index = nlohmann::json::parse(json);
  for (const auto& tensor : index.at("tensors")) {
    const std::size_t size = size_of(tensor, data.size());
    sum.add(std::as_bytes(std::span(data.substr(0, size))));
    data.remove_prefix(std::min(aligned(size), data.size()));
  }
  return sum.fold();
} catch (const std::exception&) {
  return 0;
}

}  // namespace

std::string file_of(std::span<const std::byte> bytes) {
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  expect_that(file >= 0 && ftruncate(file, 0) == 0 &&
                  pwrite(file, bytes.data(), bytes.size(), 0) ==
                      static_cast<ssize_t>(bytes.size()),
              "no file in memory could be written");
  return "/proc/self/fd/" + std::to_string(file);
}

std::string sealed_checkpoint(std::string_view input) {
  const std::size_t line = std::min(input.find('\n'), input.size());
  std::string json(input.substr(0, line));
  json.resize(aligned(32 + json.size()) - 32, ' ');
  std::string data(input.substr(std::min(line + 1, input.size())));
  data.resize(aligned(data.size()), '\0');
  std::string file = "SLUICECK";
  append(file, Checkpoint::kVersion);
  append(file, std::uint32_t{0});
  append(file, std::uint64_t{json.size()});
  append(file, std::uint64_t{data.size()});
  file += json;
  Checksum front;
  front.add(std::as_bytes(std::span(file)));
  const std::uint32_t sum = checksum_of(json, data);
  file += data;
  append(file, front.fold());
  append(file, sum);
  return file;
}

}  // namespace sluice::fuzz
