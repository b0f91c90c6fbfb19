#include "sluice/torch/gradients.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "sluice/backend/backend.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

bool is_taken(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

}  // namespace

TensorView view_of(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  require(is_taken(type), "[view] a gradient must be fp32, bf16 or fp16, got ",
          c10::toString(type));
  std::vector<std::size_t> dims;
  for (const std::int64_t d : tensor.sizes()) {
    dims.push_back(static_cast<std::size_t>(d));
  }
  TensorView view = contiguous_view(tensor.data_ptr(), dims,
                                    type == at::kFloat      ? DType::kFp32
                                    : type == at::kBFloat16 ? DType::kBf16
                                                            : DType::kFp16);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    view.strides[d] = tensor.stride(static_cast<std::int64_t>(d));
  }
  return view;
}

Event event_after(const at::Tensor& tensor) {
  const c10::Device device = tensor.device();
  if (device.is_cpu()) return {};
  const auto event = std::make_shared<c10::Event>(device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return cuda_event(event, event->eventId());
}

std::vector<TensorInfo> describe_tensors(std::string_view owner,
                                         const NamedTensors& parameters) {
  std::vector<TensorInfo> infos;
  for (const NamedTensor& p : parameters) {
    require(is_taken(p.tensor.scalar_type()), "[", owner, "] parameter '",
            p.name, "' must be fp32, bf16 or fp16, got ",
            c10::toString(p.tensor.scalar_type()),
            "; convert it, or leave it out of what is exchanged");
    require(p.tensor.is_non_overlapping_and_dense(), "[", owner,
            "] parameter '", p.name,
            "' must fill its memory without gaps, got strides ",
            p.tensor.strides(), "; contiguous() makes such a one");
    infos.push_back({p.name, {}});
    for (const std::int64_t d : p.tensor.sizes()) {
      infos.back().dims.push_back(static_cast<std::size_t>(d));
    }
  }
  return infos;
}

}  // namespace sluice
