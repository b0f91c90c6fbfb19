#include "sluice/cli/compare/queue.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/shared/child.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/run/metrics_file.h"
#include "sluice/run/terminal.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Why a run failed: what the first rank to fail said, for the others then miss
// it; else what was said last. The launcher only repeats that a rank failed.
std::string last_words(const std::string& log) {
  std::istringstream lines(read_file_or_nothing(log));
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("rank ")) return line;
    const bool launcher = line.starts_with("[launch] all of");
    if (!line.empty() && !(launcher && !last.empty())) last = line;
  }
  return last;
}

// How long a run takes, from those that are known.
class Estimate {
 public:
  void add(const Cell& cell, double seconds) {
    known_.push_back({cell.method, cell.density, seconds});
  }
  // Of the same method at the same density, else of the method, else of all; 0
  // if nothing is known.
  double of(const Cell& cell) const {
    for (const int level : {2, 1, 0}) {
      double sum = 0;
      double count = 0;
      for (const Known& k : known_) {
        if (level >= 1 && k.method != cell.method) continue;
        if (level >= 2 && k.density != cell.density) continue;
        sum += k.seconds;
        ++count;
      }
      if (count > 0) return sum / count;
    }
    return 0;
  }

 private:
  struct Known {
    std::string method;
    double density;
    double seconds;
  };
  std::vector<Known> known_;
};

class Queue {
 public:
  Queue(const std::vector<Cell>& cells, const std::vector<RunRecord>& runs,
        std::vector<std::size_t> todo, const QueueOptions& options)
      : cells_(cells), options_(options), todo_(std::move(todo)) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (runs[i].finished) estimate_.add(cells[i], runs[i].wall_s);
    }
    done_ = cells.size() - todo_.size();
  }

  QueueOutcome run();

 private:
  struct Active {
    std::size_t cell;
    pid_t pid;
    Clock::time_point start;
  };

  bool start_next();
  void start(std::size_t i);
  void reap();
  void finish(const Active& active, int status);
  void fail(std::size_t i, const std::string& reason);
  void say(std::size_t i, const std::string& what);
  void draw();
  double time_left() const;

  const std::vector<Cell>& cells_;
  const QueueOptions& options_;
  std::vector<std::size_t> todo_;
  std::vector<Active> active_;
  Estimate estimate_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
  std::size_t done_ = 0;
  QueueOutcome outcome_;
};

QueueOutcome Queue::run() {
  const HeldSignals signals;
  while (true) {
    while (!outcome_.stopped && active_.size() < options_.jobs &&
           start_next()) {
    }
    if (active_.empty()) break;
    if (signals.came()) {
      outcome_.stopped = true;
      for (const Active& a : active_) kill(a.pid, SIGTERM);
    }
    reap();
    draw();
  }
  show_progress("");
  outcome_.left += todo_.size();
  return outcome_;
}

// The first that should end in time.
bool Queue::start_next() {
  const auto affordable = [&](std::size_t i) {
    return options_.budget_s <= 0 ||
           since(start_) + estimate_.of(cells_[i]) <= options_.budget_s;
  };
  const auto next = std::find_if(todo_.begin(), todo_.end(), affordable);
  if (next == todo_.end()) return false;
  const std::size_t i = *next;
  todo_.erase(next);
  try {
    start(i);
  } catch (const std::exception& e) {
    fail(i, e.what());
  }
  return true;
}

void Queue::start(std::size_t i) {
  const Cell& cell = cells_[i];
  fs::create_directories(cell.folder);
  const std::string log = cell.folder + "/" + kLogFile;
  const int file = open_to_append("compare", log);
  // The child inherits the lock and keeps it until it ends, even if we are
  // killed: nobody may start a second run in the folder until then.
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    throw std::runtime_error(
        concat("[compare] '", cell.folder,
               "' must not be in use, but another process still runs it"));
  }
  if (ftruncate(file, 0) != 0) {
    // Then the log holds the earlier try, too.
  }
  fs::remove(cell.folder + "/" + kFailureFile);
  const std::string config = cell.folder + "/cell.json";
  write_text(config, cell.config.dump(2) + "\n");
  std::vector<std::string> words = {"train", "--config", config, "--out",
                                    cell.folder};
  if (cell.replace) {
    words.push_back("--overwrite");
  } else {
    words.insert(words.end(), {"--resume", "auto"});
  }
  if (!options_.pages) words.insert(words.end(), {"--report", "off"});
  const pid_t pid = start_self(words, file, file);
  close(file);
  active_.push_back({i, pid, Clock::now()});
}

void Queue::reap() {
  for (std::size_t a = 0; a < active_.size();) {
    int status = 0;
    if (waitpid(active_[a].pid, &status, WNOHANG) <= 0) {
      ++a;
      continue;
    }
    const Active ended = active_[a];
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(a));
    finish(ended, status);
  }
}

void Queue::finish(const Active& ended, int status) {
  const Cell& cell = cells_[ended.cell];
  const RunRecord run = read_run(cell.folder);
  const double took = since(ended.start);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && run.finished) {
    estimate_.add(cell, took);
    if (!options_.keep_checkpoints) {
      std::error_code ignored;
      fs::remove_all(cell.folder + "/checkpoints", ignored);
    }
    ++done_;
    say(ended.cell, fmt::format("{} in {}",
                                run.evaluations.empty()
                                    ? "not evaluated"
                                    : concat(run.kind->label, " ",
                                             run.kind->text(run.final_score())),
                                duration_text(took)));
  } else if (outcome_.stopped) {
    ++outcome_.left;
    say(ended.cell, "stopped; it goes on next time");
  } else {
    std::string reason = last_words(cell.folder + "/" + kLogFile);
    if (WIFSIGNALED(status)) {
      reason = fmt::format("ended by signal {}; last words: {}",
                           WTERMSIG(status), reason);
    }
    fail(ended.cell, reason.empty() ? "it said nothing" : reason);
  }
}

void Queue::fail(std::size_t i, const std::string& reason) {
  ++outcome_.failed;
  ++done_;
  try {
    write_text(cells_[i].folder + "/" + kFailureFile, reason);
  } catch (const std::exception&) {
    // It is said all the same.
  }
  say(i, "failed: " + reason);
}

// Once in a while, on a terminal: what the first run is at.
void Queue::draw() {
  constexpr double kPause = 1;
  if (active_.empty() || isatty(STDERR_FILENO) == 0 || since(drawn_) < kPause) {
    return;
  }
  drawn_ = Clock::now();
  const Active& first = active_.front();
  std::vector<std::string> parts = {fmt::format(
      "[{}/{}] {}", done_, cells_.size(), cells_[first.cell].describe())};
  const double left = time_left();
  if (left > 0) {
    parts.push_back(fmt::format("about {} left", duration_text(left)));
  }
  const auto lines = read_metrics(cells_[first.cell].folder + "/metrics.jsonl");
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->kind != MetricsLine::kTrain) continue;
    parts.push_back(
        fmt::format("waiting {:.0f} %", 100 * line->exposed_s / line->step_s));
    parts.push_back(fmt::format("step {}", line->step));
    parts.push_back(fmt::format("loss {:.4f}", line->loss));
    break;
  }
  show_progress(fit_parts(parts, terminal_columns(STDERR_FILENO) - 1));
}

void Queue::say(std::size_t i, const std::string& what) {
  show_progress("");
  const double left = time_left();
  fmt::print(
      stderr, "[{}/{}] {}: {}; {} so far{}\n", done_, cells_.size(),
      cells_[i].describe(), what, duration_text(since(start_)),
      left > 0 ? fmt::format(", about {} left", duration_text(left)) : "");
  std::fflush(stderr);
}

double Queue::time_left() const {
  double sum = 0;
  for (const std::size_t i : todo_) sum += estimate_.of(cells_[i]);
  for (const Active& a : active_) {
    sum += std::max(0.0, estimate_.of(cells_[a.cell]) - since(a.start));
  }
  return sum / static_cast<double>(options_.jobs);
}

}  // namespace

std::string Cell::describe() const {
  return fixed_density ? fmt::format("{} seed {}", method, seed)
                       : fmt::format("{} {} seed {}", method, density, seed);
}

QueueOutcome run_cells(const std::vector<Cell>& cells,
                       const std::vector<RunRecord>& runs,
                       std::vector<std::size_t> todo,
                       const QueueOptions& options) {
  return Queue(cells, runs, std::move(todo), options).run();
}

}  // namespace sluice
