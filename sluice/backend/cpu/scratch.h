#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>

namespace sluice::cpu {

// Zeroed memory straight from the kernel, aligned to a page, with huge pages
// where they pay. Pages that are never touched cost nothing, so callers may ask
// for the worst case. 0 bytes give a null pointer. Throws std::bad_alloc.
void* map_pages(std::size_t bytes);
void unmap_pages(void* data, std::size_t bytes);

// How often map_pages has mapped something, for tests of steady state.
std::size_t pages_mapped();

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
