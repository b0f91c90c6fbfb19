#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// The algorithm with the exact sum that the cost model expects to be fastest,
// step by step, from the last step's k and u and the network's alpha and beta,
// which the ranks measure in the first step unless told.
class Auto final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "auto";
  static constexpr std::string_view kSummary =
      "exact sum by whichever algorithm the cost model expects to be fastest";
  struct Params {
    double alpha = 0;
    double beta = 0;
  };
  static ParamList list(Params& p) {
    return {{"alpha", &p.alpha, "seconds per message; 0 measures it", 0, 1e3},
            {"beta", &p.beta, "seconds per byte; 0 measures it", 0, 1e3}};
  }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit Auto(const Params& params);
  std::string_view name() const override { return kName; }
  Network* unknown_network() override {
    return network_.alpha == 0 && network_.beta == 0 ? &network_ : nullptr;
  }
  bool verify(Communicator& comm) override {
    return algorithms_[choice_]->verify(comm);
  }
  void commit(std::uint64_t selected) override;
  void roll_back() override;
  std::vector<double> save() const override;
  void load(std::span<const double> values) override;

  // What the last step ran, and the network as it knows it.
  std::string_view choice() const;
  const Network& network() const { return network_; }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;
  void start(Communicator& comm, ExchangeContext& context,
             const Contribution& mine);
  void learn(const ExchangeContext& context, const Pieces& sum, std::uint64_t n,
             std::size_t ranks);

  Network given_;  // by the parameters
  Network network_;
  std::vector<std::unique_ptr<SparseAllreduce>> algorithms_;
  std::size_t choice_ = 0;
  // Of the exchange that is under way.
  double last_u_ = 0;
  double last_skew_ = kUnknownSkew;
  // Of the last step that was committed; negative before the first.
  double selected_ = -1;
  double u_ = -1;
  double skew_ = kUnknownSkew;
  std::uint64_t steps_ = 0;  // committed
};

// Alpha and beta as the ranks see them when all of them talk at once around a
// ring; the same numbers on every rank. A call of its own.
Network measure_network(Communicator& comm, std::uint64_t step);

}  // namespace sluice
