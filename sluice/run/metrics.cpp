#include "sluice/run/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sluice/core/atomic_file.h"
#include "sluice/core/ensure.h"
#include "sluice/run/terminal.h"

namespace sluice {
namespace {

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB"};
  std::size_t u = 0;
  for (; bytes >= 1000 && u + 1 < std::size(units); ++u) bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, u == 0 ? 0 : 1, units[u]);
}

std::string bar(std::uint64_t done, std::uint64_t total) {
  constexpr std::size_t kWidth = 10;
  const std::size_t full =
      kWidth * std::min(done, total) / std::max<std::uint64_t>(total, 1);
  return fmt::format("[{:#<{}}{:.<{}}]", "", full, "", kWidth - full);
}

}  // namespace

void StepTotals::add(const StepTotals& o) {
  steps += o.steps;
  samples += o.samples;
  loss += o.loss;
  score += o.score;
  selected += o.selected;
  budget += o.budget;
  sparse_elements += o.sparse_elements;
  dense_elements += o.dense_elements;
  bytes += o.bytes;
  exposed += o.exposed;
  select += o.select;
  wire += o.wire;
  seconds += o.seconds;
  skipped += o.skipped;
  replaced += o.replaced;
}

Metrics::Metrics(const Options& options)
    : options_(options),
      terminal_(isatty(STDERR_FILENO) != 0),
      out_(terminal_ || options.lines_to_stderr ? STDERR_FILENO
                                                : STDOUT_FILENO),
      start_(std::chrono::steady_clock::now()),
      path_(options.folder + "/metrics.jsonl"),
      events_(options.folder, static_cast<std::int64_t>(options.done) + 1) {
  // A run that was killed may have told of steps that it did not save.
  forget_metrics_after(path_, options.done);
  file_.reset(fdopen(open_to_append("metrics", path_), "a"));
  ensure(file_ != nullptr, "[metrics] '", path_,
         "' must be writable: ", std::strerror(errno));
}

void Metrics::trained(const Moment& at, const StepTotals& w) {
  MetricsLine line = line_at(at, MetricsLine::kTrain);
  line.loss = w.mean_loss();
  if (const ScoreKind* kind = options_.training_score) {
    line.scores = {{kind, kind->of_mean(w.mean_score())}};
  }
  line.replaced = w.replaced;
  line.lr = at.rate;
  line.samples_per_s = w.samples_per_second();
  line.density = w.density();
  line.target_density = at.target_density;
  line.k_hat_over_k = w.sent_over_budget();
  line.bytes_per_step = w.per_step(w.bytes);
  line.step_s = w.per_step(w.seconds);
  line.exposed_s = w.per_step(w.exposed);
  line.select_s = w.per_step(w.select);
  line.wire_s = w.per_step(w.wire);
  line.skipped = w.skipped / w.ranks;
  write(to_json(line));
  for (const auto& [name, value] : metrics_fields(line.kind)) {
    events_.add_scalar(std::string("train/") + name, line.*value,
                       static_cast<std::int64_t>(at.step));
  }
  add_scores("train/", line);
  if (terminal_) {
    draw(parts(at, w));
  } else {
    say(fmt::format("step {}/{}  {}", at.step, options_.total, describe(w)));
  }
}

void Metrics::evaluated(const Moment& at, const Evaluation& e) {
  MetricsLine line = line_at(at, MetricsLine::kEval);
  line.loss = e.loss;
  for (const Score& s : e.scores) line.scores.push_back({s.kind, s.value()});
  line.samples = e.samples;
  line.replaced = e.replaced;
  write(to_json(line));
  const auto step = static_cast<std::int64_t>(at.step);
  events_.add_scalar("eval/loss", e.loss, step);
  add_scores("eval/", line);
  events_.flush();
  const std::string replaced =
      e.replaced > 0 ? fmt::format("; {} {} that cannot be read were replaced",
                                   e.replaced, options_.unit)
                     : "";
  std::string scores;
  for (const NamedScore& s : line.scores) {
    scores += fmt::format(", {} {}", s.kind->label, s.kind->text(s.value));
  }
  say(fmt::format("step {} epoch {:.2f}: test loss {:.4f}{}{}", at.step,
                  at.epoch, e.loss, scores, replaced));
}

void Metrics::add_scores(const std::string& prefix, const MetricsLine& line) {
  for (const NamedScore& s : line.scores) {
    events_.add_scalar(prefix + std::string(s.kind->name), s.value,
                       static_cast<std::int64_t>(line.step));
  }
}

std::string Metrics::describe(const StepTotals& w) const {
  std::string score;
  if (const ScoreKind* kind = options_.training_score) {
    score = fmt::format("  {} {}", kind->label,
                        kind->text(kind->of_mean(w.mean_score())));
  }
  return fmt::format(
      "loss {:.4f}{}  {:.0f} {}/s  density {:.3f} %  "
      "k^/k {:.2f}  {}/step  exposed {:.2f} of {:.2f} ms",
      w.mean_loss(), score, w.samples_per_second(), options_.unit,
      100 * w.density(), w.sent_over_budget(), human_bytes(w.per_step(w.bytes)),
      1e3 * w.per_step(w.exposed), 1e3 * w.per_step(w.seconds));
}

MetricsLine Metrics::line_at(const Moment& at, MetricsLine::Kind kind) const {
  MetricsLine line;
  line.kind = kind;
  line.step = at.step;
  line.epoch = at.epoch;
  line.time_s = seconds();
  return line;
}

double Metrics::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                       start_)
      .count();
}

void Metrics::say(const std::string& line) {
  clear();
  out_.write(line + "\n");
  check_output();
}

void Metrics::check_output() {
  const std::string problem = out_.problem();
  if (told_ || problem.empty()) return;
  told_ = true;
  fmt::print(stderr,
             "[train] lines could not be written: {}; the run goes on, and "
             "metrics.jsonl has its numbers\n",
             problem);
}

void Metrics::finish() {
  clear();
  out_.finish();
  check_output();
  events_.flush();
}

void Metrics::write(const std::string& line) {
  const bool ok = std::fwrite((line + "\n").data(), 1, line.size() + 1,
                              file_.get()) == line.size() + 1 &&
                  std::fflush(file_.get()) == 0;
  ensure(ok, "[metrics] '", path_,
         "' could not be written: ", std::strerror(errno));
}

// What matters most first: a narrow terminal shows no more.
std::vector<std::string> Metrics::parts(const Moment& at,
                                        const StepTotals& w) const {
  std::vector<std::string> all = {
      fmt::format("{}/{}", at.step, options_.total)};
  const double done = static_cast<double>(at.step - options_.done);
  if (done > 0 && at.step < options_.total) {
    const double left = static_cast<double>(options_.total - at.step);
    all[0] += fmt::format(", {} left", duration_text(seconds() / done * left));
  }
  all.push_back(fmt::format("waiting {:.0f} %", 100 * w.exposed / w.seconds));
  all.push_back(fmt::format("loss {:.4f}", w.mean_loss()));
  if (const ScoreKind* kind = options_.training_score) {
    all.push_back(fmt::format("{} {}", kind->label,
                              kind->text(kind->of_mean(w.mean_score()))));
  }
  all.push_back(bar(at.step, options_.total));
  all.push_back(
      fmt::format("{:.0f} {}/s", w.samples_per_second(), options_.unit));
  all.push_back(human_bytes(w.per_step(w.bytes)) + "/step");
  all.push_back(fmt::format("density {:.3f} %", 100 * w.density()));
  all.push_back(fmt::format("k^/k {:.2f}", w.sent_over_budget()));
  return all;
}

void Metrics::draw(const std::vector<std::string>& parts) {
  clear();
  // A line that wraps could not be taken back.
  out_.write(fit_parts(parts, terminal_columns(STDERR_FILENO) - 1));
  drawn_ = true;
}

void Metrics::clear() {
  if (!drawn_) return;
  out_.write("\r\x1b[K");
  drawn_ = false;
}

}  // namespace sluice
