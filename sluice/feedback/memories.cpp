#include "sluice/feedback/memories.h"

#include <array>
#include <cmath>

namespace sluice {

Feedback::Weights NoFeedback::prepare(Stream&, std::span<SegmentTask> tasks,
                                      const StepInfo&) {
  for (SegmentTask& task : tasks) task.memory = nullptr;
  return {};
}

ParamList ResidualFeedback::list(Params& p) {
  return {{"beta", &p.beta, "decay of the old residual", 0, 1},
          {"gamma", &p.gamma, "gain of the new gradient", 0}};
}

Feedback::Weights ResidualFeedback::prepare(Stream&, std::span<SegmentTask>,
                                            const StepInfo&) {
  return {static_cast<float>(params_.beta), static_cast<float>(params_.gamma)};
}

double DgcFeedback::Params::local_clip(std::size_t together) const {
  return clip * std::sqrt(static_cast<double>(together) /
                          static_cast<double>(workers));
}

ParamList DgcFeedback::list(Params& p) {
  return {
      {"momentum", &p.momentum, "momentum factor m", 0, 0.9999},
      {"nesterov", &p.nesterov, "Nesterov's form of the momentum"},
      {"masking", &p.masking, "clear the momentum of entries that were sent"},
      {"clip", &p.clip,
       "largest norm of a tensor's gradient over all workers; 0: off", 0},
      {"workers", &p.workers, "the local limit is clip / sqrt(workers)", 1},
  };
}

Feedback::Weights DgcFeedback::prepare(Stream& stream,
                                       std::span<SegmentTask> tasks,
                                       const StepInfo& step) {
  float* momentum = arena_.momentum(backend_);
  momenta_.clear();
  masked_.clear();
  for (std::size_t s = 0; s < tasks.size(); ++s) {
    SegmentTask& task = tasks[s];
    if (task.memory == nullptr) continue;
    float* own = momentum + bucket_.segments()[s].memory;
    auto* nonfinite = nonfinite_.data<std::uint64_t>() + s;
    momenta_.push_back(
        {task.gradient, own, task.memory, task.facts.n, nonfinite});
    masked_.push_back({own, task.base, task.facts.n});
    task.kept_out = nonfinite;
    // The velocity is complete: the select pass adds nothing to it.
    task.gradient = nullptr;
  }
  backend_.momentum(
      stream, {momenta_, static_cast<float>(params_.momentum), params_.nesterov,
               params_.local_clip(step.together)});
  return {};
}

// Everything staged is cleared, and what was refused gets its momentum back: a
// device knows of no difference of lists.
void DgcFeedback::on_commit(Stream& stream,
                            std::span<const SparseView> refused) {
  if (!params_.masking) return;
  std::size_t room = 0;
  for (const SparseView& list : refused) room += list.capacity;
  if (refused_.bytes() < room * sizeof(float)) {
    refused_ = backend_.allocate(room * sizeof(float));
  }
  auto* kept = refused_.data<float>();
  for (const SparseView& list : refused) {
    backend_.gather(stream, {list, masked_, kept});
    kept += list.capacity;
  }
  const SparseView sent = staged().view();
  backend_.scatter(stream, {{&sent, 1}, masked_, ScatterOp::kZero});
  kept = refused_.data<float>();
  for (SparseView list : refused) {
    list.values = kept;
    kept += list.capacity;
    backend_.scatter(stream, {{&list, 1}, masked_});
  }
}

namespace {
constexpr std::array kFeedbacks = {
    registry_entry<NoFeedback, Feedback, const Feedback::Setup&>(),
    registry_entry<ResidualFeedback, Feedback, const Feedback::Setup&>(),
    registry_entry<DgcFeedback, Feedback, const Feedback::Setup&>(),
};
}  // namespace

std::span<const FeedbackEntry> feedbacks() { return kFeedbacks; }

MomentumSettings dense_momentum(std::string_view feedback) {
  const Spec spec = parse_spec(feedback);
  if (spec.name != DgcFeedback::kName) return {};
  const auto p = params_from<DgcFeedback>(spec);
  return {p.momentum, p.nesterov, p.local_clip()};
}

std::unique_ptr<Feedback> make_feedback(std::string_view text,
                                        const Feedback::Setup& setup) {
  return make_from(feedbacks(), Feedback::kKind, text, setup);
}

}  // namespace sluice
