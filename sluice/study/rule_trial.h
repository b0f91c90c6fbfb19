#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/feedback/feedback.h"

namespace sluice {

// What trials run on, one after another, of up to so many elements.
struct TrialSpace {
  explicit TrialSpace(std::size_t elements)
      : backend(make_cpu_backend({1, ""})),
        stream(backend->make_stream()),
        arena(*backend, elements) {}

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Stream> stream;
  Arena arena;  // which trials never touch: they keep nothing
};

// A sparsifier, tried on values that nobody sends, on the host. What it learns
// from call to call it keeps.
class RuleTrial {
 public:
  // The space must outlive it. `tensor`: its id in the job, which rules that
  // draw go by. Throws std::invalid_argument for a rule that is unknown.
  RuleTrial(TrialSpace& space, const std::string& rule,
            std::span<const std::size_t> dims, std::uint64_t tensor = 0);

  struct Result {
    std::uint64_t budget = 0;
    std::uint64_t selected = 0;
  };
  // `values`: as many as the dimensions say.
  Result select(std::span<const float> values, const StepInfo& step);
  // What was selected last, with zeros between.
  std::vector<float> selection() const;

 private:
  TrialSpace& space_;
  std::unique_ptr<Feedback> feedback_;
};

}  // namespace sluice
