#include "sluice/weights/weights.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

struct TypeRow {
  std::string_view name;
  std::size_t bytes;
  bool floating;
};

// In the order of WeightType.
constexpr std::array<TypeRow, 10> kTypes = {{{"F64", 8, true},
                                             {"F32", 4, true},
                                             {"F16", 2, true},
                                             {"BF16", 2, true},
                                             {"I64", 8, false},
                                             {"I32", 4, false},
                                             {"I16", 2, false},
                                             {"I8", 1, false},
                                             {"U8", 1, false},
                                             {"BOOL", 1, false}}};

const TypeRow& row_of(WeightType type) {
  return kTypes[static_cast<std::size_t>(type)];
}

constexpr auto kByName = [](const WeightTensor& a, std::string_view name) {
  return a.name < name;
};

}  // namespace

std::size_t bytes_of(WeightType type) { return row_of(type).bytes; }

std::string_view name_of(WeightType type) { return row_of(type).name; }

bool is_floating(WeightType type) { return row_of(type).floating; }

std::optional<WeightType> weight_type(std::string_view name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](auto& row) { return row.name == name; });
  if (found == kTypes.end()) return std::nullopt;
  return static_cast<WeightType>(found - kTypes.begin());
}

std::string text_of(const Dims& dims) {
  if (dims.empty()) return "scalar";
  std::string text = std::to_string(dims.front());
  for (std::size_t i = 1; i < dims.size(); ++i) {
    text.append(" x ").append(std::to_string(dims[i]));
  }
  return text;
}

std::optional<std::int64_t> elements_of(const Dims& dims) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(n, dim, &n) || n > kMost) {
      return std::nullopt;
    }
  }
  return n;
}

const WeightTensor* Weights::find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors.begin(), tensors.end(), name, kByName);
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

void sort_by_name(Weights& weights) {
  auto& all = weights.tensors;
  std::sort(all.begin(), all.end(),
            [](auto& a, auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(all.begin(), all.end(),
                         [](auto& a, auto& b) { return a.name == b.name; });
  if (twice == all.end()) return;
  ensure(false, "[weights] '", weights.path, "': tensor '", twice->name,
         "' must be there once, is there twice; save the file anew");
}

}  // namespace sluice
