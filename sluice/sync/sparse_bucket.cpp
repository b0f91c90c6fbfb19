#include <algorithm>
#include <cmath>

#include "sluice/core/error.h"
#include "sluice/sync/bucket_sync.h"

namespace sluice {
namespace {

// Rules that take turns have a feedback each, with states of their own, on the
// same residuals and momenta.
class SparseBucket final : public BucketSync {
 public:
  explicit SparseBucket(const Setup& setup) : BucketSync(setup) {
    add_rule(setup.plan.sparsifier);
    for (const std::string& rule : setup.plan.turns) add_rule(rule);
    feedback_ = rules_[0].get();
  }

  bool is_sparse() const override { return true; }
  bool applies_early() const override { return true; }

  void apply(ExchangeContext& context, std::size_t ranks) override {
    context.apply(out_.sum, gradients_, 1.0F / static_cast<float>(ranks),
                  bad_sums());
    fetch_bad_sums(context);
  }

  StepReport report() const override {
    StepReport report = feedback_->report();
    report.nonfinite += host_bad_sums();
    for (const SparseView& list : out_.returned.lists) {
      report.lost += lost_of(list);
    }
    return report;
  }

  std::vector<std::byte> save_rule(Stream& stream) const override {
    std::vector<std::byte> all;
    for (const auto& rule : rules_) {
      const std::vector<std::byte> own = rule->save(stream);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  void load_rule(Stream& stream, std::span<const std::byte> bytes) override {
    const std::size_t each = feedback_->state_bytes();
    require(bytes.size() == each * rules_.size(), "[", feedback_->name(),
            "] saved rules must have ", each * rules_.size(), " bytes, got ",
            bytes.size());
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      rules_[i]->load(stream, bytes.subspan(i * each, each));
    }
  }
  std::size_t memory_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& rule : rules_) bytes += 8 * rule->staged().capacity();
    return bytes;
  }

 private:
  void add_rule(const std::string& sparsifier) {
    rules_.push_back(
        make_feedback(plan().feedback,
                      {backend_, arena_, bucket_, make_sparsifier(sparsifier),
                       value_form("plan", plan().values)}));
  }

  // What would return to memory that there is none of. Only algorithms of the
  // host return anything.
  double lost_of(const SparseView& list) const {
    const std::span<const std::uint32_t> indices(list.indices, *list.count);
    double lost = 0;
    for (const MemoryRange& r : feedback_->residuals()) {
      if (r.data != nullptr) continue;
      auto at = std::lower_bound(indices.begin(), indices.end(), r.base);
      for (; at != indices.end() && *at < r.base + r.size; ++at) {
        lost +=
            std::abs(static_cast<double>(list.values[at - indices.begin()]));
      }
    }
    return lost;
  }

  Feedback* shown() override { return feedback_; }

  void enqueue_select(Stream& stream, const StepInfo& step) override {
    // Of the step's number, which all ranks have and a resumed run goes on
    // with; not of how often this bucket was selected.
    feedback_ = rules_[step.step % rules_.size()].get();
    feedback_->select(stream, gradients_, step);
    feedback_->fetch_report(stream);
  }

  void run_exchange(Communicator& comm, ExchangeContext& context,
                    std::uint64_t step) override {
    // Known from the plan, without asking the device.
    const std::uint64_t k = feedback_->budget();
    collective_->reduce(comm, context,
                        {feedback_->staged(), feedback_->forms(), k, step,
                         feedback_->residuals()},
                        out_);
  }

  void on_commit(ExchangeContext& context, std::uint64_t selected) override {
    feedback_->commit(context.stream(), context.on_device(out_.returned),
                      out_.refused);
    collective_->commit(selected);
  }

  void on_roll_back(ExchangeContext& context) override {
    feedback_->rollback(context.stream());
    collective_->roll_back();
  }

  std::vector<std::unique_ptr<Feedback>> rules_;
  Feedback* feedback_;  // the one whose turn it is
  Delivery out_;
};

}  // namespace

void check_values(const BucketPlan& plan) {
  if (plan.sparsifier == "none") return;
  const auto collective = make_collective(plan.collective);
  require(collective->carries(value_form("plan", plan.values)),
          "[plan] collective '", collective->name(),
          "' would send values in full width all the same, got values '",
          plan.values,
          "'; use values fp32, or a collective that saves by it, as balanced");
}

std::unique_ptr<BucketSync> make_sparse_bucket(const BucketSync::Setup& setup) {
  check_values(setup.plan);
  return std::make_unique<SparseBucket>(setup);
}

}  // namespace sluice
