#include "sluice/collective/ring.h"

#include <algorithm>
#include <cstring>

#include "sluice/core/half.h"

namespace sluice {
namespace {

// Long enough to make a message's cost small, short enough to overlap.
constexpr std::size_t kSegment = std::size_t{1} << 18;

struct Range {
  std::size_t begin = 0;
  std::size_t size = 0;
};

struct Fp32 {
  using Word = float;
  void round(std::span<float>, std::size_t) {}
  static Word pack(float v) { return v; }
  static float unpack(Word w) { return w; }
};

struct Bf16 {
  using Word = std::uint16_t;
  std::span<float> remainders;

  // What cannot travel stays here.
  void round(std::span<float> values, std::size_t at) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float rounded = from_bf16(to_bf16(values[i]));
      remainders[at + i] += values[i] - rounded;
      values[i] = rounded;
    }
  }
  static Word pack(float v) { return to_bf16(v); }
  static float unpack(Word w) { return from_bf16(w); }
};

template <class Form>
class Ring {
 public:
  Ring(Communicator& comm, std::span<float> values, std::uint32_t phase,
       Form form)
      : comm_(comm), values_(values), phase_(phase), form_(form) {}

  void run() {
    const std::size_t last = comm_.size() - 2;
    // Hop s brings chunk rank - s - 1; what has been summed goes on at once.
    for_segments(chunk(0), [&](std::size_t g, Range part) {
      form_.round(of(part), part.begin);
      send(0, g, part);
    });
    for (std::size_t s = 0; s <= last; ++s) {
      for_segments(chunk(s + 1), [&](std::size_t g, Range part) {
        receive(s, g, part, [](float& mine, float v) { mine += v; });
        form_.round(of(part), part.begin);
        send(s + 1, g, part);
      });
    }
    // The whole sums travel on: rank r has made that of chunk r + 1.
    for (std::size_t s = 0; s <= last; ++s) {
      for_segments(chunk(s), [&](std::size_t g, Range part) {
        receive(last + 1 + s, g, part, [](float& mine, float v) { mine = v; });
        if (s < last) send(last + 2 + s, g, part);
      });
    }
  }

 private:
  // The chunk `back` places before this rank's own.
  Range chunk(std::size_t back) const {
    const std::size_t parts = comm_.size();
    const std::size_t c = (comm_.rank() + parts - back) % parts;
    const std::size_t n = values_.size();
    return {n / parts * c + std::min(c, n % parts),
            n / parts + (c < n % parts ? 1 : 0)};
  }

  template <class F>
  static void for_segments(Range whole, F&& f) {
    for (std::size_t at = 0, g = 0; at < whole.size; at += kSegment, ++g) {
      f(g, Range{whole.begin + at, std::min(kSegment, whole.size - at)});
    }
  }

  std::span<float> of(Range part) const {
    return values_.subspan(part.begin, part.size);
  }

  std::uint32_t phase(std::size_t hop, std::size_t g) const {
    const std::size_t most = values_.size() / comm_.size() / kSegment + 2;
    return phase_ + static_cast<std::uint32_t>(hop * most + g);
  }

  void send(std::size_t hop, std::size_t g, Range part) {
    words_.resize(part.size);
    std::transform(of(part).begin(), of(part).end(), words_.begin(),
                   Form::pack);
    comm_.send((comm_.rank() + 1) % comm_.size(), phase(hop, g),
               std::as_bytes(std::span(words_)));
  }

  template <class F>
  void receive(std::size_t hop, std::size_t g, Range part, F&& f) {
    const std::size_t before = (comm_.rank() + comm_.size() - 1) % comm_.size();
    const auto bytes = comm_.receive(before, phase(hop, g));
    words_.resize(part.size);
    if (bytes.size() != part.size * sizeof(typename Form::Word)) {
      comm_.reject(before,
                   "a dense segment of the wrong size; do all ranks "
                   "sum as many values?");
    }
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    const std::span<float> mine = of(part);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      f(mine[i], Form::unpack(words_[i]));
    }
  }

  Communicator& comm_;
  std::span<float> values_;
  std::uint32_t phase_;
  Form form_;
  std::vector<typename Form::Word> words_;
};

}  // namespace

void ring_sum(Communicator& comm, std::span<float> values,
              std::uint32_t phase) {
  if (comm.size() > 1) Ring<Fp32>(comm, values, phase, {}).run();
}

void ring_sum_bf16(Communicator& comm, std::span<float> values,
                   std::span<float> remainders, std::uint32_t phase) {
  if (comm.size() > 1) {
    Ring<Bf16>(comm, values, phase, {remainders}).run();
  }
}

}  // namespace sluice
