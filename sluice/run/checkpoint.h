#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// A tensor as a checkpoint holds it: a name, a type ("float32", "float64",
// "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8" or "bool"),
// dimensions, and its elements in C order, little endian. Owns no elements.
struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> dims;
  std::span<const std::byte> data;
};

// A checkpoint: named tensors and a JSON object that says what they are of.
//
// The file is, in this order:
//
//   8 bytes    "SLUICECK"
//   u32, u32   version, 0
//   u64, u64   bytes of JSON, bytes of data
//   JSON       {"header": ..., "tensors": [{name, dtype, dims, offset}, ...]},
//              filled up with spaces so that data begins at a multiple of 64
//   data       the tensors, each at a multiple of 64 from where data begins
//   u32, u32   checksum of all before the data; of the data
//
// The checksum is that of sluice/core/checksum.h; the one of the data takes
// each tensor as a piece of its own. What fills up between them is 0.
class Checkpoint {
 public:
  static constexpr std::uint32_t kVersion = 1;

  // Writes `path` in place of what is there, or leaves that as it is: the bytes
  // go to `path`.partial first (see AtomicFile). One writer at a time per path.
  // `header` must be a JSON object.
  //
  // Returns the file's digest. Throws std::invalid_argument for a header or
  // tensors that cannot be stored, std::runtime_error if the disk does not take
  // them.
  static std::uint64_t write(const std::string& path, std::string_view header,
                             std::span<const StoredTensor> tensors);

  // Reads and checks all of `path`. Throws std::runtime_error if it is not
  // there, not a checkpoint, of another version, cut short or damaged.
  static Checkpoint read(const std::string& path);

  const std::string& path() const { return path_; }

  // Both checksums: files of one digest hold the same.
  std::uint64_t digest() const { return digest_; }

  // As it was given to `write`, but for white space and the order of keys.
  const std::string& header() const { return header_; }

  // In the order they were written; their data lives as long as this object or
  // the one it is moved to.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

  // The tensor of that name. Throws std::invalid_argument if there is none.
  const StoredTensor& at(std::string_view name) const;

  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;

 private:
  Checkpoint() = default;

  std::string path_;
  std::uint64_t digest_ = 0;
  std::string header_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::byte> bytes_;
};

// Bytes per element. Throws std::invalid_argument for a type that is none of
// those above.
std::size_t dtype_size(std::string_view dtype);

}  // namespace sluice
