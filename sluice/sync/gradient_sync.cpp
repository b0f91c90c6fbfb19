#include "sluice/sync/gradient_sync.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "sluice/collective/auto.h"
#include "sluice/collective/vote.h"
#include "sluice/core/error.h"
#include "sluice/sync/bucket_sync.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

class GradientSync::Impl {
 public:
  Impl(Communicator& comm, Backend& backend, std::vector<TensorInfo> tensors,
       const SyncOptions& options)
      : comm_(comm),
        backend_(backend),
        tensors_(std::move(tensors)),
        options_(options),
        stream_(backend.make_stream()) {
    std::vector<std::size_t> memory;
    std::size_t elements = 0;
    for (const TensorInfo& t : tensors_) {
      memory.push_back(elements);
      elements += shape3(t.dims).size();
    }
    arena_ = std::make_unique<Arena>(backend_, elements);
    bucket_of_.assign(tensors_.size(), ~std::size_t{0});
    for (const BucketPlan& plan : options_.plan.buckets) {
      for (const std::size_t t : plan.tensors) {
        require(t < tensors_.size(), "[sync] the plan has tensor ", t,
                ", the model only ", tensors_.size());
        bucket_of_[t] = buckets_.size();
      }
      buckets_.push_back(make_bucket_sync({.backend = backend_,
                                           .arena = *arena_,
                                           .plan = plan,
                                           .tensors = tensors_,
                                           .memory = memory,
                                           .treatments = options_.treatments}));
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      require(bucket_of_[t] < buckets_.size(), "[sync] the plan lacks tensor ",
              tensors_[t].name);
    }
    selected_.assign(buckets_.size(), false);
    selector_ = std::thread([this] { loop(&Impl::select_all); });
    exchanger_ = std::thread([this] { loop(&Impl::exchange_all); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    selector_.join();
    exchanger_.join();
  }

  void begin(std::uint64_t step, const Densities& densities,
             std::uint64_t note) {
    const std::lock_guard lock(mutex_);
    if (running_ > 0 || (begun_ && !finished_)) {
      throw std::logic_error("[sync] begin() before finish() of the last step");
    }
    step_ = {step, options_.total_steps, densities.now, options_.seed};
    densities_ = densities;
    note_ = note;
    for (auto& bucket : buckets_) bucket->reset();
    selected_.assign(buckets_.size(), false);
    report_ = {};
    error_ = nullptr;
    failed_ = false;
    in_doubt_ = false;
    begun_ = true;
    finished_ = false;
    running_ = 2;
    ++round_;
    began_ = Clock::now();
    changed_.notify_all();
  }

  void ready(std::size_t tensor, float* gradient) {
    require(tensor < tensors_.size(), "[sync] tensors count from 0 to ",
            tensors_.size(), ", got ", tensor);
    const std::lock_guard lock(mutex_);
    const std::size_t b = bucket_of_[tensor];
    if (!buckets_[b]->add(tensor, gradient)) return;
    record("backward", b, began_);
    changed_.notify_all();
  }

  SyncReport finish() {
    const auto start = Clock::now();
    std::unique_lock lock(mutex_);
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (buckets_[b]->complete()) continue;
      throw std::logic_error(
          concat("[sync] finish() before all tensors of bucket ", b,
                 " were announced; announce zeros for those without a "
                 "gradient"));
    }
    changed_.wait(lock, [&] { return running_ == 0; });
    report_.exposed_seconds = since(start);
    record("wait", buckets_.size(), start);
    finished_ = true;
    if (error_ != nullptr) std::rethrow_exception(error_);
    return report_;
  }

  bool recover() {
    comm_.rebuild();
    totals_.resize(buckets_.size() + 1, 0);
    const VoteResult result = settle(
        comm_,
        {report_.committed ? step_.step + 1 : step_.step, in_doubt_, totals_});
    if (in_doubt_) {
      finish_buckets(result.decision == Decision::kCommit, result.totals);
      in_doubt_ = false;
    }
    return report_.committed;
  }

  std::size_t memory_bytes() const {
    std::size_t bytes = arena_->size() * sizeof(float);
    for (const auto& bucket : buckets_) bytes += bucket->memory_bytes();
    return bytes;
  }

  State save() const {
    State state;
    state.residual = fetch(arena_->residual());
    if (arena_->has_momentum()) {
      state.momentum = fetch(arena_->momentum(backend_));
    }
    for (const auto& bucket : buckets_) {
      state.rules.push_back(bucket->save_rule(*stream_));
      state.collectives.push_back(bucket->save_collective());
    }
    return state;
  }

  void load(const State& state) {
    const std::size_t n = arena_->size();
    require(state.residual.size() == n &&
                (state.momentum.empty() || state.momentum.size() == n),
            "[sync] the saved residual must have ", n, " elements, got ",
            state.residual.size());
    require(
        state.rules.empty() || (state.rules.size() == buckets_.size() &&
                                state.collectives.size() == buckets_.size()),
        "[sync] the saved state must be of ", buckets_.size(), " buckets, got ",
        state.rules.size());
    backend_.copy_in(*stream_, arena_->residual(),
                     std::as_bytes(std::span(state.residual)));
    if (!state.momentum.empty()) {
      backend_.copy_in(*stream_, arena_->momentum(backend_),
                       std::as_bytes(std::span(state.momentum)));
    }
    for (std::size_t b = 0; b < state.rules.size(); ++b) {
      buckets_[b]->load_rule(*stream_, state.rules[b]);
      buckets_[b]->load_collective(state.collectives[b]);
    }
    backend_.wait(backend_.record(*stream_));
  }

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const Plan& plan() const { return options_.plan; }

 private:
  // A thread's life: one call of `work` per step.
  void loop(void (Impl::*work)()) {
    std::uint64_t done = 0;
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || round_ != done; });
        if (stopping_) return;
        done = round_;
      }
      try {
        (this->*work)();
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (error_ == nullptr) error_ = std::current_exception();
        failed_ = true;
      }
      const std::lock_guard lock(mutex_);
      --running_;
      changed_.notify_all();
    }
  }

  // False if the step has failed or the sync ends.
  template <class Condition>
  bool wait_for(Condition&& condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || failed_ || condition(); });
    return !stopping_ && !failed_;
  }

  void select_all() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (!wait_for([&] { return buckets_[b]->complete(); })) return;
      const auto start = Clock::now();
      StepInfo info = step_;
      info.density = bucket_density(options_.plan.buckets[b], densities_);
      buckets_[b]->select(*stream_, info);
      report_.select_seconds += since(start);
      record("select", b, start);
      const std::lock_guard lock(mutex_);
      selected_[b] = true;
      changed_.notify_all();
    }
  }

  void exchange_all() {
    comm_.reset_traffic();
    bool voted = false;
    try {
      double wire = 0;
      for (std::size_t b = 0; b < buckets_.size(); ++b) {
        if (!wait_for([&] { return bool{selected_[b]}; })) {
          wait_for_selector();
          finish_buckets(false, {});
          return;
        }
        const auto start = Clock::now();
        exchange(b);
        wire += since(start);
        record("wire", b, start);
        const auto applied = Clock::now();
        buckets_[b]->apply(comm_.size());
        record("apply", b, applied);
      }
      std::vector<std::uint64_t> counts = count();
      voted = true;
      const bool sound =
          accept_step(sum_of_reports(), options_.nonfinite, step_.step);
      const VoteResult result = vote(comm_, step_.step, sound, counts);
      totals_ = result.totals;
      report_.notes = totals_.back();
      report_.wire_seconds = wire;
      report_.traffic = comm_.traffic();
      finish_buckets(result.decision == Decision::kCommit, totals_);
    } catch (const CommError& e) {
      wait_for_selector();
      in_doubt_ = voted;
      totals_.assign(buckets_.size(), 0);
      if (!voted) {
        finish_buckets(false, {});
        throw;
      }
      throw CommError(
          concat(e.what(),
                 "; whether the others committed the step is in doubt: "
                 "recover() on all ranks that go on"),
          e.rank(), e.suspect());
    }
  }

  void exchange(std::size_t b) {
    // Bucket by bucket in the step's number, so that ranks with another order
    // of buckets find each other out.
    const std::uint64_t step = step_.step * buckets_.size() + b;
    if (Network* network = buckets_[b]->unknown_network()) {
      if (!network_) network_ = measure_network(comm_, step);
      *network = *network_;
    }
    const bool traced = options_.trace != nullptr && options_.trace->on();
    const EncodeWatch watch(!traced ? EncodeWatch::Report{} : [&](auto start) {
      record("encode", b, start);
    });
    buckets_[b]->exchange(comm_, step);
  }

  // What it has staged must not change under a roll-back.
  void wait_for_selector() {
    std::unique_lock lock(mutex_);
    failed_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return running_ <= 1 || stopping_; });
  }

  void finish_buckets(bool commit, const std::vector<std::uint64_t>& totals) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (commit) {
        buckets_[b]->commit(*stream_, totals[b]);
      } else {
        buckets_[b]->roll_back(*stream_);
      }
    }
    // The others may not have come as far as to measure it.
    if (!commit) network_.reset();
    backend_.wait(backend_.record(*stream_));
    report_.committed = commit;
  }

  StepReport sum_of_reports() {
    StepReport sum;
    for (const auto& bucket : buckets_) {
      const StepReport r = bucket->report();
      sum.budget += r.budget;
      sum.selected += r.selected;
      sum.nonfinite += r.nonfinite;
      sum.lost += r.lost;
    }
    return sum;
  }

  std::vector<std::uint64_t> count() {
    std::vector<std::uint64_t> counts;
    for (const auto& bucket : buckets_) {
      counts.push_back(bucket->report().selected);
      (bucket->is_sparse() ? report_.sparse_elements
                           : report_.dense_elements) += bucket->bucket().size();
    }
    const StepReport sum = sum_of_reports();
    report_.budget = sum.budget;
    report_.selected = sum.selected;
    report_.nonfinite = sum.nonfinite;
    report_.lost = sum.lost;
    counts.push_back(note_);
    return counts;
  }

  std::vector<float> fetch(const float* device) const {
    std::vector<float> host(arena_->size());
    backend_.copy_out(*stream_, std::as_writable_bytes(std::span(host)),
                      device);
    backend_.wait(backend_.record(*stream_));
    return host;
  }

  void record(std::string_view what, std::size_t bucket,
              Clock::time_point start) {
    if (options_.trace == nullptr) return;
    options_.trace->add({what, bucket, step_.step, start, Clock::now()});
  }

  Communicator& comm_;
  Backend& backend_;
  std::vector<TensorInfo> tensors_;
  SyncOptions options_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<BucketSync>> buckets_;
  std::vector<std::size_t> bucket_of_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> selected_;
  std::uint64_t round_ = 0;
  int running_ = 0;  // threads that are at work on the step
  bool begun_ = false;
  bool finished_ = true;
  bool stopping_ = false;
  bool failed_ = false;  // the step: nobody need go on with it
  bool in_doubt_ = false;
  std::exception_ptr error_;
  StepInfo step_;
  Densities densities_;
  SyncReport report_;
  std::vector<std::uint64_t> totals_;  // per bucket, and of the notes
  std::optional<Network> network_;     // once measured, for all buckets
  std::uint64_t note_ = 0;
  Clock::time_point began_;
  std::thread selector_;
  std::thread exchanger_;
};

GradientSync::GradientSync(Communicator& comm, Backend& backend,
                           std::vector<TensorInfo> tensors,
                           const SyncOptions& options)
    : impl_(
          std::make_unique<Impl>(comm, backend, std::move(tensors), options)) {}
GradientSync::~GradientSync() = default;

void GradientSync::begin(std::uint64_t step, const Densities& densities,
                         std::uint64_t note) {
  impl_->begin(step, densities, note);
}
void GradientSync::ready(std::size_t tensor, float* gradient) {
  impl_->ready(tensor, gradient);
}
SyncReport GradientSync::finish() { return impl_->finish(); }
bool GradientSync::recover() { return impl_->recover(); }
const std::vector<TensorInfo>& GradientSync::tensors() const {
  return impl_->tensors();
}
const Plan& GradientSync::plan() const { return impl_->plan(); }
std::size_t GradientSync::memory_bytes() const { return impl_->memory_bytes(); }
GradientSync::State GradientSync::save() const { return impl_->save(); }
void GradientSync::load(const State& state) { impl_->load(state); }

}  // namespace sluice
