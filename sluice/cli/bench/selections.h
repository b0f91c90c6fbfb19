#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/collective/host_list.h"
#include "sluice/core/wire.h"

namespace sluice {

struct SelectionOptions {
  std::uint64_t n = 0;
  std::uint64_t k = 0;  // entries per rank
  double overlap = 0;   // share of them that all ranks have in common
  std::string support = "uniform";
  ValueForm values = ValueForm::kFp32;
  std::uint64_t seed = 1;
};

// Made-up selections of ranks that train together, from the options alone: any
// process can tell what any rank has. A quarter of the indices is new in every
// step.
//
// Supports: uniform; skewed, towards low indices; clustered, around a few
// places that all ranks share; hot-columns, where a few columns of rows of 1024
// have nearly everything.
class Selections {
 public:
  explicit Selections(const SelectionOptions& options);

  // What a rank selects in a step: k entries with normal values that the value
  // form can carry.
  void draw(std::size_t rank, std::uint64_t step, HostList& out);
  // Indices that any of the first `ranks` selects.
  std::uint64_t union_size(std::size_t ranks, std::uint64_t step);

  static const std::vector<std::string>& supports();

 private:
  using Bits = std::vector<std::uint64_t>;

  void mark(std::size_t rank, std::uint64_t step);
  void mark_until(std::uint64_t count, std::uint64_t key, std::uint64_t step);
  std::uint64_t place(std::uint64_t random) const;

  SelectionOptions options_;
  Bits bits_;  // one per index
  std::uint64_t marked_ = 0;
};

// About normal, of mean 0 and variance 1, from 64 random bits; never 0.
float normal_from(std::uint64_t random);

}  // namespace sluice
