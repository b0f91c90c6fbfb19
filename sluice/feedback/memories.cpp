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

ParamList DgcFeedback::list(Params& p) {
  return {
      {"momentum", &p.momentum, "momentum factor m", 0, 1},
      {"nesterov", &p.nesterov, "Nesterov's form of the momentum"},
      {"masking", &p.masking, "clear the momentum of entries that were sent"},
      {"clip", &p.clip,
       "largest norm of a tensor's gradient over all workers; 0: off", 0},
      {"workers", &p.workers, "the local limit is clip / sqrt(workers)", 1},
  };
}

Feedback::Weights DgcFeedback::prepare(Stream& stream,
                                       std::span<SegmentTask> tasks,
                                       const StepInfo&) {
  float* momentum = arena_.momentum(backend_);
  for (std::size_t s = 0; s < tasks.size(); ++s) {
    if (tasks[s].memory == nullptr) continue;
    MomentumPass pass;
    pass.gradient = tasks[s].gradient;
    pass.momentum = momentum + bucket_.segments()[s].memory;
    pass.velocity = tasks[s].memory;
    pass.n = tasks[s].facts.n;
    pass.factor = static_cast<float>(params_.momentum);
    pass.nesterov = params_.nesterov;
    pass.clip = params_.clip / std::sqrt(static_cast<double>(params_.workers));
    pass.nonfinite = nonfinite_.data<std::uint64_t>() + s;
    tasks[s].kept_out = pass.nonfinite;
    backend_.momentum(stream, pass);
    // The velocity is complete: the select pass adds nothing to it.
    tasks[s].gradient = nullptr;
  }
  return {};
}

void DgcFeedback::on_commit(Stream& stream) {
  if (!params_.masking) return;
  const SparseBlock& sent = staged();
  for (std::size_t s = 0; s < bucket_.segments().size(); ++s) {
    const Segment& segment = bucket_.segments()[s];
    if (!segment.keeps_residual) continue;
    ScatterPass pass;
    pass.indices = sent.indices();
    pass.values = sent.values();
    pass.starts = sent.starts();
    pass.segment = s;
    pass.target = arena_.momentum(backend_) + segment.memory;
    pass.base = static_cast<std::uint32_t>(segment.base);
    pass.op = ScatterOp::kZero;
    backend_.scatter(stream, pass);
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

std::unique_ptr<Feedback> make_feedback(std::string_view text,
                                        const Feedback::Setup& setup) {
  return make_from(feedbacks(), Feedback::kKind, text, setup);
}

}  // namespace sluice
