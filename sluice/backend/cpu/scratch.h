#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "sluice/backend/cpu/pages.h"

namespace sluice::cpu {

// An array that only grows and does not keep or clear its content when it does.
template <class T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { unmap_pages(data_, size_ * sizeof(T)); }

  T* grow(std::size_t size) {
    if (size > size_) {
      unmap_pages(data_, size_ * sizeof(T));
      data_ = nullptr;
      size_ = 0;
      data_ = static_cast<T*>(map_pages(size * sizeof(T)));
      size_ = size;
    }
    return data_;
  }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice::cpu
