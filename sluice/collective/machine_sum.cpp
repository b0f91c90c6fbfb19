#include "sluice/collective/machine_sum.h"

#include <algorithm>

#include "sluice/collective/patterns.h"
#include "sluice/cost/patterns.h"

namespace sluice {
namespace {

struct Stretch {
  std::size_t begin = 0;
  std::size_t size = 0;
};

float* floats(const Frame& frame) {
  return reinterpret_cast<float*>(frame.payload().data());
}

Frame receive_floats(Communicator& comm, std::size_t peer, std::uint32_t phase,
                     std::size_t count) {
  Frame frame = comm.receive_frame(peer, phase);
  if (frame.payload().size() != count * sizeof(float)) {
    comm.reject(peer,
                "values of another number; do all ranks have the same plan?");
  }
  return frame;
}

class SumAtFirst {
 public:
  SumAtFirst(Communicator& comm, std::span<const float> in,
             std::span<float> out, std::uint32_t phase)
      : comm_(comm),
        in_(in),
        out_(out),
        phase_(phase),
        owners_(machine_sum_owners(in.size(), comm.size())),
        share_((in.size() + owners_ - 1) / owners_),
        segment_(ring_segment(share_)) {}

  void run() {
    const std::size_t segments = (share_ + segment_ - 1) / segment_;
    // One segment ahead: the next is on its way while this one is summed, and
    // no more than that waits in frames. So a sum comes behind the segment
    // after its own.
    send(0);
    for (std::size_t g = 0; g < segments; ++g) {
      send(g + 1);
      add(g);
      if (g > 0) collect(g - 1);
    }
    if (segments > 0) collect(segments - 1);
  }

 private:
  // Segment g of what a rank sums.
  Stretch part(std::size_t owner, std::size_t g) const {
    if (owner >= owners_) return {};
    const std::size_t end = std::min(in_.size(), (owner + 1) * share_);
    const std::size_t at = std::min(end, owner * share_ + g * segment_);
    return {at, std::min(segment_, end - at)};
  }
  std::uint32_t phase(std::size_t g, bool summed) const {
    return phase_ + static_cast<std::uint32_t>(2 * g + (summed ? 1 : 0));
  }

  void send(std::size_t g) {
    for_others(comm_, [&](std::size_t peer) {
      const Stretch p = part(peer, g);
      if (p.size == 0) return;
      Frame frame = comm_.make_frame(p.size * sizeof(float));
      std::copy_n(in_.data() + p.begin, p.size, floats(frame));
      comm_.send(peer, phase(g, false), frame);
    });
  }

  void add(std::size_t g) {
    const Stretch p = part(comm_.rank(), g);
    if (p.size == 0) return;
    const bool first = comm_.rank() == 0;
    Frame frame = comm_.make_frame(first ? 0 : p.size * sizeof(float));
    float* sum = first ? out_.data() + p.begin : floats(frame);
    // In the order of ranks; rank 0's `out` may be its `in`.
    for (std::size_t r = 0; r < comm_.size(); ++r) {
      Frame theirs;
      const float* values = in_.data() + p.begin;
      if (r != comm_.rank()) {
        theirs = receive_floats(comm_, r, phase(g, false), p.size);
        values = floats(theirs);
      }
      if (r == 0) {
        if (values != sum) std::copy_n(values, p.size, sum);
        continue;
      }
      for (std::size_t i = 0; i < p.size; ++i) sum[i] += values[i];
    }
    if (!first) comm_.send(0, phase(g, true), frame);
  }

  void collect(std::size_t g) {
    if (comm_.rank() != 0) return;
    for_others(comm_, [&](std::size_t peer) {
      const Stretch p = part(peer, g);
      if (p.size == 0) return;
      const Frame sum = receive_floats(comm_, peer, phase(g, true), p.size);
      std::copy_n(floats(sum), p.size, out_.data() + p.begin);
    });
  }

  Communicator& comm_;
  std::span<const float> in_;
  std::span<float> out_;
  std::uint32_t phase_;
  std::size_t owners_;
  std::size_t share_;
  std::size_t segment_;
};

}  // namespace

void sum_at_first(Communicator& comm, std::span<const float> in,
                  std::span<float> out, std::uint32_t phase) {
  if (comm.size() > 1) {
    SumAtFirst(comm, in, out, phase).run();
  } else if (in.data() != out.data()) {
    std::copy(in.begin(), in.end(), out.begin());
  }
}

void copy_from_first(Communicator& comm, std::span<float> values,
                     std::uint32_t phase) {
  if (comm.size() == 1) return;
  const std::size_t segment = ring_segment(values.size());
  for (std::size_t at = 0; at < values.size(); at += segment, ++phase) {
    const std::size_t size = std::min(segment, values.size() - at);
    Frame frame;
    if (comm.rank() == 0) {
      frame = frame_of(comm, std::as_bytes(values.subspan(at, size)));
    }
    frame = broadcast(comm, 0, phase, std::move(frame));
    if (frame.payload().size() != size * sizeof(float)) {
      comm.reject(0,
                  "values of another number; do all ranks have the same "
                  "plan?");
    }
    if (comm.rank() != 0) {
      std::copy_n(floats(frame), size, values.data() + at);
    }
  }
}

}  // namespace sluice
