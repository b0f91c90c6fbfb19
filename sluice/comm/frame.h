#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

using Bytes = std::vector<std::byte>;

// What travels between ranks: a header, which is the communicator's, and a
// payload. A handle: copies share the bytes, so that one frame serves any
// number of peers. They go back to their pool with the last handle.
class Frame {
 public:
  static constexpr std::size_t kHeader = 48;

  Frame() = default;
  Frame(const Frame& other) : block_(other.block_) { keep(); }
  Frame(Frame&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)) {}
  Frame& operator=(Frame other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Frame() { release(); }

  bool empty() const { return block_ == nullptr; }
  // Header and payload.
  std::span<std::byte> bytes() const;
  std::span<std::byte> payload() const { return bytes().subspan(kHeader); }
  // Cuts the payload, or lets it grow to what the frame was made for.
  void resize(std::size_t payload);

 private:
  friend class FramePool;
  friend class Communicator;
  struct Block;

  explicit Frame(Block* block) : block_(block) {}
  void keep() const;
  void release();
  // The header belongs to the payload as it is now.
  bool sealed() const;
  void seal(bool sealed);

  Block* block_ = nullptr;
};

// Frames whose memory is used again. May be used by several threads; frames may
// outlive it.
class FramePool {
 public:
  // With room for a payload of so many bytes, whatever they are.
  Frame get(std::size_t payload);

  struct Shelf;

 private:
  std::shared_ptr<Shelf> shelf_ = make_shelf();
  static std::shared_ptr<Shelf> make_shelf();
};

// First in, first out; keeps its memory.
template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == items_.size(); }
  T& front() { return items_[first_]; }
  void reserve(std::size_t items) { items_.reserve(items); }
  void push(T item) {
    // What has left makes room before anything grows.
    if (items_.size() == items_.capacity() && first_ > 0) {
      items_.erase(items_.begin(),
                   items_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    items_.push_back(std::move(item));
  }
  T pop() {
    T item = std::move(items_[first_++]);
    if (empty()) {
      items_.clear();
      first_ = 0;
    }
    return item;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
};

}  // namespace sluice
