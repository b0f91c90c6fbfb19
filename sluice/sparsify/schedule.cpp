#include "sluice/sparsify/schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sluice/core/error.h"
#include "sluice/core/number_text.h"

namespace sluice {
namespace {

void check(double density) {
  require(density > 0 && density <= 1,
          "[density] a density must be above 0 and at most 1, got ",
          shortest(density));
}

std::vector<double> parse_list(std::string_view text) {
  std::vector<double> list;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    double value = 0;
    const auto [end, error] =
        std::from_chars(item.data(), item.data() + item.size(), value);
    require(error == std::errc() && end == item.data() + item.size(),
            "[density] a schedule must be warmup:epochs=N, dense:epochs=N or a "
            "list of densities, got '",
            item, "'");
    check(value);
    list.push_back(value);
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

DensitySchedule::DensitySchedule(std::string_view text, double target)
    : target_(target) {
  check(target);
  if (text.empty()) return;
  const std::string_view name = text.substr(0, text.find(':'));
  if (name != "warmup" && name != "dense") {
    warmup_ = parse_list(text);
    return;
  }
  std::int64_t epochs = 0;
  const ParamList params = {
      {"epochs", &epochs, "length of the warm-up", 0, 1e6}};
  for (const auto& [key, value] : parse_spec(text).params) {
    set_param(params, concat("density schedule '", name, "'"), key, value);
  }
  require(epochs > 0, "[density] schedule '", name,
          "' needs epochs of at least 1, as in ", name, ":epochs=4");
  // The authors' code: the W-th root of the way to the target, epoch by epoch.
  const double root = std::pow(target, 1.0 / static_cast<double>(epochs + 1));
  for (std::int64_t e = 0; e < epochs; ++e) {
    warmup_.push_back(
        name == "dense"
            ? 1.0
            : std::max(std::pow(root, static_cast<double>(e + 1)), target));
  }
}

double DensitySchedule::density(std::uint64_t epoch) const {
  return epoch < warmup_.size() ? warmup_[epoch] : target_;
}

std::vector<Description> schedule_descriptions() {
  const Description::Parameter epochs = {"epochs", "", "length, at least 1"};
  return {{"constant", "the target density throughout: an empty text", {}},
          {"warmup", "DGC's exponential way down to the target", {epochs}},
          {"dense", "dense epochs first, then the target", {epochs}},
          {"list", "d1,d2,...: one density per epoch, then the target", {}}};
}

}  // namespace sluice
