// Reads manifests as anyone may have made them; those it takes
// survive another trip.

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "readers.h"
#include "sluice/run/manifest.h"

namespace {

// The reader takes a folder, and a file in memory is in none.
struct Folder {
  Folder() {
    sluice::fuzz::expect_that(mkdtemp(path.data()) != nullptr, "no folder");
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = "/dev/shm/manifest_fuzz-XXXXXX";  // mkdtemp's template
};

const std::string& folder() {
  static const Folder made;
  return made.path;
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
