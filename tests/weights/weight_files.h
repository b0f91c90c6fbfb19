#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/weights/weights.h"

// Small files of weights, right and wrong.

namespace sluice::testing {

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A file of safetensors with this header and so many bytes of data.
inline std::string safetensors_of(std::string_view header, std::size_t data,
                                  char fill = '\0') {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  return file.append(header).append(data, fill);
}

// Tensors that own their values.
class FakeWeights {
 public:
  FakeWeights& add(const std::string& name, const Dims& dims, float first = 1) {
    auto values = std::make_shared<std::vector<float>>(
        static_cast<std::size_t>(*elements_of(dims)));
    for (float& value : *values) value = first++;
    weights_.tensors.push_back({name, WeightType::kF32, dims,
                                std::as_bytes(std::span<float>(*values))});
    weights_.owners.push_back(values);
    return *this;
  }
  template <class T>
  FakeWeights& add(const std::string& name, WeightType type, const Dims& dims,
                   const std::vector<T>& given) {
    auto values = std::make_shared<std::vector<T>>(given);
    weights_.tensors.push_back(
        {name, type, dims, std::as_bytes(std::span<T>(*values))});
    weights_.owners.push_back(values);
    return *this;
  }
  Weights& get() {
    weights_.path = "w";
    weights_.format = "safetensors";
    sort_by_name(weights_);
    return weights_;
  }

 private:
  Weights weights_;
};

inline std::vector<float> floats_of(const WeightTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  if (!values.empty()) {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return values;
}

}  // namespace sluice::testing
