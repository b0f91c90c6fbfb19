#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// SparCML (SC'19), recursive doubling: after each of log2 P rounds a block of
// ranks holds the whole sum of its lists.
class SparcmlRd final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "sparcml-rd";
  static constexpr std::string_view kSummary =
      "exact sum by recursive doubling: log2 P rounds, for small lists";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit SparcmlRd(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;

  HostList sum_;
  HostList other_;
  HostList scratch_;
};

// SparCML, split and all-gather: rank r sums the r-th of P equal ranges of
// indices and sends it to all.
class SparcmlSplit final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "sparcml-split";
  static constexpr std::string_view kSummary =
      "exact sum, equal ranges of indices: (k + u)(P - 1) / P if spread evenly";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit SparcmlSplit(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;

  std::vector<HostList> parts_;  // by sender
  std::vector<HostList> sums_;   // by range
  HostList scratch_;
  Array<std::uint32_t> indices_;  // scratch
  std::vector<SegmentForm> forms_;
};

}  // namespace sluice
