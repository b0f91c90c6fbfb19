#include "sluice/cli/shared/network_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "sluice/core/error.h"

namespace sluice {
namespace {

std::string partial(const std::string& path) { return path + ".partial"; }

int open_partial(const std::string& path) {
  return open(partial(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
              0666);
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

void check_network_file(const std::string& path) {
  std::error_code ignored;
  require(!path.empty() && !std::filesystem::is_directory(path, ignored),
          "[probe] --out must be a file, got '", path,
          "'; network.json would do");
  const int file = open_partial(path);
  require(file >= 0, "[probe] --out must be a file that can be written, got '",
          path, "': ", std::strerror(errno));
  close(file);
  unlink(partial(path).c_str());
}

void write_network_file(const std::string& path,
                        const nlohmann::ordered_json& network) {
  const int file = open_partial(path);
  bool ok =
      file >= 0 && write_all(file, network.dump(2) + "\n") && fsync(file) == 0;
  ok = ok && std::rename(partial(path).c_str(), path.c_str()) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  if (ok) return;
  unlink(partial(path).c_str());
  throw std::runtime_error(concat(
      "[probe] '", path, "' could not be written: ", std::strerror(error)));
}

double read_beta(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), "[bench] cannot open '", path,
          "'; sluice probe writes such a file");
  const auto network = nlohmann::json::parse(file, nullptr, false);
  const bool sound = network.is_object() && network.value("format", 0) == 1 &&
                     network.contains("beta") && network["beta"].is_number();
  require(sound, "[bench] '", path,
          "' must be a network file of format 1, as sluice probe writes it");
  return network["beta"].get<double>();
}

}  // namespace sluice
