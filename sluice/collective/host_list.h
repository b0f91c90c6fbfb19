#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/backend/lists.h"
#include "sluice/backend/pass.h"
#include "sluice/core/array.h"

namespace sluice {

// Entries in host memory, indices ascending; owns nothing.
struct ListView {
  std::span<const std::uint32_t> indices;
  std::span<const float> values;

  std::size_t size() const { return indices.size(); }
  Entries entries() const { return {indices.data(), values.data(), size()}; }
};

// The same, owned. Its memory is used again and never cleared.
class HostList {
 public:
  std::size_t size() const { return count_; }
  std::uint32_t* indices() { return indices_.data(); }
  float* values() { return values_.data(); }
  const std::uint32_t* indices() const { return indices_.data(); }
  const float* values() const { return values_.data(); }
  operator ListView() const {
    return {{indices_.data(), size()}, {values_.data(), size()}};
  }
  // For a backend of the host.
  SparseView view() const {
    return {indices_.data(), values_.data(), &count_, size()};
  }
  std::size_t memory_bytes() const { return 8 * indices_.capacity(); }

  // What was there need not stay.
  void reset(std::size_t count) {
    std::size_t room = count + kListSlack;
    // With something to spare: the next one may be a little larger.
    if (room > indices_.capacity()) room += count / 8;
    indices_.reset(room);
    values_.reset(room);
    count_ = count;
  }
  EntriesOut out() { return {indices(), values()}; }
  // Cuts it.
  void shrink(std::size_t count) { count_ = count; }
  void clear() { shrink(0); }
  void add(std::uint32_t index, float value) {
    indices_.resize(count_ + 1);
    values_.resize(count_ + 1);
    indices_[count_] = index;
    values_[count_++] = value;
  }
  // With `offset` added to the indices.
  void append(const ListView& list, std::uint32_t offset) {
    const std::size_t first = count_;
    count_ += list.size();
    indices_.resize(count_);
    values_.resize(count_);
    for (std::size_t i = 0; i < list.size(); ++i) {
      indices_[first + i] = list.indices[i] + offset;
    }
    std::copy(list.values.begin(), list.values.end(), values() + first);
  }
  void assign(const ListView& list) {
    reset(list.size());
    std::copy(list.indices.begin(), list.indices.end(), indices());
    std::copy(list.values.begin(), list.values.end(), values());
  }

 private:
  Array<std::uint32_t> indices_;
  Array<float> values_;
  std::uint64_t count_ = 0;
};

// All write to `out`, which is none of the inputs.

// a + b; an index that both have gets a's value plus b's.
void merge(const ListView& a, const ListView& b, HostList& out);

// The sum of all lists, added in their order, in lists[0]; the others are used
// up. No lists: nothing happens.
void merge_all(std::vector<HostList>& lists, HostList& scratch);

// The k entries of largest magnitude, ties to the lower index; `rest`, if any,
// gets the others.
void largest(const ListView& list, std::size_t k, HostList& out,
             HostList* rest = nullptr);

// The entries of a whose index is in the sorted `indices`, and those whose
// index is not. Either may be null.
void split(const ListView& a, std::span<const std::uint32_t> indices,
           HostList* inside, HostList* outside);

// The entries with begin <= index < end, where they are.
ListView slice(const ListView& a, std::uint64_t begin, std::uint64_t end);

// The entries with their indices, in memory of their own, counted from `base`;
// the values stay where they are.
ListView shift(const ListView& a, std::uint64_t base,
               Array<std::uint32_t>& indices);

// How many indices any of the lists has: exactly if they have few entries,
// else from a part of the indices. The same for the same lists.
std::size_t count_union(std::span<const SparseView> lists);

// Entries in the fullest of so many equal ranges of [0, n), over the average.
double skew_of(std::span<const SparseView> lists, std::uint64_t n,
               std::size_t ranges);

}  // namespace sluice
