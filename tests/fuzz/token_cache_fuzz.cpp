// Reads prepared texts as anyone may have damaged them. The checksum is made
// right first: random bytes would never come past it.

#include <cstring>

#include "readers.h"
#include "sluice/text/text_files.h"
#include "sluice/text/token_cache.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  std::string bytes(fuzz::as_text(data, size));
  std::uint64_t key = 0;
  if (bytes.size() >= 16) std::memcpy(&key, bytes.data() + 8, 8);
  std::string problem;
  unpack_text(bytes, key, problem);
  const std::uint64_t sum = content_hash(bytes);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  const auto text = unpack_text(bytes, key, problem);
  if (text) {
    fuzz::expect_that(pack_text(*text, key) == bytes, "another trip differs");
  }
  return 0;
}
