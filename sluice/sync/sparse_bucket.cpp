#include "sluice/core/error.h"
#include "sluice/sync/bucket_sync.h"

namespace sluice {
namespace {

class SparseBucket final : public BucketSync {
 public:
  explicit SparseBucket(const Setup& setup)
      : BucketSync(setup),
        feedback_(make_feedback(
            setup.plan.feedback,
            {backend_, arena_, bucket_, make_sparsifier(setup.plan.sparsifier),
             value_form("plan", setup.plan.values)})) {}

  bool is_sparse() const override { return true; }

  void apply(ExchangeContext& context, std::size_t ranks) override {
    context.apply(out_.sum, gradients_, 1.0F / static_cast<float>(ranks),
                  bad_sums());
    fetch_bad_sums(context);
  }

  StepReport report() const override {
    StepReport report = feedback_->report();
    report.nonfinite += host_bad_sums();
    return report;
  }

  std::vector<std::byte> save_rule(Stream& stream) const override {
    return feedback_->save(stream);
  }
  void load_rule(Stream& stream, std::span<const std::byte> bytes) override {
    feedback_->load(stream, bytes);
  }
  std::size_t memory_bytes() const override {
    return 8 * feedback_->staged().capacity();
  }

 private:
  void enqueue_select(Stream& stream, const StepInfo& step) override {
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

  void on_commit(ExchangeContext& context) override {
    feedback_->put_back(context.stream(), context.on_device(out_.returned));
    feedback_->commit(context.stream());
  }

  void on_roll_back(ExchangeContext& context) override {
    feedback_->rollback(context.stream());
  }

  std::unique_ptr<Feedback> feedback_;
  Delivery out_;
};

}  // namespace

std::unique_ptr<BucketSync> make_sparse_bucket(const BucketSync::Setup& setup) {
  return std::make_unique<SparseBucket>(setup);
}

}  // namespace sluice
