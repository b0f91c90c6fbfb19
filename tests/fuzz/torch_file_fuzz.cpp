// Reads files of torch.save as anyone may have made them. An input that begins
// with P is the file; any other is the pickle of one that is right otherwise,
// since random bytes would never come past its checksums.

#include "readers.h"
#include "sluice/weights/torch_file.h"
#include "weights/zip_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  std::string file(fuzz::as_text(data, size));
  if (!file.starts_with('P')) {
    testing::ZipWriter zip;
    zip.zip64 = size % 2 == 1;
    zip.add("m/data.pkl", file).add("m/byteorder", "little");
    zip.add("m/data/0", std::string(256, '\1')).add("m/data/1", "12345678");
    file = zip.str();
  }
  try {
    const Weights weights =
        read_torch_file(fuzz::file_of(std::as_bytes(std::span(file))));
    unsigned sum = 0;
    for (const WeightTensor& tensor : weights.tensors) {
      const auto n = elements_of(tensor.dims);
      fuzz::expect_that(n.has_value() && static_cast<std::size_t>(*n) *
                                                 bytes_of(tensor.type) ==
                                             tensor.bytes.size(),
                        "a shape of another size");
      for (const std::byte b : tensor.bytes) sum += static_cast<unsigned>(b);
    }
    fuzz::expect_that(sum != 1, "unlikely");  // so that all bytes are read
  } catch (const std::runtime_error&) {
  }
  return 0;
}
