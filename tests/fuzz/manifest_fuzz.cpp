// Reads manifests as anyone may have made them; those it takes
// survive another trip.

#include <cstdlib>
#include <fstream>

#include "readers.h"
#include "sluice/run/manifest.h"

namespace {

// The reader takes a folder, and a file in memory is in none.
const std::string& folder() {
  static const std::string path = [] {
    char name[] = "/dev/shm/manifest_fuzz-XXXXXX";
    sluice::fuzz::expect_that(mkdtemp(name) != nullptr, "no folder");
    return std::string(name);
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  {
    std::ofstream out(folder() + "/manifest.json", std::ios::binary);
    out << fuzz::as_text(data, size);
  }
  Manifest manifest;
  try {
    manifest = Manifest::read(folder());
  } catch (const std::runtime_error&) {
    return 0;
  }
  manifest.write(folder());
  Manifest::read(folder());
  return 0;
}
