#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace sluice {

// A vector that does not clear what it grows by: for memory that is about to be
// overwritten.
template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  // What was there stays, what is new is undefined.
  void resize(std::size_t size) {
    if (size > capacity_) grow(size, size_);
    size_ = size;
  }
  // Nothing need stay.
  void reset(std::size_t size) {
    if (size > capacity_) grow(size, 0);
    size_ = size;
  }

 private:
  void grow(std::size_t size, std::size_t keep) {
    const std::size_t larger = std::max(size, capacity_ + capacity_ / 2);
    std::unique_ptr<T[]> data(new T[larger]);  // not cleared
    std::copy_n(data_.get(), keep, data.get());
    data_ = std::move(data);
    capacity_ = larger;
  }

  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace sluice
