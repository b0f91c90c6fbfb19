#include "sluice/text/text_files.h"

#include <cstdint>
#include <cstring>
#include <filesystem>

#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"

namespace sluice {

std::string text_file_if_any(const std::string& folder,
                             const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto path = std::filesystem::path(folder) / name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path.string();
  }
  return {};
}

std::string text_file_in(std::string_view owner, const std::string& folder,
                         const std::vector<std::string>& names,
                         std::string_view source) {
  std::string all;
  for (const std::string& name : names) {
    all += (all.empty() ? "" : " or ") + name;
  }
  ensure(!folder.empty(), "[", owner, "] a folder must be given that holds ",
         all, "; ", source);
  std::string path = text_file_if_any(folder, names);
  ensure(!path.empty(), "[", owner, "] folder '", folder, "' must hold ", all,
         "; ", source);
  return path;
}

std::uint64_t content_hash(std::string_view bytes) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;
  // Four lanes that do not wait for each other.
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  std::size_t i = 0;
  for (; i + 32 <= bytes.size(); i += 32) {
    for (std::size_t l = 0; l < 4; ++l) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i + 8 * l, 8);
      lanes[l] = (lanes[l] ^ word) * kFactor;
      lanes[l] ^= lanes[l] >> 32;
    }
  }
  std::uint64_t h = mix64(mix64(lanes[0], lanes[1]), lanes[2], lanes[3]);
  for (; i < bytes.size(); ++i) {
    h = mix64(h, static_cast<unsigned char>(bytes[i]));
  }
  return mix64(h, bytes.size());
}

}  // namespace sluice
