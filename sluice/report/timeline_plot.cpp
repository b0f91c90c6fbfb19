#include "sluice/report/timeline_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "sluice/core/json_check.h"
#include "sluice/report/axis.h"
#include "sluice/report/markup.h"
#include "sluice/report/palette.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostRanks = 4;
constexpr std::size_t kMostSpans = 4000;
constexpr double kWidth = 900;
constexpr double kLeft = 120;
constexpr double kTop = 34;
constexpr double kLane = 20;
constexpr double kGap = 12;  // between ranks

struct Span {
  std::string what;
  std::string tensors;
  std::int64_t rank = 0;
  std::int64_t lane = 0;
  std::int64_t step = 0;
  double begin = 0;  // microseconds
  double end = 0;
};

// Stages have the colours of methods that nobody takes them for.
struct Stage {
  const char* name;
  const char* colour;  // as Palette::find() has it
  double opacity;
};
constexpr Stage kStages[] = {
    {"forward", "dense-bf16", 0.55}, {"backward", "dense-bf16", 0.9},
    {"optimizer", "gaussiank", 0.9}, {"select", "topk", 0.9},
    {"exchange", "adtopk", 0.9},     {"encode", "gtopk", 0.9},
    {"apply", "oktopk", 0.9},        {"wait", "redsync", 0.35}};

const Stage* stage_of(const std::string& what) {
  for (const Stage& stage : kStages) {
    if (what == stage.name) return &stage;
  }
  return nullptr;
}

std::string colour(const Stage& stage) {
  const Palette& palette = Palette::standard();
  const std::size_t i = palette.find(stage.colour).value_or(0);
  return fmt::format(
      "class=\"c{}\" color=\"{}\" fill=\"currentColor\" "
      "fill-opacity=\"{}\"",
      i, palette.colour(i).light, stage.opacity);
}

std::vector<Span> read_spans(const Json& file) {
  std::vector<Span> spans;
  for (const Json& event : file.at("traceEvents")) {
    if (event.value("ph", "") != "X") continue;
    const Json args = event.value("args", Json::object());
    Span span;
    span.what = event.value("name", "");
    span.tensors = args.value("tensors", "");
    span.rank = event.value("pid", std::int64_t{0});
    span.lane =
        std::clamp<std::int64_t>(event.value("tid", std::int64_t{0}), 0, 2);
    span.step = args.value("step", std::int64_t{0});
    span.begin = event.value("ts", 0.0);
    span.end = span.begin + event.value("dur", 0.0);
    if (stage_of(span.what) != nullptr) spans.push_back(span);
  }
  return spans;
}

// The last step that as many ranks have as any.
std::int64_t chosen_step(const std::vector<Span>& spans) {
  std::map<std::int64_t, std::set<std::int64_t>> ranks;
  for (const Span& s : spans) ranks[s.step].insert(s.rank);
  std::size_t most = 0;
  std::int64_t step = 0;
  for (const auto& [at, who] : ranks) {
    if (who.size() < most) continue;
    most = who.size();
    step = at;
  }
  return step;
}

class Drawing {
 public:
  explicit Drawing(std::vector<Span> spans) : spans_(std::move(spans)) {
    for (const Span& s : spans_) ranks_.insert(s.rank);
    begin_ = spans_[0].begin;
    for (const Span& s : spans_) {
      begin_ = std::min(begin_, s.begin);
      end_ = std::max(end_, s.end);
    }
  }

  double milliseconds() const { return (end_ - begin_) / 1e3; }
  std::string draw();

 private:
  void text(double x, double y, const char* anchor, const std::string& style,
            const std::string& words) {
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x,
        y, anchor, style, escape_markup(words));
  }
  double x(double at) const {
    return kLeft + (at - begin_) / std::max(end_ - begin_, 1e-9) * kWidth;
  }
  double y(std::int64_t rank, std::int64_t lane) const {
    const auto place =
        static_cast<double>(std::distance(ranks_.begin(), ranks_.find(rank)));
    return kTop + place * (3 * kLane + kGap) +
           static_cast<double>(lane) * kLane;
  }
  void draw_key();
  void draw_lanes(const std::string& muted, const std::string& grid);

  std::vector<Span> spans_;
  std::set<std::int64_t> ranks_;
  double begin_ = 0;
  double end_ = 0;
  std::string out_;
};

void Drawing::draw_key() {
  double at = kLeft;
  for (const Stage& stage : kStages) {
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"6\" width=\"12\" height=\"12\" rx=\"2\" {}/>\n",
        at, colour(stage));
    text(at + 17, 16, "start", "", stage.name);
    at += 96;
  }
}

void Drawing::draw_lanes(const std::string& muted, const std::string& grid) {
  constexpr const char* kLanes[] = {"compute", "select", "exchange"};
  const double bottom = y(*ranks_.rbegin(), 3);
  for (const double tick : ticks(0, milliseconds(), false, 9)) {
    const double at = x(begin_ + 1e3 * tick);
    out_ += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
        "stroke=\"currentColor\" {3}/>\n",
        at, kTop - 4, bottom, grid);
    text(at, bottom + 16, "middle", muted, fmt::format("{:g}", tick));
  }
  text(kLeft + kWidth / 2, bottom + 34, "middle", "",
       "ms since the step began");
  for (const std::int64_t rank : ranks_) {
    text(8, y(rank, 1) + 14, "start", "font-weight=\"600\"",
         fmt::format("rank {}", rank));
    for (std::int64_t lane = 0; lane < 3; ++lane) {
      text(kLeft - 8, y(rank, lane) + 14, "end", muted, kLanes[lane]);
    }
  }
}

std::string Drawing::draw() {
  const Palette& palette = Palette::standard();
  const double height = y(*ranks_.rbegin(), 3) + 44;
  out_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" role=\"img\" aria-label=\"timeline of a step\" "
      "font-family=\"system-ui,sans-serif\" font-size=\"12\">\n"
      "<g class=\"ink\" color=\"{2}\" fill=\"currentColor\">\n",
      kLeft + kWidth + 14, height, palette.ink().light);
  draw_key();
  draw_lanes(fmt::format("class=\"muted\" color=\"{}\"", palette.muted().light),
             fmt::format("class=\"grid\" color=\"{}\"", palette.grid().light));
  for (const Span& s : spans_) {
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
        "rx=\"1.5\" {}><title>{}{}: {:.3f} ms</title></rect>\n",
        x(s.begin), y(s.rank, s.lane) + 2, std::max(0.8, x(s.end) - x(s.begin)),
        kLane - 4, colour(*stage_of(s.what)), escape_markup(s.what),
        s.tensors.empty() ? "" : " of " + escape_markup(s.tensors),
        (s.end - s.begin) / 1e3);
  }
  return out_ + "</g></svg>\n";
}

TimelinePicture draw_spans(std::vector<Span> spans) {
  const std::int64_t step = chosen_step(spans);
  std::set<std::int64_t> ranks;
  for (const Span& s : spans) {
    if (s.step == step) ranks.insert(s.rank);
  }
  const std::size_t all = ranks.size();
  while (ranks.size() > kMostRanks) ranks.erase(std::prev(ranks.end()));
  std::erase_if(spans, [&](const Span& s) {
    return s.step != step || !ranks.contains(s.rank);
  });
  if (spans.empty()) return {"", "trace.json has no spans that are known"};
  const std::size_t left_out =
      spans.size() > kMostSpans ? spans.size() - kMostSpans : 0;
  spans.resize(spans.size() - left_out);
  Drawing drawing(std::move(spans));
  std::string note =
      fmt::format("Step {}, {:.2f} ms", step, drawing.milliseconds());
  if (all > ranks.size()) {
    note += fmt::format("; {} of {} ranks", ranks.size(), all);
  }
  if (left_out > 0) note += fmt::format("; {} spans are left out", left_out);
  return {drawing.draw(),
          note + ". All of trace.json: ui.perfetto.dev or chrome://tracing."};
}

}  // namespace

TimelinePicture draw_timeline(const std::string& trace_json) {
  if (!is_sound_json(trace_json)) {
    return {"", "trace.json is no JSON, or not whole"};
  }
  try {
    return draw_spans(read_spans(Json::parse(trace_json)));
  } catch (const Json::exception&) {
    return {"", "trace.json is not one of ours"};
  }
}

}  // namespace sluice
