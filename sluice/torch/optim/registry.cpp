#include <array>
#include <set>

#include "sluice/torch/optim/adam.h"
#include "sluice/torch/optim/bert_adam.h"
#include "sluice/torch/optim/lamb.h"
#include "sluice/torch/optim/optimizer.h"
#include "sluice/torch/optim/sgd.h"

namespace sluice {
namespace {

constexpr std::array kOptimizers = {
    registry_entry<Sgd, Optimizer, const NamedTensors&>(),
    registry_entry<Adam, Optimizer, const NamedTensors&>(),
    registry_entry<AdamW, Optimizer, const NamedTensors&>(),
    registry_entry<BertAdam, Optimizer, const NamedTensors&>(),
    registry_entry<Lamb, Optimizer, const NamedTensors&>(),
};

}  // namespace

std::span<const OptimizerEntry> optimizers() { return kOptimizers; }

std::unique_ptr<Optimizer> make_optimizer(std::string_view text,
                                          const NamedTensors& parameters) {
  std::set<std::string_view> names;
  for (const NamedTensor& item : parameters) {
    require(names.insert(item.name).second,
            "[make_optimizer] parameters must have names of their own, got '",
            item.name, "' twice");
  }
  require(!names.empty(),
          "[make_optimizer] there must be a parameter, got none");
  return make_from(optimizers(), Optimizer::kKind, text, parameters);
}

}  // namespace sluice
