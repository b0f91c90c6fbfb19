#include "sluice/feedback/feedback.h"

#include <algorithm>
#include <stdexcept>

#include "sluice/core/error.h"

namespace sluice {

Arena::Arena(Backend& backend, std::size_t elements)
    : elements_(elements),
      residual_(backend.allocate(elements * sizeof(float))) {}

float* Arena::momentum(Backend& backend) {
  if (momentum_.data() == nullptr) {
    momentum_ = backend.allocate(elements_ * sizeof(float));
  }
  return momentum_.data<float>();
}

std::string describe_nonfinite(std::uint64_t count, std::uint64_t step) {
  return concat("gradients and their sums must be finite, got ", count,
                " entries that are not in step ", step,
                "; lower the learning rate, clip, or choose to skip such "
                "steps");
}

Feedback::Feedback(const Setup& setup)
    : backend_(setup.backend),
      arena_(setup.arena),
      bucket_(setup.bucket),
      sparsifier_(setup.sparsifier),
      values_(setup.values) {
  require(sparsifier_ != nullptr, "[feedback] needs a sparsifier, got none");
  require(setup.values != ValueForm::kOne && setup.values != ValueForm::kTwoBit,
          "[feedback] values must be fp32, bf16 or fp16; the quantised forms "
          "belong to a sparsifier");
  const auto& segments = bucket_.segments();
  for (const Segment& s : segments) {
    require(s.memory + s.shape.size() <= arena_.size(), "[feedback] tensor ",
            s.tensor, " must lie inside the arena of ", arena_.size(),
            " elements, got offset ", s.memory, " and ", s.shape.size(),
            " elements");
  }
  tasks_.resize(segments.size());
  states_ = backend_.allocate(segments.size() * sizeof(RuleState));
  reports_ = backend_.allocate(segments.size() * sizeof(SegmentReport));
  host_reports_ =
      backend_.allocate_host(segments.size() * sizeof(SegmentReport));
  block_ = SparseBlock(backend_, bucket_.size(), 0, segments.size());
}

void Feedback::set_gradients(Stream& stream,
                             std::span<const TensorView> gradients) {
  const auto& segments = bucket_.segments();
  require(gradients.size() == segments.size(),
          "[feedback] needs one gradient per segment, got ", gradients.size(),
          " for ", segments.size());
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const TensorView& view = gradients[s];
    require(view.size() == segments[s].shape.size(), "[feedback] gradient ", s,
            " must have ", segments[s].shape.size(), " elements, got ",
            view.size());
    if (is_plain(view)) {
      tasks_[s].gradient = static_cast<const float*>(view.data);
      continue;
    }
    if (packed_.data() == nullptr) {
      packed_ = backend_.allocate(bucket_.size() * sizeof(float));
    }
    float* target = packed_.data<float>() + segments[s].base;
    backend_.pack(stream, {{&view, 1}, {}, target});
    tasks_[s].gradient = target;
  }
}

const SparseBlock& Feedback::select(Stream& stream,
                                    std::span<const TensorView> gradients,
                                    const StepInfo& step) {
  if (staged_) {
    throw std::logic_error(
        "[feedback] the staged step must be committed or rolled back before "
        "the next select");
  }
  set_gradients(stream, gradients);
  const auto& segments = bucket_.segments();
  std::size_t capacity = 0;
  bool rounds = false;
  budget_ = 0;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    SegmentTask& task = tasks_[s];
    task.memory = segments[s].keeps_residual
                      ? arena_.residual() + segments[s].memory
                      : nullptr;
    task.base = static_cast<std::uint32_t>(segments[s].base);
    task.facts.n = segments[s].shape.size();
    task.facts.density = step.density;
    task.facts.step = step.step;
    task.facts.total_steps = step.total_steps;
    task.facts.tensor = segments[s].tensor;
    task.facts.seed = step.seed;
    sparsifier_->plan(segments[s].shape, task);
    if (task.values == ValueForm::kFp32) task.values = values_;
    rounds = rounds || task.values != ValueForm::kFp32;
    capacity += task.capacity;
    budget_ += task.facts.k;
  }
  const Weights weights = prepare(stream, tasks_, step);
  set_forms();
  block_.reserve(backend_, capacity);
  SelectPass pass;
  pass.segments = tasks_;
  pass.beta = weights.beta;
  pass.gamma = weights.gamma;
  pass.states = states_.data<RuleState>();
  pass.reports = reports_.data<SegmentReport>();
  pass.indices = block_.indices();
  pass.values = block_.values();
  pass.starts = block_.starts();
  backend_.select(stream, pass);
  if (rounds) {
    backend_.quantize(
        stream, {block_.indices(), block_.values(), block_.starts(), tasks_});
  }
  staged_ = true;
  return block_;
}

void Feedback::set_forms() {
  forms_.resize(tasks_.size());
  residuals_.resize(tasks_.size());
  for (std::size_t s = 0; s < tasks_.size(); ++s) {
    const SegmentTask& task = tasks_[s];
    const bool tiles = task.kind == SelectKind::kTiles;
    const bool rows = tiles || task.kind == SelectKind::kRows;
    forms_[s] = {task.facts.n, task.values,
                 rows ? RowLayout{task.rows, tiles} : RowLayout{}};
    residuals_[s] = {task.memory, task.base, task.facts.n};
  }
}

void Feedback::commit(Stream& stream, std::span<const SparseView> returned,
                      std::size_t refused) {
  if (!staged_) {
    throw std::logic_error("[feedback] commit needs a staged step");
  }
  if (!returned.empty()) backend_.scatter(stream, {returned, residuals_});
  on_commit(stream, returned.first(refused));
  staged_ = false;
}

void Feedback::rollback(Stream& stream) {
  if (!staged_) {
    throw std::logic_error("[feedback] rollback needs a staged step");
  }
  const SparseView sent = block_.view();
  backend_.scatter(stream, {{&sent, 1}, residuals_});
  staged_ = false;
}

std::vector<std::byte> Feedback::save(Stream& stream) const {
  std::vector<std::byte> bytes(states_.bytes());
  backend_.copy_out(stream, bytes, states_.data());
  backend_.wait(backend_.record(stream));
  return bytes;
}

void Feedback::load(Stream& stream, std::span<const std::byte> bytes) {
  require(bytes.size() == states_.bytes(), "[", name(),
          "] saved rules must have ", states_.bytes(), " bytes, got ",
          bytes.size());
  backend_.copy_in(stream, states_.data(), bytes);
}

Event Feedback::fetch_report(Stream& stream) {
  backend_.copy_out(stream,
                    {host_reports_.data<std::byte>(), host_reports_.bytes()},
                    reports_.data());
  reported_ = backend_.record(stream);
  fetched_ = true;
  return reported_;
}

StepReport Feedback::report() const {
  if (!fetched_ || !reported_.done()) {
    throw std::logic_error(
        "[feedback] reports must be fetched and their event waited for before "
        "they are read");
  }
  StepReport all;
  for (const SegmentReport& r : std::span(host_reports_.data<SegmentReport>(),
                                          bucket_.segments().size())) {
    all.budget += r.budget;
    all.selected += r.selected;
    all.nonfinite += r.nonfinite;
    all.failed_brackets += r.rounds > 1 ? 1U : 0U;
    all.exact_searches += r.exact;
    all.lost += r.lost;
  }
  return all;
}

}  // namespace sluice
