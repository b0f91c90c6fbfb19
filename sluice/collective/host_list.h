#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  void resize(std::size_t count) {
    indices.resize(count);
    values.resize(count);
  }
  void clear() { resize(0); }
  void add(std::uint32_t index, float value) {
    indices.push_back(index);
    values.push_back(value);
  }
};

// A vector of n floats, as lists of entries that add up to it, in this order:
// merging them first would cost more than adding each of them.
struct Pieces {
  std::vector<Entries> lists;  // no index twice in one list
  std::vector<float> dense;    // if not empty: all n of them, and no lists

  // Entries of all lists, or n if dense.
  std::size_t size() const;
  // Keeps the memory of the lists.
  void clear();
  // out = scale * this
  void write(std::span<float> out, float scale = 1) const;
};

// The same range by range, in ascending order, say into a bucket's tensors.
class PieceWriter {
 public:
  PieceWriter(const Pieces& pieces, float scale)
      : pieces_(pieces), scale_(scale), next_(pieces.lists.size(), 0) {}

  // The next out.size() elements.
  void write(std::span<float> out);

 private:
  void write_block(std::span<float> out);

  const Pieces& pieces_;
  float scale_;
  std::uint64_t at_ = 0;
  std::vector<std::size_t> next_;  // entry of each list
};

// out = a + b; an index that both have gets a's value plus b's. `out` is
// neither of them.
void merge(const Entries& a, const Entries& b, Entries& out);
Entries merged(const Entries& a, const Entries& b);

// The sum of all lists, in an order that only their number decides, in
// lists[0]; the others are used up. No lists: nothing happens.
void merge_all(std::vector<Entries>& lists, Entries& scratch);

// How many indices any of the lists has: exactly if they have few entries,
// else from a part of the indices. The same for the same lists.
std::size_t count_union(std::span<const Entries> lists);

// Entries in the fullest of so many equal ranges of [0, n), over the average.
double skew_of(std::span<const Entries> lists, std::uint64_t n,
               std::size_t ranges);

// The k entries of largest magnitude, ties to the lower index.
Entries largest(const Entries& entries, std::size_t k);

// The entries of a whose index is (is not) in the sorted `indices`.
Entries inside(const Entries& a, std::span<const std::uint32_t> indices);
Entries outside(const Entries& a, std::span<const std::uint32_t> indices);

// The entries with begin <= index < end, their indices counted from begin.
Entries slice(const Entries& a, std::uint64_t begin, std::uint64_t end);

// Coded in the smallest index form; see core/wire.h. n: indices are below it. A
// 16-bit form must be able to carry the values; where a table form cannot, they
// go as fp32.
Bytes encode(const Entries& entries, std::uint64_t n,
             ValueForm values = ValueForm::kFp32);

// The same for a list where zeros may stand for nothing: one that is larger
// coded than dense goes dense.
Bytes encode_filled(const Entries& entries, std::uint64_t n,
                    ValueForm values = ValueForm::kFp32);

// The indices alone.
Bytes encode_indices(std::span<const std::uint32_t> indices, std::uint64_t n);

// While it lives, every encode() of this thread is told to `report`, with when
// it began, at its end. An empty report is told nothing.
class EncodeWatch {
 public:
  using Report = std::function<void(std::chrono::steady_clock::time_point)>;

  explicit EncodeWatch(Report report);
  ~EncodeWatch();
  EncodeWatch(const EncodeWatch&) = delete;
  EncodeWatch& operator=(const EncodeWatch&) = delete;

 private:
  Report before_;
};

// The same back; indices alone come with ones. Throws CodecError if a check
// fails.
void decode(std::span<const std::byte> bytes, std::uint64_t n, std::size_t from,
            Entries& out);

// Decodes what `peer` sent; a message that fails a check fails the
// communicator, naming its sender.
void decode_from(Communicator& comm, std::size_t peer,
                 std::span<const std::byte> bytes, std::uint64_t n,
                 Entries& out);

// Receives it first.
void receive_entries(Communicator& comm, std::size_t peer, std::uint32_t phase,
                     std::uint64_t n, Entries& out);

}  // namespace sluice
