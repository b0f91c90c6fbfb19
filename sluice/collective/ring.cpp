#include "sluice/collective/ring.h"

#include <algorithm>
#include <cstring>

#include "sluice/core/half.h"
#include "sluice/cost/patterns.h"

namespace sluice {
namespace {

struct Range {
  std::size_t begin = 0;
  std::size_t size = 0;
};

// How values travel. pack() writes what stands at `at` of the vector.
struct Fp32 {
  using Word = float;
  void pack(const float* values, std::size_t, std::size_t n, Word* out) const {
    std::copy_n(values, n, out);
  }
  static void unpack(const Word* words, std::size_t n, float* out) {
    std::copy_n(words, n, out);
  }
  // out = in + words
  static void add(const float* in, const Word* words, std::size_t n,
                  float* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = in[i] + words[i];
  }
};

struct Bf16 {
  using Word = std::uint16_t;
  std::span<float> remainders;

  // Every element is rounded once on each rank; what cannot travel stays here.
  void pack(const float* values, std::size_t at, std::size_t n,
            Word* out) const {
    float* rest = remainders.data() + at;
    for (std::size_t i = 0; i < n; ++i) {
      out[i] = to_bf16(values[i]);
      rest[i] = values[i] - from_bf16(out[i]);
    }
  }
  static void unpack(const Word* words, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = from_bf16(words[i]);
  }
  static void add(const float* in, const Word* words, std::size_t n,
                  float* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = in[i] + from_bf16(words[i]);
  }
};

template <class Form>
class Ring {
 public:
  using Word = typename Form::Word;

  Ring(Communicator& comm, std::span<const float> in, std::span<float> out,
       std::uint32_t phase, Form form)
      : comm_(comm),
        in_(in),
        out_(out),
        phase_(phase),
        form_(form),
        segment_(ring_segment(in.size() / comm.size())) {}

  void run() {
    const std::size_t last = comm_.size() - 2;
    // Hop s brings chunk rank - s - 1; what has been summed goes on at once.
    for_segments(chunk(0), [&](std::size_t g, Range part) {
      Frame frame = packed(in_.data(), part);
      send(phase(0, g), frame);
    });
    for (std::size_t s = 0; s <= last; ++s) {
      for_segments(chunk(s + 1), [&](std::size_t g, Range part) {
        add(phase(s, g), part);
        Frame frame = packed(out_.data(), part);
        // The last sum is whole: here as others will have it.
        if (s == last) {
          Form::unpack(words(frame), part.size, out_.data() + part.begin);
        }
        send(s < last ? phase(s + 1, g) : gather_phase(g), frame);
      });
    }
    // The whole sums travel on, as they came: rank r has made that of chunk
    // r + 1.
    for (std::size_t s = 0; s <= last; ++s) {
      for_segments(chunk(s), [&](std::size_t g, Range part) {
        Frame frame = receive(gather_phase(g), part);
        Form::unpack(words(frame), part.size, out_.data() + part.begin);
        if (s < last) send(gather_phase(g), frame);
      });
    }
  }

 private:
  // The chunk `back` places before this rank's own.
  Range chunk(std::size_t back) const {
    const std::size_t parts = comm_.size();
    const std::size_t c = (comm_.rank() + parts - back) % parts;
    const std::size_t n = in_.size();
    return {n / parts * c + std::min(c, n % parts),
            n / parts + (c < n % parts ? 1 : 0)};
  }

  template <class F>
  void for_segments(Range whole, F&& f) const {
    for (std::size_t at = 0, g = 0; at < whole.size; at += segment_, ++g) {
      f(g, Range{whole.begin + at, std::min(segment_, whole.size - at)});
    }
  }

  std::uint32_t phase(std::size_t hop, std::size_t g) const {
    const std::size_t most = in_.size() / comm_.size() / segment_ + 2;
    return phase_ + static_cast<std::uint32_t>(hop * most + g);
  }
  // One for all hops, so that a frame can be sent on without being touched.
  std::uint32_t gather_phase(std::size_t g) const {
    return phase(comm_.size(), g);
  }

  static Word* words(const Frame& frame) {
    return reinterpret_cast<Word*>(frame.payload().data());
  }

  Frame packed(const float* values, Range part) {
    Frame frame = comm_.make_frame(part.size * sizeof(Word));
    form_.pack(values + part.begin, part.begin, part.size, words(frame));
    return frame;
  }

  void send(std::uint32_t phase, Frame& frame) {
    comm_.send((comm_.rank() + 1) % comm_.size(), phase, frame);
  }

  Frame receive(std::uint32_t phase, Range part) {
    const std::size_t before = (comm_.rank() + comm_.size() - 1) % comm_.size();
    Frame frame = comm_.receive_frame(before, phase);
    if (frame.payload().size() != part.size * sizeof(Word)) {
      comm_.reject(before,
                   "a dense segment of the wrong size; do all ranks "
                   "sum as many values?");
    }
    return frame;
  }

  void add(std::uint32_t phase, Range part) {
    const Frame frame = receive(phase, part);
    Form::add(in_.data() + part.begin, words(frame), part.size,
              out_.data() + part.begin);
  }

  Communicator& comm_;
  std::span<const float> in_;
  std::span<float> out_;
  std::uint32_t phase_;
  Form form_;
  std::size_t segment_;  // elements
};

}  // namespace

void ring_sum(Communicator& comm, std::span<const float> in,
              std::span<float> out, std::uint32_t phase) {
  Ring<Fp32>(comm, in, out, phase, {}).run();
}

void ring_sum_bf16(Communicator& comm, std::span<const float> in,
                   std::span<float> out, std::span<float> remainders,
                   std::uint32_t phase) {
  Ring<Bf16>(comm, in, out, phase, {remainders}).run();
}

}  // namespace sluice
