#include "sluice/cli/shared/build_info.h"

#include <fmt/format.h>

#include "sluice/backend/backend.h"
#include "sluice/comm/mpi/mpi.h"
#include "sluice/comm/nccl/nccl.h"
#include "sluice/text/unicode.h"

namespace sluice {
namespace {

std::string or_none(const std::string& version) {
  return version.empty() ? "not in this build" : version;
}

std::string describe_cuda() {
  const std::string version = cuda_version();
  if (version.empty()) return or_none(version);
  const std::string problem = cuda_problem();
  return version + (problem.empty() ? "" : "; not here: " + problem);
}

// Found at run time: whatever is built with CUDA can use it.
std::string describe_nccl() {
  return cuda_version().empty() ? or_none("") : nccl_version();
}

std::vector<BuildPart> make_parts() {
  std::vector<BuildPart> parts = {
      {"compiler", __VERSION__},
      {"cpu", fmt::format("{}", fmt::join(cpu_isas(), " "))},
      {"cuda", describe_cuda()},
      {"mpi", or_none(mpi_version())},
      {"nccl", describe_nccl()},
      {"icu", built_in(has_icu(), "texts beyond ASCII")},
  };
  for (BuildPart& part : training_parts()) parts.push_back(std::move(part));
  return parts;
}

}  // namespace

std::string built_in(bool there, const std::string& what) {
  return or_none(there ? what : "");
}

std::span<const BuildPart> build_parts() {
  static const std::vector<BuildPart> parts = make_parts();
  return parts;
}

std::string program_version() { return SLUICE_VERSION; }

std::string version_text() {
  std::string text = "sluice " + program_version();
  for (const BuildPart& part : build_parts()) {
    text += fmt::format("\n  {:<10} {}", part.name, part.what);
  }
  return text;
}

}  // namespace sluice
