#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/error.h"
#include "sluice/core/params.h"

namespace sluice {

// One row of a plug-in table. A table rather than self-registering statics: the
// linker drops those from a static library when nothing refers to them.
//
// A plug-in type has kName, kSummary, a Params struct, a `list(Params&)` of its
// parameters, and a constructor from Params and any further arguments.
template <class Interface, class... Args>
struct RegistryEntry {
  std::string_view name;
  std::string_view summary;
  Description (*describe)();
  std::unique_ptr<Interface> (*make)(const Spec& spec, Args... args);
};

// The parameters of a T that `spec` gives, over its defaults. Throws
// std::invalid_argument, listing what exists, for unknown ones.
template <class T>
typename T::Params params_from(const Spec& spec) {
  typename T::Params params;
  const ParamList list = T::list(params);
  const std::string owner = concat(T::kKind, " '", T::kName, "'");
  for (const auto& [key, value] : spec.params) {
    set_param(list, owner, key, value);
  }
  return params;
}

template <class T, class Interface, class... Args>
constexpr RegistryEntry<Interface, Args...> registry_entry() {
  return {T::kName, T::kSummary,
          [] {
            typename T::Params params;
            return describe(T::kName, T::kSummary, T::list(params));
          },
          [](const Spec& spec, Args... args) -> std::unique_ptr<Interface> {
            return std::make_unique<T>(params_from<T>(spec), args...);
          }};
}

// The instance that `text` (see parse_spec) describes. Throws
// std::invalid_argument, listing what exists, for unknown names and parameters.
template <class Entry, class... Args>
auto make_from(std::span<const Entry> entries, std::string_view kind,
               std::string_view text, Args&&... args) {
  const Spec spec = parse_spec(text);
  std::vector<std::string_view> known;
  for (const Entry& entry : entries) {
    if (entry.name == spec.name) return entry.make(spec, args...);
    known.push_back(entry.name);
  }
  fail_unknown(kind, spec.name, known);
}

}  // namespace sluice
