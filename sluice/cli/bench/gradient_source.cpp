#include "sluice/cli/bench/gradient_source.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"
#include "sluice/study/npy.h"

namespace sluice {
namespace {

// Drawing 100M normals takes seconds a step; cutting runs at random offsets out
// of a pool of 4M gives values that are new at every position.
constexpr std::size_t kPool = 1U << 22;
constexpr std::size_t kRun = 1U << 10;

std::vector<float> draw(const std::string& name) {
  std::vector<float> values(kPool);
  std::mt19937_64 rng(20261115);
  std::normal_distribution<float> normal;
  std::exponential_distribution<float> exponential;
  std::student_t_distribution<float> student(3);
  for (float& v : values) {
    if (name == "laplace") {
      v = (rng() & 1U) != 0 ? exponential(rng) : -exponential(rng);
    } else if (name == "t3") {
      v = student(rng);
    } else if (name == "zeros") {
      v = rng() % 2000 == 0 ? normal(rng) : 0;
    } else {
      v = normal(rng);
    }
  }
  return values;
}

bool is_file(const std::string& name) {
  return name.size() > 4 && name.substr(name.size() - 4) == ".npy";
}

}  // namespace

const std::vector<std::string>& GradientSource::names() {
  static const std::vector<std::string> kNames = {"randn", "laplace", "t3",
                                                  "equal", "zeros",   "ramp"};
  return kNames;
}

GradientSource::GradientSource(const std::string& name, std::size_t n)
    : name_(name), dims_({n}), n_(n) {
  if (is_file(name)) {
    NpyArray array = read_npy(name);
    dims_ = array.dims;
    n_ = array.values.size();
    pool_ = std::move(array.values);
    return;
  }
  check(name);
  if (name != "equal" && name != "ramp") pool_ = draw(name);
}

void GradientSource::check(const std::string& name) {
  if (is_file(name)) {
    read_npy(name);
    return;
  }
  std::string known;
  for (const std::string& k : names()) known += k + " ";
  require(std::find(names().begin(), names().end(), name) != names().end(),
          "[bench] no data '", name, "'; known: ", known, "or a .npy file");
}

void GradientSource::fill(std::span<float> out, std::uint64_t step,
                          float scale) const {
  const std::size_t runs = (out.size() + kRun - 1) / kRun;
  for (std::size_t run = 0; run < runs; ++run) {
    const std::size_t begin = run * kRun;
    const std::size_t end = std::min(out.size(), begin + kRun);
    if (is_file(name_)) {
      for (std::size_t i = begin; i < end; ++i) out[i] = scale * pool_[i];
    } else if (name_ == "equal") {
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(begin),
                out.begin() + static_cast<std::ptrdiff_t>(end), scale);
    } else if (name_ == "ramp") {
      const auto n = static_cast<float>(out.size());
      for (std::size_t i = begin; i < end; ++i) {
        out[i] = scale * (static_cast<float>(i) / n);
      }
    } else {
      const std::size_t offset = bounded(mix64(step, run), kPool - kRun);
      for (std::size_t i = begin; i < end; ++i) {
        out[i] = scale * pool_[offset + i - begin];
      }
    }
  }
}

}  // namespace sluice
