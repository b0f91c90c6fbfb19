#include "sluice/cli/shared/network_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/plan/network.h"

namespace sluice {

void check_network_file(const std::string& path) {
  std::error_code ignored;
  require(!path.empty() && (!std::filesystem::exists(path, ignored) ||
                            std::filesystem::is_regular_file(path, ignored)),
          "[probe] --out must be a file, got '", path,
          "'; network.json would do");
  const std::string partial = path + ".partial";  // see AtomicFile
  const int file = open_anew(partial);
  require(file >= 0, "[probe] --out must be a file that can be written, got '",
          path, "': ", std::strerror(errno));
  close(file);
  unlink(partial.c_str());
}

double read_beta(const std::string& path) {
  const std::string problem = why_no_file(path);
  require(problem.empty(), "[bench] cannot open '", path, "': ", problem,
          "; sluice probe writes a file that would do");
  return read_network(path).between.beta;
}

}  // namespace sluice
