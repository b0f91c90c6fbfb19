#include "sluice/sync/stage_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "sluice/codec/codec.h"
#include "sluice/core/checksum.h"
#include "sluice/core/hash.h"
#include "sluice/feedback/feedback.h"

namespace sluice {
namespace {

constexpr std::size_t kRow = 256;
constexpr int kSettling = 3;  // steps, in which brackets and buffers settle
constexpr int kTimed = 3;

// Sums of uniform numbers: as good as normal ones, and soon made.
std::vector<float> gradient_of(std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = mix64(i, 1);
    float sum = 0;
    for (unsigned part = 0; part < 64; part += 16) {
      sum += static_cast<float>(bits >> part & 0xffffU) / 65536.0F - 0.5F;
    }
    out[i] = sum;
  }
  return out;
}

// Seconds of the stages of one bucket.
struct Stages {
  std::size_t entries = 0;
  double select = 0;
  double encode = 0;
  double decode = 0;
  double apply = 0;
};

class Measuring {
 public:
  Measuring(Backend& backend, Clock& clock, const std::vector<float>& gradient)
      : backend_(backend),
        clock_(clock),
        stream_(backend.make_stream()),
        dims_{gradient.size() / kRow, kRow},
        arena_(backend, gradient.size()),
        gradient_(backend.allocate(gradient.size() * sizeof(float))),
        floor_(backend.allocate(gradient.size() * sizeof(float))),
        result_(backend.allocate(sizeof(DecodeResult))),
        received_(backend, gradient.size(), 0, 1) {
    backend_.copy_in(*stream_, gradient_.data(),
                     std::as_bytes(std::span(gradient)));
  }

  Stages stages(const std::string& sparsifier, double density) {
    Bucket bucket;
    bucket.add(0, shape3(dims_), 0);
    Codec codec(backend_, "auto");
    const auto feedback = make_feedback(
        "residual", {backend_, arena_, bucket, make_sparsifier(sparsifier),
                     codec.values()});
    backend_.fill(*stream_, arena_.residual(), bucket.size(), 0);
    std::array<std::vector<double>, 4> seconds;
    Stages out;
    for (int step = 0; step < kSettling + kTimed; ++step) {
      const std::array<double, 4> now =
          time_step(*feedback, codec, static_cast<std::uint64_t>(step), density,
                    out.entries);
      if (step < kSettling) continue;
      for (std::size_t i = 0; i < now.size(); ++i) seconds[i].push_back(now[i]);
    }
    const auto median = [](std::vector<double>& s) {
      std::nth_element(s.begin(), s.begin() + kTimed / 2, s.end());
      return s[kTimed / 2];
    };
    out.select = median(seconds[0]);
    out.encode = median(seconds[1]);
    out.decode = median(seconds[2]);
    out.apply = median(seconds[3]);
    return out;
  }

  // All of it to the host or back: the mean of both ways.
  double copy() {
    const Buffer host = backend_.allocate_host(gradient_.bytes());
    const std::span<std::byte> bytes(host.data<std::byte>(), host.bytes());
    double best = 1e30;
    for (int i = 0; i < kTimed; ++i) {
      const double out = clock_.time(*stream_, [&] {
        backend_.copy_out(*stream_, bytes, gradient_.data());
      });
      const double in = clock_.time(*stream_, [&] {
        backend_.copy_in(*stream_, gradient_.data(), bytes);
      });
      best = std::min(best, (out + in) / 2);
    }
    return best;
  }

  // What of a dense ring the host takes: messages are copied into a frame, out
  // of the engine and to their place, checked at both ends, and added. A
  // device's own collectives do no more than add.
  double ring() {
    if (!backend_.is_host()) return sum();
    const std::size_t bytes = gradient_.bytes();
    const auto* in = gradient_.data<std::byte>();
    frame_.resize(bytes);
    const auto pass = [&] {
      for (int copy = 0; copy < 3; ++copy) {
        std::memcpy(frame_.data(), in, bytes);
        if (copy < 2) check_.add(frame_);
      }
    };
    std::vector<double> seconds;
    for (int i = 0; i < kTimed; ++i) {
      seconds.push_back(clock_.time(*stream_, pass));
    }
    // Asked for, so that no compiler leaves it out.
    const double nothing = check_.fold() == 0 ? 1e-12 : 0;
    return *std::min_element(seconds.begin(), seconds.end()) + sum() + nothing;
  }

  // One pass of r += g.
  double sum() {
    const std::size_t n = dims_[0] * dims_[1];
    double best = 1e30;
    for (int i = 0; i < kTimed; ++i) {
      best = std::min(best, clock_.floor(*stream_, floor_.data<float>(),
                                         gradient_.data<float>(), n));
    }
    return best;
  }

 private:
  std::array<double, 4> time_step(Feedback& feedback, Codec& codec,
                                  std::uint64_t step, double density,
                                  std::size_t& entries) {
    const std::array views = {contiguous_view(gradient_.data(), dims_)};
    std::array<double, 4> out{};
    out[0] = clock_.time(*stream_, [&] {
      feedback.select(*stream_, views, {step, 0, density, 1});
    });
    SparseBlock& block = feedback.staged();
    backend_.wait(block.fetch(backend_, *stream_));
    entries = block.count();
    backend_.wait(codec.encode(*stream_, block, feedback.forms(), message_));
    const std::span<const std::byte> bytes = message_.bytes();
    received_.reserve(backend_, block.capacity());
    out[1] = clock_.time(*stream_, [&] {
      codec.encode(
          *stream_,
          {block.indices(), block.values(), block.starts(), feedback.forms()},
          {message_.data(), message_.capacity()}, message_.written());
    });
    out[2] = clock_.time(*stream_, [&] {
      codec.decode(*stream_, bytes, feedback.forms(),
                   {received_.indices(), received_.values(), received_.starts(),
                    received_.capacity()},
                   result_.data<DecodeResult>());
    });
    const SparseView list = block.view();
    const TensorView target = contiguous_view(floor_.data(), dims_);
    ApplyPass pass;
    pass.lists = {&list, 1};
    pass.targets = {&target, 1};
    out[3] = clock_.time(*stream_, [&] { backend_.apply(*stream_, pass); });
    feedback.commit(*stream_);
    return out;
  }

  Backend& backend_;
  Clock& clock_;
  std::unique_ptr<Stream> stream_;
  std::array<std::size_t, 2> dims_;
  Arena arena_;
  Buffer gradient_;
  Buffer floor_;
  Buffer result_;
  SparseBlock received_;
  Message message_;
  std::vector<std::byte> frame_;
  Checksum check_;
};

std::vector<StageCost> measure_device(Backend& backend, Clock& clock,
                                      const CostQuery& query) {
  // Of a stage and a method, seconds by size. Coding and applying is alike for
  // all methods, so that of the first one stands for them.
  std::map<std::pair<std::string, std::string>, std::vector<CostCurve::Point>>
      points;
  const auto add = [&](const char* what, const std::string& method,
                       std::size_t size, double seconds) {
    auto& row = points[{what, method}];
    const auto at = static_cast<double>(size);
    if (row.empty() || row.back().size < at) row.push_back({at, seconds});
  };
  for (std::size_t n = std::size_t{1} << 14; n <= query.largest; n *= 8) {
    Measuring measuring(backend, clock, gradient_of(n));
    bool first = true;
    for (const std::string& sparsifier : query.sparsifiers) {
      const Stages s = measuring.stages(sparsifier, query.density);
      add("select", sparsifier.substr(0, sparsifier.find(':')), n, s.select);
      if (!std::exchange(first, false)) continue;
      add("encode", "*", s.entries, s.encode);
      add("decode", "*", s.entries, s.decode);
      add("apply", "*", s.entries, s.apply);
    }
    if (!backend.is_host()) add("copy", "*", n, measuring.copy());
    const double sum = measuring.sum();
    add("sum", "*", n, measuring.ring());
    add("select", "none", n, sum);  // what is packed for a dense sum
    add("apply", "none", n, sum);
  }
  std::vector<StageCost> out;
  for (auto& [key, row] : points) {
    if (row.size() < 2) continue;
    out.push_back({key.first, key.second, query.device, CostCurve(row)});
  }
  return out;
}

}  // namespace

std::vector<StageCost> measure_costs(Backend& backend, Clock& clock,
                                     const CostQuery& query) {
  std::vector<StageCost> out = measure_device(backend, clock, query);
  if (backend.is_host()) return out;
  CostQuery there = query;
  there.device = "cpu";
  there.largest = std::min(query.largest, kHostLargest);
  const auto host = make_cpu_backend({query.host_threads, ""});
  const auto host_clock = make_cpu_clock(query.host_threads);
  for (StageCost& row : measure_device(*host, *host_clock, there)) {
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace sluice
