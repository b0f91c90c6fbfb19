#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// The dense baseline: all n elements by a pipelined ring or by the engine's own
// all-reduce. They add in other orders, so which of them it is changes bits.
class Dense final : public DenseAllreduce {
 public:
  static constexpr std::string_view kName = "dense";
  static constexpr std::string_view kSummary =
      "dense fp32 all-reduce: exact, 2 n (P - 1) / P values received";
  struct Params {
    std::string by = "auto";
  };
  static ParamList list(Params& p) {
    return {{.name = "by",
             .value = &p.by,
             .doc = "a pipelined ring, the engine's own all-reduce, the one "
                    "that suits the size, or between GPUs NCCL's (auto), or "
                    "(measured) the one that was faster in the first steps, "
                    "which does not repeat",
             .choices = {"auto", "ring", "native", "measured"}}};
  }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit Dense(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }
  bool takes_link() const override { return params_.by == "auto"; }
  void commit(std::uint64_t selected) override;
  std::vector<double> save() const override;
  void load(std::span<const double> values) override;

  bool by_engine() const override { return by() == "native"; }
  // How it sums: "ring", "native", or "" before that is decided.
  std::string_view by() const;

 private:
  void sum_now(Communicator& comm, std::span<const float> in,
               std::span<float> out, std::span<float> remainders,
               const MemoryOwner& owner) override;
  void enqueue_sum(Communicator& comm, ExchangeContext& context,
                   std::span<const float> in, std::span<float> out,
                   std::span<float> remainders) override;
  bool take_native(Communicator& comm, std::size_t n);

  Params params_;
  std::uint64_t committed_ = 0;
  double best_[2] = {1e30, 1e30};  // seconds: ring, native
  int choice_ = -1;                // index of best_, once made
};

// The same in bf16: half the bytes. What a rank rounds off returns to it.
class DenseBf16 final : public DenseAllreduce {
 public:
  static constexpr std::string_view kName = "dense-bf16";
  static constexpr std::string_view kSummary =
      "dense all-reduce in bf16 by a ring: what is rounded off returns";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit DenseBf16(const Params&) {}
  std::string_view name() const override { return kName; }
  bool exact() const override { return false; }
  bool rounds() const override { return true; }

 private:
  void sum_now(Communicator& comm, std::span<const float> in,
               std::span<float> out, std::span<float> remainders,
               const MemoryOwner& owner) override;
  void enqueue_sum(Communicator& comm, ExchangeContext& context,
                   std::span<const float> in, std::span<float> out,
                   std::span<float> remainders) override;

  Buffer words_;     // a slot for every rank
  Buffer incoming_;  // the same
};

}  // namespace sluice
