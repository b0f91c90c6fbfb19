#include "sluice/torch/tensors.h"

#include <algorithm>
#include <cstring>

#include "sluice/core/error.h"

namespace sluice {
namespace {

struct TypeName {
  torch::ScalarType type;
  std::string_view name;
};
constexpr TypeName kTypes[] = {
    {torch::kFloat32, "float32"}, {torch::kFloat64, "float64"},
    {torch::kFloat16, "float16"}, {torch::kBFloat16, "bfloat16"},
    {torch::kInt8, "int8"},       {torch::kInt16, "int16"},
    {torch::kInt32, "int32"},     {torch::kInt64, "int64"},
    {torch::kUInt8, "uint8"},     {torch::kBool, "bool"},
};

std::string_view name_of(torch::ScalarType type) {
  for (const TypeName& row : kTypes) {
    if (row.type == type) return row.name;
  }
  throw std::invalid_argument(concat("[tensors] tensors of type ",
                                     torch::toString(type),
                                     " cannot be stored"));
}

torch::ScalarType type_of(std::string_view name) {
  for (const TypeName& row : kTypes) {
    if (row.name == name) return row.type;
  }
  throw std::invalid_argument(concat("[tensors] no element type '", name, "'"));
}

template <class Items>
NamedTensors named(const Items& items) {
  NamedTensors tensors;
  for (const auto& item : items) tensors.push_back({item.key(), item.value()});
  return tensors;
}

}  // namespace

NamedTensors parameters_of(const torch::nn::Module& module) {
  return named(module.named_parameters());
}

NamedTensors buffers_of(const torch::nn::Module& module) {
  return named(module.named_buffers());
}

std::int64_t count_elements(const NamedTensors& tensors) {
  std::int64_t count = 0;
  for (const NamedTensor& item : tensors) count += item.tensor.numel();
  return count;
}

torch::Tensor find_tensor(const NamedTensors& tensors, std::string_view name) {
  for (const NamedTensor& item : tensors) {
    if (item.name == name) return item.tensor;
  }
  return {};
}

void copy_into(std::string_view owner, const NamedTensors& from,
               const NamedTensors& to) {
  std::vector<torch::Tensor> sources;
  for (const NamedTensor& item : to) {
    const torch::Tensor source = find_tensor(from, item.name);
    require(source.defined(), "[", owner, "] there must be a tensor '",
            item.name, "', but it is missing; was it another model?");
    require(source.sizes() == item.tensor.sizes() &&
                source.scalar_type() == item.tensor.scalar_type(),
            "[", owner, "] tensor '", item.name, "' must be ",
            item.tensor.sizes(), " of ", item.tensor.scalar_type(), ", got ",
            source.sizes(), " of ", source.scalar_type(),
            "; was it another model?");
    sources.push_back(source);
  }
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i) {
    torch::Tensor target = to[i].tensor;
    target.copy_(sources[i]);
  }
}

void TensorStore::add(std::string_view prefix, const NamedTensors& tensors) {
  for (const NamedTensor& item : tensors) {
    const torch::Tensor host = item.tensor.detach().cpu().contiguous();
    held_.push_back(host);
    stored_.push_back(
        {concat(prefix, item.name), std::string(name_of(host.scalar_type())),
         host.sizes().vec(),
         std::span(static_cast<const std::byte*>(host.const_data_ptr()),
                   host.nbytes())});
  }
}

NamedTensors tensors_of(const Checkpoint& checkpoint, std::string_view prefix) {
  NamedTensors tensors;
  for (const StoredTensor& stored : checkpoint.tensors()) {
    if (!std::string_view(stored.name).starts_with(prefix)) continue;
    torch::Tensor tensor =
        torch::empty(stored.dims, torch::dtype(type_of(stored.dtype)));
    if (!stored.data.empty()) {
      std::memcpy(tensor.mutable_data_ptr(), stored.data.data(),
                  stored.data.size());
    }
    tensors.push_back({stored.name.substr(prefix.size()), tensor});
  }
  return tensors;
}

}  // namespace sluice
