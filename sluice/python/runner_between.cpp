#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sluice/core/ensure.h"
#include "sluice/python/agree_on.h"
#include "sluice/python/runner.h"
#include "sluice/run/ranks.h"

// What a SyncRunner's ranks do between two steps, but saving and recovering.

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kBetween = Communicator::between_steps(5);
constexpr auto kPaused = Communicator::between_steps(7);

}  // namespace

// A rank that has paused a pass and one that has not find each other out here:
// the other one sends a frame of its step, or none.
void SyncRunner::compare_passes() {
  const std::uint64_t mine = std::exchange(passed_now_, 0);
  if (mine == 0) return;
  comm_.count_steps(1, 1);
  const std::string rule =
      concat("all ranks must pause the same backward passes, but before step ",
             step_ + 1, " rank ", comm_.rank(), " paused ", mine);
  std::size_t other = comm_.rank();
  try {
    other = rank_that_differs(comm_, "paused", kPaused,
                              std::as_bytes(std::span(&mine, 1)));
  } catch (const CommError& e) {
    comm_.abandon(concat("[paused] ", rule,
                         ", and the others may have paused none: ", e.what()));
  }
  if (other != comm_.rank()) {
    comm_.abandon(
        concat("[paused] ", rule, " and rank ", other, " another number"));
  }
  comm_.count_steps(1, 0);
}

void SyncRunner::pass() {
  std::unique_lock lock(mutex_);
  wait_for_end(lock);
  ++passed_;
  ++passed_now_;
}

template <class F>
void SyncRunner::between_steps(F&& f) {
  std::unique_lock lock(mutex_);
  wait_for_end(lock);
  refuse_after_failure();
  ensure(!open_, "[sync] the backward pass of step ", step_ + 1,
         " did not come to its end on rank ", comm_.rank(),
         "; call recover() on all ranks first");
  try {
    f();
  } catch (const CommError& e) {
    failure_ = e.what();
    throw;
  }
}

void SyncRunner::enter_tentative() {
  between_steps([&] { tentative_->enter(step_); });
}

void SyncRunner::leave_tentative() {
  const std::lock_guard lock(mutex_);
  tentative_->leave();
}

void SyncRunner::discard() {
  between_steps([&] { tentative_->discard(); });
}

void SyncRunner::set_density(double density) {
  between_steps([&] {
    const std::string problem = problem_of([&] {
      const DensitySchedule check("", density);
      const Plan& plan = sync_->plan();
      require(!std::ranges::all_of(plan.buckets, &BucketPlan::dense),
              "[set_density] there must be something sparse, but plan '",
              plan.name, "' sends everything");
    });
    agree_on(comm_, "set_density", kBetween, "density", Json(density).dump(),
             problem);
    take_density(density);
  });
}

// Piece by piece: each has a deadline of its own, and frames that are kept for
// later calls stay small.
std::vector<Bytes> SyncRunner::gather(std::string_view what,
                                      std::span<const std::byte> mine) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  std::vector<Bytes> all(comm_.rank() == 0 ? comm_.size() : 1);
  between_steps([&] {
    const std::uint64_t most =
        largest(comm_, what, kBetween, (mine.size() + kPiece - 1) / kPiece);
    for (std::uint64_t i = 0; i < most; ++i) {
      const std::size_t begin = std::min(mine.size(), i * kPiece);
      const auto piece =
          mine.subspan(begin, std::min(kPiece, mine.size() - begin));
      const auto pieces = gather_at_first(comm_, what, kBetween, piece);
      for (std::size_t r = 0; r < pieces.size(); ++r) {
        all[r].insert(all[r].end(), pieces[r].begin(), pieces[r].end());
      }
    }
  });
  if (comm_.rank() != 0) all[0].assign(mine.begin(), mine.end());
  return all;
}

std::vector<std::size_t> SyncRunner::sizes() const {
  std::vector<std::size_t> out;
  for (const TensorInfo& t : sync_->tensors()) {
    out.push_back(shape3(t.dims).size());
  }
  return out;
}

// Densities of buckets that a plan has chosen change in proportion: those are
// of the density in the settings.
void SyncRunner::take_density(std::optional<double> density) {
  density_ = density;
  const TrainConfig& config = settings_.config;
  schedule_.emplace(density ? "" : config.density_schedule,
                    density.value_or(config.density));
}

void SyncRunner::share_density() {
  const Json mine = density_ ? Json(*density_) : Json();
  const Json first =
      Json::parse(broadcast_first(comm_, "recover", kBetween, mine.dump()));
  if (first == mine) return;
  take_density(first.is_null() ? std::nullopt
                               : std::optional(first.get<double>()));
}

}  // namespace sluice
