// Reads indices of shards as anyone may have made them; no shard that is taken
// leads out of the folder.

#include "readers.h"
#include "sluice/weights/weight_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  try {
    for (const auto& [tensor, shard] :
         parse_weight_index("i", fuzz::as_text(data, size))) {
      fuzz::expect_that(!shard.empty() && shard.find('/') == shard.npos &&
                            shard != ".." && shard.find('\0') == shard.npos,
                        "a shard outside the folder");
    }
  } catch (const std::runtime_error&) {
  }
  return 0;
}
