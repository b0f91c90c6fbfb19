#include "sluice/comm/frame.h"

#include <algorithm>
#include <cassert>

namespace sluice {

struct Frame::Block {
  std::atomic<std::uint32_t> owners{0};
  std::shared_ptr<FramePool::Shelf> shelf;  // while it is in use
  std::unique_ptr<std::byte[]> data;
  std::size_t capacity = 0;
  std::size_t size = 0;
  bool sealed = false;
};

struct FramePool::Shelf {
  std::mutex mutex;
  std::vector<std::unique_ptr<Frame::Block>> free;
  std::size_t blocks = 0;
};

std::span<std::byte> Frame::bytes() const {
  return {block_->data.get(), block_->size};
}

void Frame::resize(std::size_t payload) {
  assert(kHeader + payload <= block_->capacity);
  block_->size = kHeader + payload;
  block_->sealed = false;
}

void Frame::keep() const {
  if (block_ != nullptr) {
    block_->owners.fetch_add(1, std::memory_order_relaxed);
  }
}

void Frame::release() {
  if (block_ == nullptr) return;
  if (block_->owners.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  // The shelf may go with the block that held on to it last.
  const std::shared_ptr<FramePool::Shelf> shelf = std::move(block_->shelf);
  const std::lock_guard lock(shelf->mutex);
  shelf->free.emplace_back(block_);
}

bool Frame::sealed() const { return block_->sealed; }
void Frame::seal(bool sealed) { block_->sealed = sealed; }

std::shared_ptr<FramePool::Shelf> FramePool::make_shelf() {
  return std::make_shared<Shelf>();
}

Frame FramePool::get(std::size_t payload) {
  const std::size_t need = Frame::kHeader + payload;
  std::unique_ptr<Frame::Block> block;
  {
    const std::lock_guard lock(shelf_->mutex);
    auto& free = shelf_->free;
    // The smallest that is large enough, or else the largest.
    auto best = free.begin();
    for (auto at = free.begin(); at != free.end(); ++at) {
      const std::size_t have = (*at)->capacity;
      const bool fits = (*best)->capacity >= need;
      if (have >= need ? !fits || have < (*best)->capacity
                       : !fits && have > (*best)->capacity) {
        best = at;
      }
    }
    if (best != free.end()) {
      block = std::move(*best);
      *best = std::move(free.back());
      free.pop_back();
    } else {
      block = std::make_unique<Frame::Block>();
      free.reserve(++shelf_->blocks);  // so that nothing grows on the way back
    }
  }
  if (block->capacity < need) {
    // With something to spare: the next one may be a little larger.
    block->capacity = need + need / 8 + 256;
    block->data.reset(new std::byte[block->capacity]);  // not cleared
  }
  block->owners.store(1, std::memory_order_relaxed);
  block->shelf = shelf_;
  block->size = need;
  block->sealed = false;
  return Frame(block.release());
}

}  // namespace sluice
