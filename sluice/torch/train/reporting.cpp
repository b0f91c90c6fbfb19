#include "sluice/torch/train/reporting.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sluice/comm/nccl/nccl.h"
#include "sluice/core/error.h"
#include "sluice/run/run_folder.h"
#include "sluice/run/timeline.h"
#include "sluice/torch/train/device.h"
#include "sluice/torch/train/replicas.h"

namespace sluice {
namespace {

// Whether times that are measured decide what is added in which order.
bool depends_on_times(const Session& s) {
  const auto& buckets = s.model.plan.buckets;
  return std::any_of(buckets.begin(), buckets.end(), [&](const BucketPlan& b) {
    const bool asks = s.config.network == "measured" &&
                      parse_spec(b.collective).name == "auto";
    return asks || b.collective.find("measured") != std::string::npos;
  });
}

}  // namespace

Reporting::Reporting(Session& session, const RunLock& lock,
                     bool lines_to_stderr, const SavedRun* saved)
    : session_(session), lock_(lock) {
  if (saved != nullptr) {
    summary_.best_score = saved->model.best_score;
    summary_.checkpoint = saved->folder;
  }
  const Task& task = *session.task;
  summary_.unit = task.unit();
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  for (const std::string_view name : task.scores()) {
    summary_.eval_scores.push_back({&score_kind(name), kUnknown});
  }
  if (!session.is_first()) return;
  write_setup();
  metrics_ = std::make_unique<Metrics>(Metrics::Options{
      session.config.out, session.progress.done, session.total, lines_to_stderr,
      task.training_score().empty() ? nullptr
                                    : &score_kind(task.training_score()),
      summary_.unit});
  say_what_begins();
  if (saved != nullptr) say_what_goes_on(*saved);
}

void Reporting::write_setup() const {
  const Session& s = session_;
  if (!s.is_first()) return;
  write_text(s.config.out + "/config.json", to_json(s.config));
  if (const auto classes = s.task->classes(); !classes.empty()) {
    write_text(s.config.out + "/classes.json", classes_to_json(classes));
  }
  write_text(s.config.out + "/plan.json",
             to_json(s.model.decisions, s.model.names));
}

void Reporting::planned(const LiveOutcome& outcome) {
  if (metrics_ == nullptr) return;
  say(outcome.says);
  say_if_dense();
  const Session& s = session_;
  try_to_write("plan.json", [&] {
    write_text(s.config.out + "/plan.json",
               to_json(s.model.decisions, s.model.names));
    if (outcome.profile.empty()) return;
    write_text(s.config.out + "/profile.json", outcome.profile);
    write_text(s.config.out + "/network.json", outcome.network);
  });
}

void Reporting::say_what_begins() {
  const Session& s = session_;
  const auto dense =
      std::count_if(s.model.treatments.begin(), s.model.treatments.end(),
                    [](const Treatment& t) { return t.dense; });
  say(concat(s.config.model, " on ", s.config.dataset, ": ",
             count_elements(s.model.parameters), " parameters in ",
             s.model.tensors.size(), " tensors (", dense, " stay dense) and ",
             s.model.plan.buckets.size(), " buckets; ", s.comm.size(),
             " workers, ", s.threads, " threads each; ",
             s.config.sparsifier == "none"
                 ? "dense"
                 : concat(s.config.sparsifier, " at ", s.config.density),
             "; ", s.config.out));
  if (const auto classes = s.task->classes(); !classes.empty()) {
    say(describe_classes(classes, s.task->unit()));
  }
  for (const std::string& note : s.task->notes()) say(note);
  if (!s.imported.empty()) say(s.imported);
  if (!s.model.forecast.empty()) say(s.model.forecast);
  say_if_dense();
  if (s.exchanges() && plans_live(s.config) && s.model.decisions.size() == 1) {
    say(concat("the first steps are measured, and --plan ", s.config.plan,
               " goes by that, so that this run does not repeat bit for bit: "
               "--plan ",
               s.config.out,
               "/plan.json repeats it, --plan fixed decides nothing"));
  }
  if (depends_on_times(s)) {
    say("this run does not repeat bit for bit, since measured times decide how "
        "it sums; --network nominal --dense-collective dense does");
  }
  const std::string how =
      describe_device(s.config, s.device, !s.alone && s.goes_through_host());
  if (!how.empty()) say(how);
  if (s.link != nullptr) say("GPUs exchange by NCCL " + nccl_version());
  if (!s.link_problem.empty()) {
    say("GPUs exchange through the host, not by NCCL: " + s.link_problem);
  }
}

void Reporting::say_if_dense() {
  const Session& s = session_;
  const double share = s.share_sent_whole();
  if (said_dense_ || dense_label(share).empty()) return;
  said_dense_ = true;
  say(concat("from step ", s.progress.done + 1, " on ",
             static_cast<int>(100 * share), " % of what ", s.config.sparsifier,
             " was to select from is sent whole, as plan ", s.model.plan.name,
             " has it; --plan fixed keeps ", s.config.sparsifier, " at ",
             s.config.density, ", --sparsifier none has the recipe for dense"));
}

void Reporting::say_what_goes_on(const SavedRun& saved) {
  const Session& s = session_;
  for (const std::string& note : saved.notes) say(note);
  say(concat("resumed after step ", s.progress.done, " from ", saved.folder));
  if (s.progress.done >= s.total) {
    say(concat("the run is finished: all of its ", s.total,
               " steps are done, so none are added; a larger --epochs or "
               "--max-steps goes on"));
  }
  if (saved.model.data != 0 && saved.model.data != s.data) {
    say("the data are not those of the checkpoint: epochs have another order");
  }
  if (saved.model.threads != s.threads) {
    say(concat("[resume] ", saved.model.threads, " threads per worker before, ",
               s.threads,
               " now: sums have other bits than without the stop; --threads ",
               saved.model.threads, " keeps them"));
  }
  const std::string& link = saved.model.gpu_link;  // empty: GPUs had none
  if (!link.empty() && !s.gpu_link().empty() && link != s.gpu_link()) {
    say(concat("[resume] GPUs exchanged by ", link, " before, by ",
               s.gpu_link(),
               " now: sums have other bits than without the stop; --gpu-link ",
               link, " keeps them"));
  }
  if (saved.model.ranks == s.comm.size()) return;
  say(concat("residuals of ", saved.model.ranks, " workers went to ",
             s.comm.size(),
             "; rules, collectives and what models carry start anew"));
}

void Reporting::try_to_write(const std::string& file,
                             const std::function<void()>& write) {
  if (!problem_.empty()) return;
  problem_ = problem_of([&] {
    session_.at_files(session_.config.out + "/" + file, [&] {
      lock_.require_ours();
      write();
    });
  });
}

Moment Reporting::moment() const {
  return {session_.progress.done, session_.progress.epochs(), session_.rate(),
          session_.densities().now};
}

void Reporting::log() {
  if (window_.steps == 0) return;
  const auto parts =
      gather_at_first(session_.comm, "log", session_.progress.done,
                      std::as_bytes(std::span(&window_, 1)));
  window_ = {};
  if (!session_.is_first()) return;
  StepTotals sum;
  sum.ranks = static_cast<double>(session_.comm.size());
  for (const Bytes& bytes : parts) {
    StepTotals theirs;
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    sum.add(theirs);
  }
  try_to_write("metrics.jsonl", [&] { metrics_->trained(moment(), sum); });
  summary_.loss = sum.mean_loss();
  all_.ranks = sum.ranks;
  all_.add(sum);
}

void Reporting::evaluated(const Evaluation& result) {
  summary_.eval_loss = result.loss;
  for (std::size_t i = 0; i < result.scores.size(); ++i) {
    summary_.eval_scores[i].value = result.scores[i].value();
  }
  const auto& [kind, value] = summary_.eval_scores[0];
  if (kind->better(value, summary_.best_score)) summary_.best_score = value;
  if (metrics_ == nullptr) return;
  try_to_write("metrics.jsonl", [&] { metrics_->evaluated(moment(), result); });
}

void Reporting::write_trace() {
  Trace& trace = session_.trace;
  if (trace_written_ || trace.spans().empty()) return;
  trace_written_ = true;
  trace.turn(false);
  // All ranks take part, whatever has become of the folder.
  const std::string problem = problem_of([&] {
    write_timeline(session_.comm, session_.progress.done, trace,
                   bucket_labels(session_.model.plan, session_.model.names),
                   session_.config.out + "/trace.json");
  });
  if (problem_.empty()) problem_ = problem;
}

TrainSummary Reporting::finish(bool stopped) {
  TrainSummary& s = summary_;
  s.folder = session_.config.out;
  s.model = session_.config.model;
  s.parameters =
      static_cast<std::uint64_t>(count_elements(session_.model.parameters));
  s.ranks = session_.comm.size();
  s.gpu_link = session_.gpu_link();
  s.steps = session_.progress.done;
  s.epochs = session_.progress.epochs();
  s.memory_bytes =
      session_.sync->memory_bytes() + session_.adapter->memory_bytes();
  s.weights = hash_tensors(session_.model.parameters);
  s.stopped = stopped;
  s.trained_dense = session_.share_sent_whole();
  if (!session_.is_first()) return s;
  if (all_.steps > 0) {
    s.seconds = all_.seconds / all_.ranks;
    s.samples_per_s = all_.samples_per_second();
    s.step_s = all_.per_step(all_.seconds);
    s.exposed_s = all_.per_step(all_.exposed);
    s.bytes_per_step = all_.per_step(all_.bytes);
    s.density = all_.density();
    s.k_hat_over_k = all_.sent_over_budget();
    s.skipped = static_cast<std::uint64_t>(all_.skipped / all_.ranks);
    s.replaced = static_cast<std::uint64_t>(all_.replaced);
  }
  try_to_write("summary.json", [&] {
    metrics_->finish();
    write_text(s.folder + "/summary.json", to_json(s));
  });
  return s;
}

}  // namespace sluice
