// Reads files of safetensors as anyone may have made them; what it takes
// survives another trip. An input is a header, a line feed and data, before
// which the length is put; one that does not begin with '{' is the whole file
// behind its first byte.

#include <unistd.h>

#include <algorithm>

#include "readers.h"
#include "sluice/weights/safetensors.h"

namespace {

// The writer takes a path, beside which it makes another file.
struct Again {
  ~Again() { unlink(path.c_str()); }
  std::string path = "/dev/shm/safetensors_fuzz-" + std::to_string(getpid());
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  std::string file(fuzz::as_text(data, size));
  if (file.starts_with('{')) {
    const std::uint64_t length = std::min(file.find('\n'), file.size());
    file.insert(0, reinterpret_cast<const char*>(&length), 8);
  } else if (!file.empty()) {
    file.erase(0, 1);
  }
  try {
    const Weights weights =
        read_safetensors(fuzz::file_of(std::as_bytes(std::span(file))));
    std::size_t bytes = 0;
    for (const WeightTensor& tensor : weights.tensors) {
      fuzz::expect_that(weights.find(tensor.name) == &tensor, "a lost tensor");
      bytes += tensor.bytes.size();
    }
    fuzz::expect_that(bytes <= file.size(), "more data than the file has");
    static const Again again;
    write_safetensors(again.path, weights.tensors, weights.metadata);
    fuzz::expect_that(
        read_safetensors(again.path).tensors.size() == weights.tensors.size(),
        "another trip lost tensors");
  } catch (const std::runtime_error&) {
  }
  return 0;
}
