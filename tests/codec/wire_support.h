#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/backend/cpu/wire.h"
#include "support.h"

// What the tests of messages share.

namespace sluice::testing {

using Bytes = std::vector<std::byte>;

// Entries of a bucket in host memory.
struct List {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::vector<std::uint64_t> starts;
  std::vector<SegmentForm> segments;

  // Other segments, plain ones, for the same entries.
  void cut(const std::vector<std::uint64_t>& sizes);
  // Gives each segment this form, and values that it carries.
  void set_values(ValueForm form);
  // The bucket of `other` behind this one.
  void append(const List& other);
};

// k distinct sorted indices below n: random, at either end, or in clusters.
List make_list(std::uint64_t n, std::uint64_t k, std::string_view kind);
// Each of n indices with a chance of one in `gap`.
List bernoulli(std::uint64_t n, std::uint64_t gap);
// What a sparsifier takes of Gaussian tensors.
List selected(const std::string& sparsifier, const std::vector<Dims>& tensors,
              double density);
// Up to eight segments: empty, plain, by rows, by tiles, full; of any values.
List mixed(std::uint64_t seed);

// All index forms that need no rows.
std::vector<IndexForm> plain_forms();
WireOptions forced(IndexForm form);

// Empty if the form cannot carry the list.
Bytes encode(const List& list, const WireOptions& options = {},
             std::string_view isa = "");
WireError decode(const Bytes& bytes, std::span<const SegmentForm> segments,
                 std::size_t capacity, List& out, std::string_view isa = "");

std::vector<WirePart> parts_of(const Bytes& message);
// Where the first section of a message of one part is.
inline constexpr std::size_t kHead = sizeof(WireHeader) + sizeof(WirePart);

// Gives it a valid checksum, whatever a test has done to it.
void seal(Bytes& message);

}  // namespace sluice::testing
