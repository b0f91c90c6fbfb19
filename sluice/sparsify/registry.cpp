#include <array>

#include "sluice/sparsify/adtopk.h"
#include "sluice/sparsify/dgc.h"
#include "sluice/sparsify/gaussiank.h"
#include "sluice/sparsify/randomk.h"
#include "sluice/sparsify/redsync.h"
#include "sluice/sparsify/sidco.h"
#include "sluice/sparsify/sparsifier.h"
#include "sluice/sparsify/threshold.h"
#include "sluice/sparsify/topk.h"

namespace sluice {
namespace {

constexpr std::array kSparsifiers = {
    registry_entry<Topk, Sparsifier>(),
    registry_entry<Adtopk, Sparsifier>(),
    registry_entry<AdtopkInterleaved, Sparsifier>(),
    registry_entry<AdtopkThreshold, Sparsifier>(),
    registry_entry<Tile, Sparsifier>(),
    registry_entry<Randomk, Sparsifier>(),
    registry_entry<Threshold, Sparsifier>(),
    registry_entry<Dgc, Sparsifier>(),
    registry_entry<Gaussiank, Sparsifier>(),
    registry_entry<Redsync, Sparsifier>(),
    registry_entry<RedsyncTrimmed, Sparsifier>(),
    registry_entry<RedsyncQuantized, Sparsifier>(),
    registry_entry<SidcoE, Sparsifier>(),
    registry_entry<SidcoGp, Sparsifier>(),
    registry_entry<SidcoP, Sparsifier>(),
    registry_entry<None, Sparsifier>(),
};

}  // namespace

std::span<const SparsifierEntry> sparsifiers() { return kSparsifiers; }

std::unique_ptr<Sparsifier> make_sparsifier(std::string_view text) {
  return make_from(sparsifiers(), Sparsifier::kKind, text);
}

}  // namespace sluice
