#include "sluice/sync/gradient_sync.h"

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "sluice/collective/auto.h"
#include "sluice/collective/patterns.h"
#include "sluice/collective/vote.h"
#include "sluice/core/ensure.h"
#include "sluice/sync/bucket_set.h"
#include "sluice/sync/even_plans.h"

namespace sluice {
namespace {

using Steady = std::chrono::steady_clock;

double since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

}  // namespace

class GradientSync::Impl {
 public:
  Impl(Communicator& comm, Backend& backend, std::vector<TensorInfo> tensors,
       const SyncOptions& options)
      : comm_(comm),
        backend_(backend),
        options_(options),
        select_stream_(backend.make_stream()),
        context_(backend, options.link),
        buckets_(backend, std::move(tensors), options.treatments, options.host),
        network_(options.network) {
    take(options_.plan);
    selector_ = std::thread([this] { loop(&Impl::select_all); });
    try {
      exchanger_ = std::thread([this] { loop(&Impl::exchange_all); });
    } catch (const std::system_error&) {
      end_threads();
      throw;
    }
  }

  ~Impl() {
    end_threads();
    // The streams of a step that was given up may wait for other ranks.
    if (open_) abort_link();
  }

  void begin(std::uint64_t step, const Densities& densities,
             std::uint64_t note) {
    const std::lock_guard lock(mutex_);
    expect(!open_, "[sync] begin() before finish() of the last step");
    expect(!standing_.open, "[sync] begin() while the outcome of step ",
           standing_.open ? standing_.open->step + options_.first_step : 0,
           " is unknown; call recover() on all ranks first");
    standing_.open = {step, Ballot::kNone};
    recovered_ = Recovered::kNoStep;
    next_step_ = step;
    step_ = {step, options_.total_steps, 0, options_.seed};
    densities_ = densities;
    note_ = note;
    forget_step();
    selected_ = 0;
    // Not beside others who may have another plan.
    started_ = comm_.failed() ? buckets_.size() : 0;
    report_ = {};
    error_ = nullptr;
    failed_ = false;
    given_up_.reset();
    open_ = true;
    running_ = 2;
    ++round_;
    began_ = Steady::now();
    backend_.wait(*select_stream_, committed_);
    changed_.notify_all();
  }

  void ready(std::size_t tensor, const TensorView& gradient, const Event& event,
             const MemoryOwner& scratch) {
    require(tensor < tensors().size(), "[sync] tensors count from 0 to ",
            tensors().size(), ", got ", tensor);
    const std::lock_guard lock(mutex_);
    expect(open_, "[sync] ready() must come after begin()");
    // What is wrong with it is wrong for all of its pieces, so that the first
    // one finds it.
    for (const std::size_t b : buckets_.of(tensor)) {
      if (!buckets_[b].add(tensor, gradient, event, scratch)) continue;
      record("backward", b, began_);
      start_complete();
      changed_.notify_all();
    }
  }

  SyncReport finish() {
    const auto start = Steady::now();
    std::unique_lock lock(mutex_);
    expect(open_, "[sync] finish() needs a step that has begun");
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      expect(buckets_[b].complete(),
             "[sync] finish() before all tensors of bucket ", b,
             " were announced; announce zeros for those without a gradient");
    }
    changed_.wait(lock, [&] { return running_ == 0; });
    report_.exposed_seconds = since(start);
    record("wait", buckets_.size(), start);
    comm_.count_steps(1, 0);
    open_ = false;
    if (error_ != nullptr) std::rethrow_exception(error_);
    return report_;
  }

  void give_up(const std::string& why) {
    std::unique_lock lock(mutex_);
    expect(open_, "[sync] give_up() needs a step that has begun");
    given_up_ = why;
    // What was announced goes to the residual as part of whole buckets.
    const Buffer zeros = backend_.allocate(announce_missing_as(nullptr));
    announce_missing_as(zeros.data<float>());
    changed_.notify_all();
    changed_.wait(lock, [&] { return running_ == 0; });
    comm_.count_steps(1, 0);
    open_ = false;
  }

  Recovered recover() {
    if (!in_doubt_) forget_step();
    comm_.rebuild();
    comm_.count_steps(1, options_.first_step);
    const bool had_open = standing_.open.has_value();
    const Settled settled = settle(comm_, standing_);
    comm_.count_steps(1, 0);
    // Kept for the next call if the rest of this one fails: the ranks have
    // settled the step and do not do so again.
    if (had_open) recovered_ = recovered_by(settled.decision);
    if (recovered_ != Recovered::kNoStep) {
      next_step_ = step_.step + (recovered_ == Recovered::kFailed ? 0 : 1);
    }
    if (settled.next_step) next_step_ = *settled.next_step;
    if (options_.link != nullptr) options_.link->rebuild();
    if (in_doubt_) {
      in_doubt_ = false;
      finish_buckets(recovered_ == Recovered::kCommitted);
    }
    even_plans();
    // A rank that was in doubt about a step may not have begun the next one,
    // which the others have rolled back. All ranks must know that the memories
    // of a node may be on any of its ranks.
    if (buckets_.machines() != nullptr) buckets_.inherit_residuals();
    return std::exchange(recovered_, Recovered::kNoStep);
  }

  void replan(const Plan& plan, const std::optional<Network>& network,
              std::optional<std::uint64_t> step) {
    expect(!open_ && !in_doubt_, "[sync] replan() belongs between two steps");
    compare_plans(plan, step.value_or(next_step_));
    const Machines* before = buckets_.machines();
    take(plan);
    // What leaders have measured, others do not know.
    if (buckets_.machines() != before) network_ = options_.network;
    options_.plan = plan;
    if (network) options_.network = network_ = network;
  }

  std::size_t memory_bytes() const {
    return buckets_.memory_bytes() + context_.memory_bytes();
  }

  State save() { return buckets_.save(context_.stream()); }

  void load(const State& state) {
    buckets_.load(context_.stream(), state);
    committed_ = backend_.record(context_.stream());
    backend_.wait(committed_);
  }

  void set_aside() {
    expect(!open_ && !in_doubt_,
           "[sync] set_aside() belongs between two steps");
    buckets_.set_aside(context_.stream());
    backend_.wait(backend_.record(context_.stream()));
  }

  void bring_back() {
    expect(!open_ && !in_doubt_,
           "[sync] bring_back() belongs between two steps");
    buckets_.bring_back(context_.stream());
    committed_ = backend_.record(context_.stream());
    backend_.wait(committed_);
  }

  const std::vector<TensorInfo>& tensors() const { return buckets_.tensors(); }
  const Plan& plan() const { return options_.plan; }

 private:
  static Recovered recovered_by(Decision decision) {
    if (decision == Decision::kCommitted) return Recovered::kCommitted;
    return decision == Decision::kRolledBack ? Recovered::kSkipped
                                             : Recovered::kFailed;
  }

  void end_threads() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread* thread : {&selector_, &exchanger_}) {
      if (thread->joinable()) thread->join();
    }
  }

  // With the sums that were started, which must not outlive what they go by.
  void forget_step() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b].reset();
  }

  // Those of a hierarchical plan.
  std::unique_ptr<const Machines> find_machines() {
    return std::make_unique<const Machines>(options_.machine_of.empty()
                                                ? gather_machines(comm_)
                                                : options_.machine_of,
                                            comm_.rank(), comm_.size());
  }

  void take(const Plan& plan) {
    if (plan.hierarchical && !machines_) machines_ = find_machines();
    buckets_.take(plan, plan.hierarchical ? machines_.get() : nullptr,
                  BucketSet::Keep::kWhatStays);
    watch_buckets();
  }

  // Known to all ranks or to none are machines then.
  void take_anew(const Plan& plan) {
    auto machines = plan.hierarchical ? find_machines() : nullptr;
    buckets_.take(plan, machines.get(), BucketSet::Keep::kNothing);
    machines_ = std::move(machines);
    watch_buckets();
  }

  void watch_buckets() {
    const auto watch = [this](Steady::time_point start) {
      record("encode", exchanging_, start);
    };
    context_.set_watch(watch);
    if (ExchangeContext* host = buckets_.host_context()) host->set_watch(watch);
  }

  // Two threads would have to wake up for them, on cores that compute.
  void start_complete() {
    while (started_ < buckets_.size() && buckets_[started_].complete()) {
      // Other threads have what cannot be started, and all behind it.
      started_ =
          buckets_[started_].start(comm_) ? started_ + 1 : buckets_.size();
    }
  }

  // Nobody would wait for it.
  void start_no_more() {
    const std::lock_guard lock(mutex_);
    started_ = buckets_.size();
  }

  // Room for the largest tensor that is missing; announces them unless null.
  std::size_t announce_missing_as(const float* zeros) {
    std::size_t bytes = sizeof(float);
    for (std::size_t t = 0; t < tensors().size(); ++t) {
      for (const std::size_t b : buckets_.of(t)) {
        if (buckets_[b].has(t)) continue;
        const auto& dims = tensors()[t].dims;
        bytes = std::max(bytes, shape3(dims).size() * sizeof(float));
        if (zeros != nullptr) {
          buckets_[b].add(t, contiguous_view(zeros, dims), {});
        }
      }
    }
    return bytes;
  }

  // Between those who exchange.
  Network measure(std::uint64_t step) {
    if (buckets_.machines() == nullptr) return measure_network(comm_, step);
    const Communicator::Group leaders(comm_, machines_->leaders());
    return measure_network(comm_, step);
  }

  // With buckets that have learned nothing, as those of ranks that changed have
  // none other.
  void even_plans() {
    auto given = plan_to_even({options_.plan, options_.network, evened_},
                              buckets_.names(), comm_);
    if (!given) return;
    take_anew(given->plan);
    evened_ = given->times;
    options_.plan = std::move(given->plan);
    options_.network = network_ = given->network;
  }

  // All ranks must change to the same plan before the same step.
  void compare_plans(const Plan& plan, std::uint64_t step) {
    const std::string text = to_json(plan, buckets_.names());
    comm_.count_steps(1, options_.first_step);
    const std::size_t other = rank_that_differs(comm_, "replan", step,
                                                std::as_bytes(std::span(text)));
    comm_.count_steps(1, 0);
    require(other == comm_.rank(),
            "[sync] all ranks must take up the same plan, but rank ", other,
            " has another than rank ", comm_.rank());
  }

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

  // False if the sync ends.
  template <class Condition>
  bool wait_for(Condition&& condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || condition(); });
    return !stopping_;
  }

  // Goes on after the exchange has failed: what is not selected would be lost.
  void select_all() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (!wait_for([&] { return buckets_[b].complete(); })) return;
      const auto start = Steady::now();
      StepInfo info = step_;
      info.density = bucket_density(buckets_[b].plan(), densities_);
      buckets_[b].select(*select_stream_, info);
      report_.select_seconds += since(start);
      record("select", b, start);
      if (options_.observer != nullptr) {
        buckets_[b].show(info, *options_.observer);
      }
      const std::lock_guard lock(mutex_);
      selected_ = b + 1;
      changed_.notify_all();
    }
  }

  void exchange_all() {
    comm_.reset_traffic();
    try {
      if (!exchange_buckets()) return;
      count();
      decide();
    } catch (const CommError& e) {
      // Whatever waits for the stream from here on must not wait for a rank.
      abort_link();
      start_no_more();
      if (!wait_for_selector()) return;
      const Ballot ballot =
          standing_.open ? standing_.open->ballot : Ballot::kNone;
      in_doubt_ = ballot == Ballot::kYes;
      if (!in_doubt_) finish_buckets(false);
      if (ballot == Ballot::kNone) throw;
      throw CommError(concat(e.what(), "; other ranks may have ",
                             in_doubt_ ? "committed" : "skipped", " the step"),
                      e.rank(), e.suspect());
    }
  }

  // Of a bucket; false if the sync ends. Throws what the selecting thread
  // threw, and why the step was given up.
  bool wait_for_selection(std::size_t b) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return stopping_ || selected_ > b || failed_ || given_up_;
    });
    if (stopping_) return false;
    ensure(!given_up_, given_up_.value_or(""));
    if (selected_ <= b) std::rethrow_exception(error_);
    return true;
  }

  // False if the sync ends. What goes wrong here or in the selecting thread is
  // told to the others, who would wait for nothing.
  bool exchange_buckets() {
    try {
      for (std::size_t b = 0; b < buckets_.size(); ++b) {
        if (!wait_for_selection(b)) return false;
        exchange(b);
        bound_pending(b);
      }
      for (std::size_t b = 0; b < buckets_.size(); ++b) finish_exchange(b);
      // The one time in a step that the host asks for what the device found.
      context_.wait();
      verify_buckets();
      if (options_.beside) {
        comm_.count_steps(1, options_.first_step);
        report_.nonfinite += options_.beside(comm_, step_.step);
      }
      if (options_.link != nullptr) tell_all_applied();
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& e) {
      comm_.count_steps(1, options_.first_step);
      comm_.abandon("exchange", step_.step, e.what());
    }
    return true;
  }

  // What did not fit its slot goes once more.
  void verify_buckets() {
    again_.clear();
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (!buckets_[b].verify(comm_)) again_.push_back(b);
    }
    for (const std::size_t b : again_) exchange(b);
    if (again_.empty()) return;
    context_.wait();
    for (const std::size_t b : again_) {
      expect(buckets_[b].verify(comm_), "[sync] what bucket ", b,
             " sends must fit the second time");
    }
  }

  // Bucket by bucket in the step's number, so that ranks with another order of
  // buckets find each other out.
  std::uint64_t step_of(std::size_t b) const {
    return step_.step * buckets_.size() + b;
  }

  void finish_exchange(std::size_t b) {
    comm_.count_steps(buckets_.size(), options_.first_step);
    buckets_[b].finish_exchange(comm_, context_, step_of(b));
  }

  void exchange(std::size_t b) {
    const auto start = Steady::now();
    exchanging_ = b;
    const std::uint64_t step = step_of(b);
    if (Network* network = buckets_[b].unknown_network()) {
      comm_.count_steps(1, options_.first_step);
      if (!network_) network_ = measure(step_.step);
      *network = *network_;
    }
    comm_.count_steps(buckets_.size(), options_.first_step);
    buckets_[b].exchange(comm_, context_, step);
    report_.exchange_seconds += since(start);
    record("exchange", b, start);
    if (!buckets_[b].applies_early()) return;
    const auto exchanged = Steady::now();
    buckets_[b].apply(context_, comm_.size());
    record("apply", b, exchanged);
    if (options_.link == nullptr) tell_applied(b);
  }

  // Behind an exchange that waits for another rank a launch blocks, with no
  // deadline, once about a thousand are pending.
  void bound_pending(std::size_t b) {
    if (options_.link == nullptr) return;
    Event& oldest = pending_[b % pending_.size()];
    options_.link->wait(oldest);
    oldest = backend_.record(context_.stream());
  }

  void decide() {
    Ballot ballot = Ballot::kYes;
    std::string reason;
    if (report_.nonfinite > 0) {
      const bool stop = options_.nonfinite == NonFinite::kStop;
      ballot = stop ? Ballot::kStop : Ballot::kNo;
      if (stop) {
        reason = describe_nonfinite(report_.nonfinite,
                                    step_.step + options_.first_step);
      }
    }
    comm_.count_steps(1, options_.first_step);
    vote(comm_, step_.step, ballot, counts_, standing_, result_, reason);
    next_step_ = step_.step + 1;
    report_.notes = result_.totals.back();
    report_.traffic = comm_.traffic();
    finish_buckets(result_.decision == Decision::kCommitted);
    ensure(!result_.stops, "[sync] rank ", result_.stopper,
           " stopped the job: ", result_.reason);
  }

  // What it has staged must not change under a roll-back. False if the sync
  // ends, and with it all that was staged.
  bool wait_for_selector() {
    return wait_for([&] { return running_ <= 1; });
  }

  void finish_buckets(bool commit) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (!commit) {
        buckets_[b].roll_back(context_);
        continue;
      }
      const auto start = Steady::now();
      buckets_[b].commit(context_, standing_.totals[b]);
      if (buckets_[b].applies_early()) continue;
      record("apply", b, start);
      tell_applied(b);
    }
    // The others may not have come as far as to measure it.
    if (!commit) network_ = options_.network;
    committed_ = backend_.record(context_.stream());
    backend_.wait(committed_);
    report_.committed = commit;
  }

  void abort_link() {
    if (options_.link != nullptr) options_.link->abort();
  }

  void tell_all_applied() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (buckets_[b].applies_early()) tell_applied(b);
    }
  }

  void tell_applied(std::size_t b) {
    if (!options_.applied) return;
    options_.applied(b, backend_.record(context_.stream()));
  }

  void count() {
    counts_.clear();
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const BucketSync& bucket = buckets_[b];
      const StepReport r = bucket.report();
      counts_.push_back(r.selected);
      report_.budget += r.budget;
      report_.selected += r.selected;
      report_.nonfinite += r.nonfinite;
      report_.lost += r.lost;
      (bucket.is_sparse() ? report_.sparse_elements : report_.dense_elements) +=
          bucket.bucket().size();
    }
    counts_.push_back(note_);
  }

  void record(std::string_view what, std::size_t bucket,
              Steady::time_point start) {
    if (options_.trace == nullptr) return;
    options_.trace->add({what, bucket, step_.step, start, Steady::now()});
  }

  Communicator& comm_;
  Backend& backend_;
  SyncOptions options_;
  std::unique_ptr<Stream> select_stream_;
  ExchangeContext context_;
  std::unique_ptr<const Machines> machines_;  // once a plan asks for them
  BucketSet buckets_;
  std::vector<std::size_t> again_;  // buckets to exchange once more
  std::array<Event, 8> pending_;    // of the last buckets, with a link

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t selected_ = 0;  // buckets
  std::size_t started_ = 0;   // likewise, by who brought their gradients
  std::uint64_t round_ = 0;
  int running_ = 0;    // threads that are at work on the step
  bool open_ = false;  // begun, and not finished
  bool stopping_ = false;
  bool failed_ = false;                  // one of the threads has
  std::optional<std::string> given_up_;  // and why
  bool in_doubt_ = false;  // voted to commit, and heard no decision
  Standing standing_;
  Recovered recovered_ = Recovered::kNoStep;
  std::uint64_t next_step_ = 0;  // that begin() is to be called with
  std::exception_ptr error_;
  StepInfo step_;
  Densities densities_;
  SyncReport report_;
  std::vector<std::uint64_t> counts_;  // per bucket, and of the notes
  VoteResult result_;
  std::optional<Network> network_;  // once known, for all buckets
  std::size_t exchanging_ = 0;
  std::uint64_t note_ = 0;
  std::uint64_t evened_ = 0;  // times that ranks did with their plans
  Event committed_;
  Steady::time_point began_;
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
void GradientSync::ready(std::size_t tensor, const TensorView& gradient,
                         const Event& event, const MemoryOwner& scratch) {
  impl_->ready(tensor, gradient, event, scratch);
}
SyncReport GradientSync::finish() { return impl_->finish(); }
void GradientSync::give_up(const std::string& why) { impl_->give_up(why); }
Recovered GradientSync::recover() { return impl_->recover(); }
void GradientSync::replan(const Plan& plan,
                          const std::optional<Network>& network,
                          std::optional<std::uint64_t> step) {
  impl_->replan(plan, network, step);
}
const std::vector<TensorInfo>& GradientSync::tensors() const {
  return impl_->tensors();
}
const Plan& GradientSync::plan() const { return impl_->plan(); }
std::size_t GradientSync::memory_bytes() const { return impl_->memory_bytes(); }
GradientSync::State GradientSync::save() const { return impl_->save(); }
void GradientSync::load(const State& state) { impl_->load(state); }
void GradientSync::set_aside() { impl_->set_aside(); }
void GradientSync::bring_back() { impl_->bring_back(); }

}  // namespace sluice
