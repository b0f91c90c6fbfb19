#include "sluice/study/convergence_study.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "sluice/collective/patterns.h"
#include "sluice/core/ensure.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Of a look at one layer, for the others who wait.
constexpr std::chrono::hours kMostTime{1};

// What one worker tells of a layer, before its vectors.
enum Number : std::size_t {
  kContraction,
  kBound,
  kBell,
  kKHat,
  kResidual,
  kGradient,
  kInput,
  kAgeMean,
  kAgeP50,
  kAgeP90,
  kAgeP99,
  kAgeMax,
  kNumbers
};
using WorkerNumbers = std::array<double, kNumbers>;

template <class T>
void append(Bytes& bytes, std::span<const T> values) {
  const std::size_t at = bytes.size();
  bytes.resize(at + values.size_bytes());
  if (!values.empty()) {
    std::memcpy(bytes.data() + at, values.data(), values.size_bytes());
  }
}

// The next `count` values of a message.
template <class T>
std::vector<T> take(std::span<const std::byte>& bytes, std::size_t count) {
  ensure(bytes.size() >= count * sizeof(T),
         "[study] ranks must look at the same layers, but one sent ",
         bytes.size(), " bytes where ", count * sizeof(T), " are due");
  std::vector<T> out(count);
  if (count > 0) std::memcpy(out.data(), bytes.data(), count * sizeof(T));
  bytes = bytes.subspan(count * sizeof(T));
  return out;
}

// Over all workers, in the order of their ranks.
struct Sums {
  explicit Sums(std::size_t n) : inputs(n), gradients(n), selected(n) {}

  void add(std::span<const std::byte> bytes) {
    const std::size_t n = inputs.size();
    const auto own = take<double>(bytes, kNumbers);
    for (std::size_t i = 0; i < kNumbers; ++i) numbers[i] += own[i];
    const auto x = take<float>(bytes, n);
    const auto g = take<float>(bytes, n);
    for (std::size_t i = 0; i < n; ++i) {
      inputs[i] += static_cast<double>(x[i]);
      gradients[i] += static_cast<double>(g[i]);
    }
    const std::size_t count = bytes.size() / (2 * sizeof(float));
    const auto indices = take<std::uint32_t>(bytes, count);
    const auto values = take<float>(bytes, count);
    for (std::size_t i = 0; i < count; ++i) {
      selected[indices[i]] += static_cast<double>(values[i]);
    }
  }

  // The means over so many.
  void divide(std::size_t workers) {
    const auto share = 1 / static_cast<double>(workers);
    for (double& v : numbers) v *= share;
    for (auto* all : {&inputs, &gradients, &selected}) {
      for (double& v : *all) v *= share;
    }
  }

  std::vector<double> inputs;
  std::vector<double> gradients;
  std::vector<double> selected;
  WorkerNumbers numbers{};  // of one worker
};

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return std::sqrt(sum);
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

ConvergenceStudy::ConvergenceStudy(const Params& params,
                                   const StudySetup& setup)
    : params_(params),
      setup_(setup),
      chosen_(params.scope.choose(setup.tensors)) {
  std::size_t most = 0;
  for (const TensorInfo& t : setup.tensors) {
    most = std::max(most, shape3(t.dims).size());
  }
  space_ = std::make_unique<TrialSpace>(most);
}

// Entries in every step: ages need all of them.
Look ConvergenceStudy::look(std::uint64_t step) const {
  return params_.scope.is_due(step + 1) ? Look::kEverything : Look::kEntries;
}

void ConvergenceStudy::selected(std::uint64_t, const SelectedPart& part) {
  if (!chosen_[part.tensor] || part.rule == "none" || part.size == 0) return;
  Kept kept;
  kept.tensor = part.tensor;
  kept.first = part.first;
  kept.layer = layer_of(setup_.tensors[part.tensor], part);
  kept.rule = part.rule;
  kept.density = part.density;
  kept.budget = part.budget;
  kept.indices.assign(part.indices.begin(), part.indices.end());
  kept.values.assign(part.values.begin(), part.values.end());
  kept.gradient.assign(part.gradient.begin(), part.gradient.end());
  kept.input.assign(part.input.begin(), part.input.end());
  kept_.push_back(std::move(kept));
}

void ConvergenceStudy::open(const std::string& folder, std::uint64_t done) {
  began_ = done;
  if (setup_.rank == 0) rows_.open(folder + "/" + kRows, done);
}

void ConvergenceStudy::finish(Communicator& comm, std::uint64_t step,
                              bool committed,
                              std::span<const std::vector<float>> means) {
  const std::vector<Kept> all = std::exchange(kept_, {});
  if (!committed) return;
  std::string problem;
  for (const Kept& kept : all) {
    const auto n = shape3(kept.layer.dims).size();
    auto [at, fresh] =
        ages_.try_emplace(Place(kept.tensor, kept.first), Ages(n));
    at->second.sent(step - began_, kept.indices);
    if (!is_due(step)) continue;
    const auto mean = std::span(means[kept.tensor]).subspan(kept.first, n);
    study(comm, step, kept, mean, problem);
  }
  ensure(problem.empty(), problem);
}

// What goes wrong on the first rank must not keep it from hearing the others
// out.
void ConvergenceStudy::study(Communicator& comm, std::uint64_t step,
                             const Kept& kept, std::span<const float> applied,
                             std::string& problem) {
  const auto messages =
      gather_at_first(comm, "study", step, message_of(kept, step));
  if (comm.rank() != 0 || !problem.empty()) return;
  problem = problem_of([&] {
    comm.work_alone("a study of convergence", kMostTime,
                    [&] { rows_.add(row_of(step, kept, applied, messages)); });
  });
}

Bytes ConvergenceStudy::message_of(const Kept& kept, std::uint64_t step) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Contraction nothing = {kNone, kNone, kNone};
  const Contraction c =
      contraction(kept.input, kept.indices, kept.values).value_or(nothing);
  const auto ages =
      ages_.at(Place(kept.tensor, kept.first)).quantiles(step - began_);
  const auto k_hat = static_cast<double>(kept.indices.size());
  const WorkerNumbers numbers = {c.reached,
                                 c.bound,
                                 c.bell,
                                 k_hat,
                                 distance(kept.input, kept.gradient),
                                 norm(kept.gradient),
                                 norm(kept.input),
                                 ages.mean,
                                 static_cast<double>(ages.median),
                                 static_cast<double>(ages.p90),
                                 static_cast<double>(ages.p99),
                                 static_cast<double>(ages.oldest)};
  Bytes bytes;
  append<double>(bytes, numbers);
  append<float>(bytes, kept.input);
  append<float>(bytes, kept.gradient);
  append<std::uint32_t>(bytes, kept.indices);
  append<float>(bytes, kept.values);
  return bytes;
}

Json ConvergenceStudy::row_of(std::uint64_t step, const Kept& kept,
                              std::span<const float> applied,
                              const std::vector<Bytes>& messages) {
  const std::size_t n = shape3(kept.layer.dims).size();
  Sums sums(n);
  for (const Bytes& message : messages) sums.add(message);
  sums.divide(messages.size());
  const auto again = select_again(step, kept, sums.inputs);
  const Evidence e = evidence({sums.inputs, sums.gradients, sums.selected},
                              again, applied, kept.budget);
  const WorkerNumbers& w = sums.numbers;
  return {{"step", step},
          {"layer", kept.layer.name},
          {"n", n},
          {"k", kept.budget},
          {"k_hat", w[kKHat]},
          {"xi", number_or_null(e.xi)},
          {"relative_error", number_or_null(e.relative_error)},
          {"delta", number_or_null(e.delta())},
          {"n1", e.n1},
          {"n2", e.n2},
          {"contraction", w[kContraction]},
          {"bound", w[kBound]},
          {"bell", w[kBell]},
          {"bound_k",
           1 - static_cast<double>(kept.budget) / static_cast<double>(n)},
          {"residual", w[kResidual]},
          {"gradient", w[kGradient]},
          {"input", w[kInput]},
          {"age_mean", w[kAgeMean]},
          {"age_p50", w[kAgeP50]},
          {"age_p90", w[kAgeP90]},
          {"age_p99", w[kAgeP99]},
          {"age_max", w[kAgeMax]}};
}

// A(mean x): what the rule would select if all workers were one.
std::vector<float> ConvergenceStudy::select_again(
    std::uint64_t step, const Kept& kept, std::span<const double> mean) {
  const auto key = std::pair(Place(kept.tensor, kept.first), kept.rule);
  auto at = again_.find(key);
  if (at == again_.end()) {
    at = again_
             .emplace(key, RuleTrial(*space_, kept.rule, kept.layer.dims,
                                     kept.tensor))
             .first;
  }
  std::vector<float> x(mean.size());
  std::transform(mean.begin(), mean.end(), x.begin(),
                 [](double v) { return static_cast<float>(v); });
  at->second.select(x,
                    {step - 1, setup_.total_steps, kept.density, setup_.seed});
  return at->second.selection();
}

}  // namespace sluice
