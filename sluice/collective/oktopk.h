#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// Ok-Topk (PPoPP'22): about the k largest of the sum, for less than 6 k words.
// Rank r sums the r-th of P regions of indices, which hold about as many
// selected entries each; of the sums, those above a threshold go to all. Every
// tau' steps the threshold is made exact from all sums; in between it is nudged
// to keep their number near k. Regions are made anew every tau steps.
//
// What a rank selected at an index that is not delivered returns to it.
class Oktopk final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "oktopk";
  static constexpr std::string_view kSummary =
      "about the k largest of the sum: < 6 k (P - 1) / P words, thresholds "
      "reused";
  struct Params {
    std::int64_t tau = 64;
    std::int64_t tau_prime = 32;
    double low = 2.0 / 3;
    double high = 4.0 / 3;
    double lower = 1.008;
    double raise = 1.008;
    double balance = 4;
    double cap = 1.5;
  };
  static ParamList list(Params& p);

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit Oktopk(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }
  bool exact() const override { return false; }
  void commit(std::uint64_t selected) override;
  std::vector<double> save() const override;
  void load(std::span<const double> values) override;

 private:
  struct State {
    std::uint64_t step = 0;
    double threshold = 0;
    std::vector<std::uint64_t> bounds;  // of the regions; P + 1
  };

  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;
  bool fits(std::size_t ranks, std::uint64_t n) const;
  void make_regions(Communicator& comm, const ListView& selected,
                    std::uint64_t n);
  std::uint64_t sum_regions(Communicator& comm, ListCoder& coder,
                            const ListView& selected, const Contribution& mine);
  void deliver_exactly(Communicator& comm, ListCoder& coder, std::uint64_t k);
  void deliver_above(Communicator& comm, ListCoder& coder, std::uint64_t n,
                     std::uint64_t k);
  void agree_on_sizes(Communicator& comm, std::uint64_t k);
  void level(Communicator& comm, ListCoder& coder, std::uint64_t n);
  void gather(Communicator& comm, ListCoder& coder, bool by_region,
              std::uint64_t n, HostList& out);

  Params params_;
  State state_;  // of the last step that was committed
  State next_;
  std::vector<HostList> lists_;
  HostList mine_;  // what this rank has for the others, counted in its region
  HostList sum_;
  HostList returned_;
  HostList scratch_;
  Array<std::uint32_t> indices_;  // scratch
  std::vector<SegmentForm> forms_;
  std::vector<std::uint64_t> numbers_;  // everybody's
  std::vector<std::uint64_t> starts_;   // scratch
};

}  // namespace sluice
