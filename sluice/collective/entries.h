#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/core/wire.h"

namespace sluice {

// Sparse entries in host memory: indices ascending, values beside them.
struct Entries {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;

  std::size_t size() const { return indices.size(); }
  void clear() {
    indices.clear();
    values.clear();
  }
  void add(std::uint32_t index, float value) {
    indices.push_back(index);
    values.push_back(value);
  }
};

// a + b; an index that both have gets a's value plus b's.
Entries merged(const Entries& a, const Entries& b);

// The k entries of largest magnitude, ties to the lower index.
Entries largest(const Entries& entries, std::size_t k);

// The entries of a whose index is (is not) in the sorted `indices`.
Entries inside(const Entries& a, std::span<const std::uint32_t> indices);
Entries outside(const Entries& a, std::span<const std::uint32_t> indices);

// The entries with begin <= index < end, their indices counted from begin.
Entries slice(const Entries& a, std::uint64_t begin, std::uint64_t end);

// Coded, the smallest index form; see core/wire.h. n: indices are below it. A
// 16-bit form must be able to carry the values.
Bytes encode(const Entries& entries, std::uint64_t n,
             ValueForm values = ValueForm::kFp32);

// The same back. Throws CodecError if a check fails.
Entries decode(std::span<const std::byte> bytes, std::uint64_t n,
               std::size_t from);

// Receives and decodes; a message that fails a check fails the communicator,
// naming its sender.
Entries receive_entries(Communicator& comm, std::size_t peer,
                        std::uint32_t phase, std::uint64_t n);

}  // namespace sluice
