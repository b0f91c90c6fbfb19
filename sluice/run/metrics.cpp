#include "sluice/run/metrics.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sluice/core/ensure.h"
#include "sluice/run/atomic_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// A run that was killed may have told of steps that it did not save.
void forget_after(const std::string& path, std::uint64_t step) {
  std::ifstream file(path);
  if (!file) return;
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("step", step + 1) > step) continue;
    kept += line + "\n";
  }
  AtomicFile fresh(path);
  fresh.write(std::as_bytes(std::span(kept)));
  fresh.commit();
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB"};
  std::size_t u = 0;
  for (; bytes >= 1000 && u + 1 < std::size(units); ++u) bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, u == 0 ? 0 : 1, units[u]);
}

std::size_t terminal_columns() {
  winsize size = {};
  const bool known =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::string describe(const Window& w) {
  return fmt::format(
      "loss {:.4f}  acc {:.2f} %  {:.0f} samples/s  density {:.3f} %  "
      "k^/k {:.2f}  {}/step  exposed {:.2f} of {:.2f} ms",
      w.mean_loss(), 100 * w.accuracy(), w.samples_per_second(),
      100 * w.density(), w.sent_over_budget(), human_bytes(w.per_step(w.bytes)),
      1e3 * w.per_step(w.exposed), 1e3 * w.per_step(w.seconds));
}

}  // namespace

void Window::add(const Window& o) {
  steps += o.steps;
  samples += o.samples;
  loss += o.loss;
  correct += o.correct;
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
      start_(std::chrono::steady_clock::now()),
      path_(options.folder + "/metrics.jsonl"),
      events_(options.folder, static_cast<std::int64_t>(options.done) + 1) {
  forget_after(path_, options.done);
  file_.reset(std::fopen(path_.c_str(), "ae"));
  ensure(file_ != nullptr, "[metrics] '", path_,
         "' must be writable: ", std::strerror(errno));
}

void Metrics::trained(const Moment& at, const Window& w) {
  const std::pair<const char*, double> scalars[] = {
      {"loss", w.mean_loss()},
      {"accuracy", w.accuracy()},
      {"lr", at.rate},
      {"samples_per_s", w.samples_per_second()},
      {"density", w.density()},
      {"target_density", at.target_density},
      {"k_hat_over_k", w.sent_over_budget()},
      {"bytes_per_step", w.per_step(w.bytes)},
      {"step_s", w.per_step(w.seconds)},
      {"exposed_s", w.per_step(w.exposed)},
      {"select_s", w.per_step(w.select)},
      {"wire_s", w.per_step(w.wire)},
      {"skipped", w.skipped / w.ranks},
      {"replaced", w.replaced}};
  Json json = {{"kind", "train"}, {"step", at.step}, {"epoch", at.epoch}};
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - start_;
  json["time_s"] = time.count();
  for (const auto& [name, value] : scalars) {
    json[name] = value;
    events_.add_scalar(std::string("train/") + name, value,
                       static_cast<std::int64_t>(at.step));
  }
  write(json.dump());
  draw(at, describe(w));
}

void Metrics::evaluated(const Moment& at, const Evaluation& e) {
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - start_;
  write(Json{{"kind", "eval"},
             {"step", at.step},
             {"epoch", at.epoch},
             {"time_s", time.count()},
             {"loss", e.loss},
             {"accuracy", e.accuracy},
             {"samples", e.samples},
             {"replaced", e.replaced}}
            .dump());
  const auto step = static_cast<std::int64_t>(at.step);
  events_.add_scalar("eval/loss", e.loss, step);
  events_.add_scalar("eval/accuracy", e.accuracy, step);
  events_.flush();
  const std::string replaced = e.replaced > 0
                                   ? fmt::format(
                                         "; {} images that cannot be read were "
                                         "replaced",
                                         e.replaced)
                                   : "";
  say(fmt::format("step {} epoch {:.2f}: test loss {:.4f}, accuracy {:.2f} %{}",
                  at.step, at.epoch, e.loss, 100 * e.accuracy, replaced));
}

void Metrics::say(const std::string& line) {
  clear();
  std::FILE* out = terminal_ || options_.lines_to_stderr ? stderr : stdout;
  fmt::print(out, "{}\n", line);
  std::fflush(out);
}

void Metrics::finish() {
  clear();
  events_.flush();
}

void Metrics::write(const std::string& line) {
  const bool ok = std::fwrite((line + "\n").data(), 1, line.size() + 1,
                              file_.get()) == line.size() + 1 &&
                  std::fflush(file_.get()) == 0;
  ensure(ok, "[metrics] '", path_,
         "' could not be written: ", std::strerror(errno));
}

void Metrics::draw(const Moment& at, const std::string& text) {
  if (!terminal_) {
    say(fmt::format("step {}/{}  {}", at.step, options_.total, text));
    return;
  }
  constexpr std::size_t kWidth = 20;
  const std::size_t full = kWidth * std::min(at.step, options_.total) /
                           std::max<std::uint64_t>(options_.total, 1);
  std::string line = fmt::format("[{:#<{}}{:.<{}}] {}/{}  {}", "", full, "",
                                 kWidth - full, at.step, options_.total, text);
  // A line that wraps could not be taken back.
  line.resize(std::min(line.size(), terminal_columns() - 1));
  clear();
  fmt::print(stderr, "{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void Metrics::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace sluice
