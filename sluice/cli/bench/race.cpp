#include "sluice/cli/bench/race.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/shared/launch.h"
#include "sluice/collective/auto.h"
#include "sluice/collective/balanced.h"
#include "sluice/collective/dense.h"
#include "sluice/collective/oktopk.h"
#include "sluice/collective/patterns.h"
#include "sluice/collective/vote.h"
#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

double thread_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Steps after which an algorithm's messages repeat.
std::uint64_t cycle_of(const std::string& text) {
  const Spec spec = parse_spec(text);
  if (spec.name != Oktopk::kName) return 1;
  Oktopk::Params params;
  for (const auto& [key, value] : spec.params) {
    set_param(Oktopk::list(params), "collective 'oktopk'", key, value);
  }
  return static_cast<std::uint64_t>(params.tau_prime);
}

// Pieces may have an index more than once.
double count_distinct(const Pieces& sum, std::size_t n) {
  if (!sum.dense.empty()) return static_cast<double>(n);
  std::vector<bool> seen(n);
  std::size_t count = 0;
  for (const SparseView& list : sum.lists) {
    for (const std::uint32_t j : std::span(list.indices, *list.count)) {
      count += seen[j] ? 0 : 1;
      seen[j] = true;
    }
  }
  return static_cast<double>(count);
}

}  // namespace

struct Race::Lane {
  explicit Lane(const std::string& text, std::uint64_t rounds)
      : spec(text), algorithm(make_collective(text)), cycle(cycle_of(text)) {
    steps = (rounds + cycle - 1) / cycle * cycle;
  }

  template <class T>
  T* as() const {
    return dynamic_cast<T*>(algorithm.get());
  }
  double dense_word() const {
    const DenseAllreduce* dense = algorithm->as_dense();
    if (dense == nullptr) return 0;
    return dense->rounds() ? 2 : sizeof(float);
  }
  std::string by() const {
    if (const auto* dense = as<Dense>()) return std::string(dense->by());
    if (const auto* model = as<Auto>()) return std::string(model->choice());
    if (const auto* balanced = as<Balanced>()) {
      return balanced->direct() ? "direct" : "owners";
    }
    return "";
  }

  std::string spec;
  std::unique_ptr<SparseAllreduce> algorithm;
  std::uint64_t cycle;
  std::uint64_t steps;
  Delivery out;
  std::vector<Sample> samples;
};

Race::Race(const RaceOptions& options, Communicator& comm)
    : options_(options),
      comm_(comm),
      backend_(make_cpu_backend({1, ""})),
      context_(*backend_),
      selections_(options.selections),
      form_{options.selections.n, options.selections.values, {}},
      block_(*backend_, options.selections.n, options.selections.k, 1),
      dense_(options.selections.n),
      mean_(options.selections.n) {
  for (const std::string& spec : options.algorithms) {
    lanes_.emplace_back(spec, options.warmup + options.steps);
    if (lanes_.back().dense_word() == 2) {
      remainders_.resize(dense_.size());
    }
    if (lanes_.back().algorithm->needs_rest() && rest_.empty()) {
      memory_ = backend_->allocate(dense_.size() * sizeof(float));
      rest_ = {memory_.data<float>(), dense_.size()};
    }
  }
  for (std::size_t j = 0; j < rest_.size(); ++j) {
    rest_[j] = normal_from(mix64(options.selections.seed, comm.rank(), j));
  }
}

Race::~Race() = default;

void Race::hide_selected() {
  for (std::size_t i = 0; i < hidden_.size(); ++i) {
    rest_[hidden_.indices()[i]] = hidden_.values()[i];
  }
  hidden_.clear();
  for (const std::uint32_t j : ListView(selected_).indices) {
    hidden_.add(j, rest_[j]);
    rest_[j] = 0;
  }
}

void Race::prepare(std::uint64_t step) {
  selections_.draw(comm_.rank(), step, selected_);
  const ListView list = selected_;
  block_.assign(*backend_, context_.stream(), list.indices, list.values);
  if (!rest_.empty()) hide_selected();
  if (comm_.rank() != 0) return;
  unions_.push_back(
      static_cast<double>(selections_.union_size(comm_.size(), step)));
}

void Race::reduce(Lane& lane, std::uint64_t step) {
  if (DenseAllreduce* dense = lane.algorithm->as_dense()) {
    dense->sum(comm_, step, dense_, mean_, remainders_);
    return;
  }
  const MemoryRange rest = {rest_.data(), 0, rest_.size()};
  lane.algorithm->reduce(
      comm_, context_,
      {block_, {&form_, 1}, options_.selections.k, step, {&rest, 1}}, lane.out);
  lane.algorithm->verify(comm_);
}

Sample Race::exchange(Lane& lane, std::uint64_t step) {
  const bool dense = lane.dense_word() > 0;
  if (dense) {
    std::fill(dense_.begin(), dense_.end(), 0.0F);
    for (std::size_t i = 0; i < selected_.size(); ++i) {
      dense_[selected_.indices()[i]] = selected_.values()[i];
    }
  }
  comm_.barrier(step);
  const Traffic before = comm_.traffic();
  const double cpu = thread_cpu_seconds();
  const auto start = comm_.now();
  reduce(lane, step);
  Sample s;
  s.seconds = std::chrono::duration<double>(comm_.now() - start).count();
  s.cpu = thread_cpu_seconds() - cpu;
  const Traffic& after = comm_.traffic();
  s.sent = static_cast<double>(after.bytes_sent - before.bytes_sent);
  s.received =
      static_cast<double>(after.bytes_received - before.bytes_received);
  s.messages = static_cast<double>(after.messages_sent - before.messages_sent);
  const Stopwatch apply;
  if (dense) lane.out.sum.dense = mean_;
  const TensorView target = flat_view(dense_);
  context_.apply(lane.out.sum, {&target, 1},
                 1.0F / static_cast<float>(comm_.size()));
  s.apply = apply.seconds();
  if (comm_.rank() == 0) s.delivered = count(lane, step);
  const std::uint64_t counts[] = {selected_.size()};
  VoteResult result;
  vote(comm_, step, Ballot::kYes, counts, standing_, result);
  lane.algorithm->commit(result.totals[0]);
  return s;
}

// Entries of the sum. A fast wrong answer is no result.
double Race::count(const Lane& lane, std::uint64_t step) const {
  if (lane.dense_word() > 0) return static_cast<double>(dense_.size());
  const double count = count_distinct(lane.out.sum, dense_.size());
  const bool all = lane.algorithm->exact() && lane.out.sum.dense.empty();
  ensure(!all || count == unions_.back(), "[bench] ", lane.spec,
         " must deliver all of ", unions_.back(), " indices, got ", count,
         " in step ", step);
  return count;
}

// The dense baseline tries its ways in its first steps; with one rank it never
// needs to choose.
void Race::settle(Lane& lane) {
  constexpr std::uint64_t kMost = 5;
  const auto* dense = lane.as<Dense>();
  for (std::uint64_t s = 0; s < kMost && dense && dense->by().empty(); ++s) {
    exchange(lane, 0);
  }
}

Finish Race::finish(const Lane& lane) {
  Finish f;
  f.spec = lane.spec;
  f.by = lane.by();
  f.exact = lane.algorithm->exact();
  f.dense_word = lane.dense_word();
  f.cycles = lane.cycle > 1;
  f.first_timed = options_.warmup;
  f.end_timed = options_.warmup + options_.steps;
  for (const Bytes& bytes : gather_at_first(
           comm_, "gather", 0, std::as_bytes(std::span(lane.samples)))) {
    f.samples.emplace_back(bytes.size() / sizeof(Sample));
    std::memcpy(f.samples.back().data(), bytes.data(), bytes.size());
  }
  return f;
}

std::vector<Finish> Race::run() {
  std::uint64_t longest = 0;
  for (const Lane& lane : lanes_) longest = std::max(longest, lane.steps);
  for (std::uint64_t step = 0; step < longest; ++step) {
    prepare(step);
    for (Lane& lane : lanes_) {
      if (step >= lane.steps) continue;
      if (comm_.rank() == 0) {
        show_progress(fmt::format("{} n={} k={} step {}/{}", lane.spec,
                                  options_.selections.n, options_.selections.k,
                                  step + 1, lane.steps));
      }
      if (step == 0) settle(lane);
      lane.samples.push_back(exchange(lane, step));
    }
  }
  std::vector<Finish> all;
  for (const Lane& lane : lanes_) all.push_back(finish(lane));
  if (comm_.rank() != 0) return {};
  show_progress("");
  return all;
}

}  // namespace sluice
