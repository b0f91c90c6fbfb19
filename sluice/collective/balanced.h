#pragma once

#include "sluice/collective/allgather.h"
#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// Which rank sums an index, and where in that rank's list it stands.
//
// Indices are partitioned in blocks; every P blocks are a row, and a hash turns
// the order of ranks from row to row. Keeps the order of indices, needs no
// table and inverts; hot columns and hot regions alike spread evenly, best with
// blocks of one. Part of the wire: all ranks must agree on it.
class OwnerMap {
 public:
  // At least two ranks; n at most 2^32, as in a Bucket; block a power of two.
  OwnerMap(std::uint64_t n, std::size_t ranks, std::uint64_t block = 1);

  struct Place {
    std::uint32_t owner;
    std::uint32_t local;
  };
  Place place(std::uint32_t j) const {
    const std::uint64_t block = j >> shift_;
    const std::uint64_t row = divide(block);
    std::uint64_t owner = block - row * ranks_ + turn(row);
    owner -= less_one_round(owner);
    return {static_cast<std::uint32_t>(owner),
            static_cast<std::uint32_t>(row << shift_ | (j & mask_))};
  }
  // Length of every rank's list; the last places of some may be no index.
  std::uint64_t length() const { return length_; }
  // The inverse; n or more if there is no such index.
  std::uint64_t index(std::size_t owner, std::uint32_t local) const {
    const std::uint64_t row = local >> shift_;
    std::uint64_t seat = owner + ranks_ - turn(row);
    seat -= less_one_round(seat);
    return (row * ranks_ + seat) << shift_ | (local & mask_);
  }
  // The segments of an owner's list, of a bucket with these.
  void forms(std::size_t owner, std::span<const SegmentForm> whole,
             std::vector<SegmentForm>& out) const;

 private:
  // Without a branch: it would be a coin toss.
  std::uint64_t less_one_round(std::uint64_t seat) const {
    return ranks_ & (0 - static_cast<std::uint64_t>(seat >= ranks_));
  }
  std::uint64_t divide(std::uint64_t x) const {
    return static_cast<std::uint64_t>(
        (static_cast<unsigned __int128>(x) * inverse_) >> 64);
  }
  // In [0, P), from the upper bits of a 32-bit hash.
  std::uint64_t turn(std::uint64_t row) const {
    auto h = static_cast<std::uint32_t>(row) * 0x9e3779b1U;
    h = (h ^ (h >> 15)) * 0x85ebca77U;
    return (h ^ (h >> 13)) * ranks_ >> 32;
  }

  std::uint64_t ranks_;
  std::uint64_t inverse_;  // ceil(2^64 / P): exact quotients to 2^32
  unsigned shift_;
  std::uint32_t mask_;
  std::uint64_t length_;
};

// Balanced reduce-scatter and all-gather (after ZEN, OSDI'25): every index has
// an owner that sums it; the exact sum, near the fewest bytes possible,
// whatever the supports. Where sending every list to every rank takes fewer
// bytes still (always for two ranks), it does that; it learns from the step
// before. So it does wherever devices have a link.
class Balanced final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "balanced";
  static constexpr std::string_view kSummary =
      "exact sum by hashed owners: (k + u)(P - 1) / P entries, evenly spread";
  struct Params {
    std::int64_t block = 1;
    std::string direct = "auto";
  };
  static ParamList list(Params& p) {
    return {
        {.name = "block",
         .value = &p.block,
         .doc = "indices in a row with one owner; a power of two, 1 spreads "
                "best",
         .min = 1,
         .max = 65536},
        {.name = "direct",
         .value = &p.direct,
         .doc = "send lists directly: always, never, or when it takes "
                "fewer bytes",
         .choices = {"auto", "yes", "no"}}};
  }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit Balanced(const Params& params);
  std::string_view name() const override { return kName; }
  bool verify(Communicator& comm) override {
    return !direct_ || exchange_.verify(comm);
  }
  void commit(std::uint64_t selected) override;
  void roll_back() override { exchange_.roll_back(); }
  std::vector<double> save() const override;
  void load(std::span<const double> values) override;

  // Whether the last exchange was direct.
  bool direct() const { return direct_; }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;
  bool choose_direct(std::uint64_t n, std::size_t ranks, bool linked) const;
  void partition(const OwnerMap& map, const ListView& selected,
                 std::size_t ranks);
  void push(Communicator& comm, ListCoder& coder, const OwnerMap& map,
            std::span<const SegmentForm> forms);
  void pull(Communicator& comm, ListCoder& coder, const OwnerMap& map,
            std::uint64_t n, Pieces& sum);

  Params params_;
  bool direct_ = false;
  std::uint64_t last_u_ = 0;  // of the exchange that is under way
  // Of the last step that was committed; 0 before the first.
  std::uint64_t selected_ = 0;
  std::uint64_t u_ = 0;
  std::uint64_t steps_ = 0;  // committed
  DirectExchange exchange_;
  std::vector<HostList> lists_;  // by owner, then by sender
  std::vector<HostList> sums_;   // by owner
  HostList scratch_;
  std::vector<SegmentForm> forms_;
  std::vector<std::size_t> counts_;
};

}  // namespace sluice
