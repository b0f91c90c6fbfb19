#include "sluice/torch/data/batch_feed.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace sluice {

BatchFeed::BatchFeed(BatchSource& source, const torch::Device& device,
                     at::MemoryFormat format)
    : source_(source), device_(device), format_(format) {}

BatchFeed::~BatchFeed() {
  try {
    let_go(next_);
    let_go(used_);
  } catch (const std::exception&) {
    // A device that has failed has said so elsewhere.
  }
}

void BatchFeed::seek(const Position& place) {
  if ((next_ ? next_->place : source_.position()) == place) return;
  let_go(next_);
  source_.seek(place);
}

Batch BatchFeed::next() {
  if (!next_) next_ = fetch();
  let_go(used_);
  used_ = std::move(next_);
  next_.reset();
  if (used_->done) {
    const c10::impl::VirtualGuardImpl streams(device_.type());
    const c10::Stream here = streams.getStream(device_);
    used_->done->block(here);
    // They were made on another stream, whose allocator must know of this one.
    for (const torch::Tensor& t : used_->there.tensors) t.record_stream(here);
  }
  return std::exchange(used_->there, {});
}

void BatchFeed::prefetch() {
  if (next_) return;
  try {
    next_ = fetch();
  } catch (const std::exception&) {
    // The source stays where it is, so next() meets it again.
  }
}

BatchFeed::Moving BatchFeed::fetch() {
  Moving moving;
  moving.place = source_.position();
  moving.host = source_.next();
  if (device_.is_cpu()) {
    moving.there = moving.host;
    for (torch::Tensor& t : moving.there.tensors) t = formatted(t);
  } else {
    copy(moving);
  }
  return moving;
}

void BatchFeed::copy(Moving& moving) {
  const c10::impl::VirtualGuardImpl streams(device_.type());
  if (!side_) side_ = streams.getStreamFromGlobalPool(device_);
  const c10::StreamGuard guard(*side_);
  // As they are: another order of dimensions is a matter for the device.
  for (const torch::Tensor& t : moving.host.tensors) {
    moving.there.tensors.push_back(formatted(t.to(device_, true)));
  }
  moving.there.host = moving.host.host;
  moving.there.outcome = moving.host.outcome;
  moving.done.emplace(device_.type());
  moving.done->record(*side_);
}

torch::Tensor BatchFeed::formatted(const torch::Tensor& tensor) const {
  return tensor.dim() == 4 ? tensor.contiguous(format_) : tensor;
}

void BatchFeed::let_go(std::optional<Moving>& moving) {
  if (moving && moving->done) moving->done->synchronize();
  moving.reset();
}

}  // namespace sluice
