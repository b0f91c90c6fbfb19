#include <array>

#include "sluice/sparsify/rules.h"

namespace sluice {
namespace {

template <class... S>
constexpr auto entries(SparsifierList<S...>) {
  return std::array{registry_entry<S, Sparsifier>()...};
}

constexpr std::array kSparsifiers = entries(AllSparsifiers{});

}  // namespace

std::span<const SparsifierEntry> sparsifiers() { return kSparsifiers; }

std::unique_ptr<Sparsifier> make_sparsifier(std::string_view text) {
  return make_from(sparsifiers(), Sparsifier::kKind, text);
}

}  // namespace sluice
