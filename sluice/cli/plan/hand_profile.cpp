#include "sluice/cli/plan/hand_profile.h"

#include "sluice/cli/bench/model_shapes.h"
#include "sluice/core/error.h"

namespace sluice {

CostCurve cost_line(double floor, double rate) {
  constexpr double kFar = 1e9;
  return CostCurve({{0, floor}, {kFar, floor + rate * kFar}});
}

Profile hand_profile(const std::string& model, double forward,
                     double backward) {
  Profile profile;
  profile.model = model;
  profile.machine = "by hand";
  profile.forward = forward;
  double all = 0;
  for (const Dims& dims : model_shapes(model)) {
    TensorProfile t;
    t.name = concat("tensor", profile.tensors.size());
    t.shape = dims;
    t.elements = 1;
    for (const std::size_t d : dims) t.elements *= d;
    all += static_cast<double>(t.elements);
    profile.tensors.push_back(t);
  }
  for (TensorProfile& t : profile.tensors) {
    t.backward = backward * static_cast<double>(t.elements) / all;
  }
  return profile;
}

}  // namespace sluice
