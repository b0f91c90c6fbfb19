#include <algorithm>

#include "sluice/backend/cuda/wire_common.cuh"

namespace sluice::cuda {

void WireSegments::set(cudaStream_t stream, Uploads& uploads,
                       std::span<const SegmentForm> forms) {
  next_.clear();
  WireSegment at;
  size_ = 0;
  strided_ = tables_ = false;
  for (const SegmentForm& form : forms) {
    // Sizes that would wrap round are as wrong as any that are too large.
    size_ = form.size > kMostElements - std::min(size_, kMostElements)
                ? kMostElements + 1
                : size_ + form.size;
    WireSegment s = at;
    s.size = form.size;
    s.values = form.values;
    s.sums = form.sums;
    s.entries = row_entries(form);
    const bool by_rows = s.entries > 0 && s.entries != kCannot;
    if (by_rows) {
      s.k = form.rows.rows.k;
      s.bands = bands_of(form.rows);
      s.bits = row_bits(form.rows);
      s.strided = s.bands.stride > 1;
    }
    next_.push_back(s);
    tables_ |=
        form.values == ValueForm::kOne || form.values == ValueForm::kTwoBit;
    at.base += s.size;
    if (s.entries == kCannot) ++at.cannot_before;
    if (!by_rows) continue;
    at.entries_before += s.entries;
    at.bits_before += s.entries * s.bits;
    if (!s.strided) continue;
    strided_ = true;
    const std::uint64_t bits = s.bands.rest * (s.bands.groups << s.bands.shift);
    at.chunks += (bits + kChunkBits - 1) / kChunkBits;
    at.marks = at.chunks * kChunkWords;
  }
  next_.push_back(at);
  count_ = static_cast<std::uint32_t>(forms.size());
  if (device_ != nullptr && next_ == host_) return;
  const void* sent = uploads.send(std::span<const WireSegment>(next_));
  auto* to = scratch_.grow<WireSegment>(next_.size());
  check(cudaMemcpyAsync(to, sent, next_.size() * sizeof(WireSegment),
                        cudaMemcpyDeviceToDevice, stream),
        "to copy segments");
  device_ = to;
  host_.swap(next_);
}

}  // namespace sluice::cuda
