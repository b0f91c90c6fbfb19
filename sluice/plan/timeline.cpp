#include "sluice/plan/timeline.h"

#include <algorithm>

namespace sluice {
namespace {

using Intervals = std::vector<Interval>;

// Sorted, without gaps inside and without overlaps.
Intervals united(Intervals all) {
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) {
    return a.begin < b.begin;
  });
  Intervals out;
  for (const Interval& i : all) {
    if (i.end <= i.begin) continue;
    if (out.empty() || i.begin > out.back().end) {
      out.push_back(i);
    } else {
      out.back().end = std::max(out.back().end, i.end);
    }
  }
  return out;
}

// Seconds of `all` outside `others`.
double outside(const Intervals& all, const Intervals& others) {
  double seconds = 0;
  const Intervals cover = united(others);
  auto first = cover.begin();
  for (const Interval& i : united(all)) {
    while (first != cover.end() && first->end <= i.begin) ++first;
    double from = i.begin;
    for (auto c = first; c != cover.end() && c->begin < i.end; ++c) {
      seconds += std::max(0.0, c->begin - from);
      from = c->end;
    }
    seconds += std::max(0.0, i.end - from);
  }
  return seconds;
}

// One stage at a time; `free` is when the last one ends.
Interval take(double& free, double ready, double seconds) {
  if (seconds <= 0) return {ready, ready};
  const double begin = std::max(free, ready);
  free = begin + seconds;
  return {begin, free};
}

// Backward, and when each bucket is ready; with selection in its stream, all
// of that as well. One thread starts all selections, in their order, and is at
// those of the host itself, until `selecting`: what is behind them is started
// by the first gradient that is made later.
void compute(Timeline& out, double forward, std::span<const double> backward,
             std::span<const BucketWork> buckets, bool select_here) {
  double now = forward;
  double selecting = 0;
  std::size_t next = 0;
  bool waits = false;
  out.compute.push_back({0, forward});
  for (std::size_t made = 0;; ++made) {
    for (; next < buckets.size() && buckets[next].ready_after <= made; ++next) {
      const BucketWork& work = buckets[next];
      BucketTimes& times = out.buckets[next];
      if (!waits) times.ready = now;
      waits = select_here && !work.beside && work.select > 0 &&
              selecting > now && made < backward.size();
      if (waits) break;
      if (!select_here) continue;
      times.select = work.beside ? take(selecting, times.ready, work.select)
                                 : take(now, work.select > 0 ? selecting : now,
                                        work.select);
    }
    if (made == backward.size()) break;
    out.compute.push_back({now, now + backward[made]});
    now += backward[made];
  }
  out.end = now;
}

}  // namespace

Timeline run_timeline(double forward, std::span<const double> backward,
                      std::span<const BucketWork> buckets,
                      const Streams& streams, double vote) {
  Timeline out;
  out.buckets.resize(buckets.size());
  out.compute.reserve(backward.size() + 1);
  compute(out, forward, backward, buckets, !streams.select_beside);
  double selecting = 0;
  double link = 0;
  double applying = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    BucketTimes& t = out.buckets[b];
    if (streams.select_beside) {
      t.select = take(selecting, t.ready, buckets[b].select);
    }
    t.exchange = take(link, t.select.end, buckets[b].exchange);
    if (buckets[b].at_end) continue;
    t.apply = take(streams.apply_beside ? applying : link, t.exchange.end,
                   buckets[b].apply);
  }
  out.end = std::max({out.end, link, applying});
  out.vote = take(out.end, out.end, vote);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (!buckets[b].at_end) continue;
    out.buckets[b].apply = take(out.end, out.end, buckets[b].apply);
  }
  return out;
}

double Timeline::exposed_exchange() const {
  Intervals exchanges = {vote};
  for (const BucketTimes& t : buckets) exchanges.push_back(t.exchange);
  return outside(exchanges, compute);
}

double Timeline::exposed_work() const {
  Intervals work;
  Intervals others = compute;
  others.push_back(vote);
  for (const BucketTimes& t : buckets) {
    work.push_back(t.select);
    work.push_back(t.apply);
    others.push_back(t.exchange);
  }
  return outside(work, others);
}

}  // namespace sluice
