#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <string_view>

#include "sluice/torch/models/model.h"

namespace sluice::testing {

// A model on torch's meta device: its tensors have shapes, and no memory,
// whatever their size. Fails if making it needs a value.
inline std::unique_ptr<Model> blank_model(std::string_view text,
                                          const ModelInput& input) {
  // Puts all keys of the thread back. The guard of Meta leaves a bit behind, as
  // a difference of key sets keeps the bits of backends, and on a machine with
  // a GPU later tests would then make their tensors on the meta device.
  const c10::impl::ForceDispatchKeyGuard restore;
  // Torch has no default device in C++. Factories go by what chooses a backend
  // from their options; without it, by the one that the thread includes.
  const c10::impl::ExcludeDispatchKeyGuard no_choice(
      c10::DispatchKey::BackendSelect);
  const c10::impl::IncludeDispatchKeyGuard meta(c10::DispatchKey::Meta);
  return make_from(models(), Model::kKind, text, input);
}

}  // namespace sluice::testing
