#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/core/user_cache.h"
#include "sluice/text/token_cache.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool is_writable(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder, ignored) &&
         access(folder.c_str(), W_OK | X_OK) == 0;
}

std::string file_name(std::string_view name, std::uint64_t key) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(key));
  return concat(".sluice-", name, "-", digits, ".tokens");
}

std::optional<PreparedText> load_from(const fs::path& path, std::uint64_t key) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  std::string problem;
  try {
    return unpack_text(
        read_text_file("cache", path.string(), std::size_t{1} << 35), key,
        problem);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string cache_folder(const std::string& folder) {
  if (!folder.empty() && is_writable(folder)) return folder;
  const fs::path mine = user_cache();
  if (mine.empty()) return {};
  std::error_code ignored;
  fs::create_directories(mine, ignored);
  return is_writable(mine) ? mine.string() : std::string();
}

std::optional<PreparedText> load_cached(const std::string& folder,
                                        std::string_view name,
                                        std::uint64_t key) {
  for (const fs::path& place : {fs::path(folder), fs::path(user_cache())}) {
    if (place.empty()) continue;
    if (auto text = load_from(place / file_name(name, key), key)) return text;
  }
  return std::nullopt;
}

std::string store_cached(const std::string& folder, std::string_view name,
                         std::uint64_t key, const PreparedText& text) {
  const std::string place = cache_folder(folder);
  if (place.empty()) return {};
  const std::string path = (fs::path(place) / file_name(name, key)).string();
  // Ranks on one machine write at once, each to a name of its own.
  static std::atomic<unsigned> count{0};
  const std::string mine = concat(path, ".", getpid(), ".", count++);
  try {
    AtomicFile file(mine);
    const std::string bytes = pack_text(text, key);
    file.write(std::as_bytes(std::span(bytes)));
    file.commit();
  } catch (const std::runtime_error&) {
    return {};
  }
  if (std::rename(mine.c_str(), path.c_str()) == 0) return path;
  unlink(mine.c_str());
  return {};
}

}  // namespace sluice
