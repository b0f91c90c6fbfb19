#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace sluice {

// Owns memory of a device. Moves, does not copy; the host may dereference
// data() only where the backend says so (the CPU's does).
class Buffer {
 public:
  using Deleter = std::function<void(void*, std::size_t)>;

  Buffer() = default;
  Buffer(void* data, std::size_t bytes, Deleter deleter)
      : data_(data), bytes_(bytes), deleter_(std::move(deleter)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) deleter_(data_, bytes_);
  }

  std::size_t bytes() const { return bytes_; }
  template <class T = void>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(deleter_, other.deleter_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Deleter deleter_;
};

// An ordered queue of work on a device.
class Stream {
 public:
  virtual ~Stream() = default;
};

// A point in a stream; done() once everything enqueued before it has run. May
// be asked by any thread.
class Event {
 public:
  // What a device keeps of it.
  class State {
   public:
    virtual ~State() = default;
    virtual bool done() const = 0;
  };

  Event() = default;  // done
  explicit Event(std::shared_ptr<const State> state)
      : state_(std::move(state)) {}
  bool done() const { return state_ == nullptr || state_->done(); }
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace sluice
