#include "sluice/run/timeline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sluice/core/atomic_file.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kLanes[] = {"compute", "select", "exchange"};

std::size_t lane_of(std::string_view what) {
  if (what == "select") return 1;
  return what == "exchange" || what == "encode" || what == "apply" ? 2 : 0;
}

double microseconds(Clock::time_point t) {
  return std::chrono::duration<double, std::micro>(t.time_since_epoch())
      .count();
}

// A bucket's backward lasts from the step's begin until its last gradient is
// there; drawn one after another they can be told apart.
void chain_backward(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.end < b.end; });
  std::map<std::uint64_t, Clock::time_point> last;
  for (Span& span : spans) {
    if (span.what != "backward") continue;
    auto& before = last.try_emplace(span.step, span.begin).first->second;
    span.begin = std::max(span.begin, before);
    before = span.end;
  }
}

Json to_json(std::vector<Span> spans, Clock::time_point barrier) {
  chain_backward(spans);
  Json rows = Json::array();
  for (const Span& s : spans) {
    rows.push_back({std::string(s.what), s.bucket, s.step,
                    microseconds(s.begin), microseconds(s.end)});
  }
  return {{"host", host_name()},
          {"barrier", microseconds(barrier)},
          {"spans", rows}};
}

void add_rank(Json& events, std::size_t rank, const Json& from,
              const Json& first, std::span<const std::string> labels) {
  events.push_back({{"ph", "M"},
                    {"name", "process_name"},
                    {"pid", rank},
                    {"args", {{"name", "rank " + std::to_string(rank)}}}});
  for (std::size_t lane = 0; lane < std::size(kLanes); ++lane) {
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", rank},
                      {"tid", lane},
                      {"args", {{"name", std::string(kLanes[lane])}}}});
  }
  const bool same_clock = from["host"] == first["host"];
  const double zero = (same_clock ? first : from)["barrier"];
  for (const Json& s : from["spans"]) {
    const std::string what = s[0];
    const double begin = s[3];
    const double end = s[4];
    const bool of_bucket = what != "forward" && what != "optimizer" &&
                           what != "wait" && what != "backward pass";
    Json args = {{"step", s[2].get<std::uint64_t>() + 1}};
    if (of_bucket) {
      const auto bucket = s[1].get<std::size_t>();
      args["bucket"] = bucket;
      // Of another plan than the last there are no labels.
      if (bucket < labels.size()) args["tensors"] = labels[bucket];
    }
    events.push_back({{"ph", "X"},
                      {"name", what},
                      {"cat", "sluice"},
                      {"pid", rank},
                      {"tid", lane_of(what)},
                      {"ts", begin - zero},
                      {"dur", end - begin},
                      {"args", args}});
  }
}

void write_ranks(const std::vector<Json>& ranks,
                 std::span<const std::string> labels, const std::string& path) {
  Json events = Json::array();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    add_rank(events, r, ranks[r], ranks[0], labels);
  }
  // Times before the barrier are negative, which some viewers do not like.
  double first = 0;
  for (const Json& e : events) {
    if (e.contains("ts")) first = std::min(first, e["ts"].get<double>());
  }
  for (Json& e : events) {
    if (e.contains("ts")) e["ts"] = e["ts"].get<double>() - first;
  }
  const Json file = {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
  write_text(path, file.dump() + "\n");
}

Clock::time_point at(double seconds) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(seconds)));
}

}  // namespace

void write_timeline(Communicator& comm, std::uint64_t step, const Trace& trace,
                    std::span<const std::string> labels,
                    const std::string& path) {
  comm.barrier(step);
  const std::string mine = to_json(trace.spans(), Clock::now()).dump();
  const auto all = gather_at_first(comm, "trace", step, to_bytes(mine));
  if (comm.rank() != 0) return;
  std::vector<Json> ranks;
  for (const Bytes& bytes : all) ranks.push_back(Json::parse(to_string(bytes)));
  write_ranks(ranks, labels, path);
}

void write_timeline(std::span<const Span> spans,
                    std::span<const std::string> labels,
                    const std::string& path) {
  write_ranks({to_json({spans.begin(), spans.end()}, Clock::time_point())},
              labels, path);
}

std::vector<Span> spans_of(const Simulation& s, double forward) {
  std::vector<Span> spans = {{"forward", 0, 0, at(0), at(forward)}};
  for (std::size_t b = 0; b < s.timeline.buckets.size(); ++b) {
    const BucketTimes& t = s.timeline.buckets[b];
    spans.push_back({"backward", b, 0, at(forward), at(t.ready)});
    const auto add = [&](std::string_view what, const Interval& i) {
      if (i.end > i.begin)
        spans.push_back({what, b, 0, at(i.begin), at(i.end)});
    };
    add("select", t.select);
    add("exchange", t.exchange);
    add("apply", t.apply);
  }
  const Interval& vote = s.timeline.vote;
  if (vote.end > vote.begin) {
    spans.push_back({"wait", 0, 0, at(vote.begin), at(vote.end)});
  }
  if (s.iteration > s.timeline.end) {
    spans.push_back({"optimizer", 0, 0, at(s.timeline.end), at(s.iteration)});
  }
  return spans;
}

}  // namespace sluice
