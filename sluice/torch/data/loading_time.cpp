#include "sluice/torch/data/loading_time.h"

#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sluice/data/jpeg.h"
#include "sluice/torch/data/loader.h"

namespace sluice {
namespace {

// Some samples of a data set, several times over. Counts those that were made,
// whether or not anybody has taken them.
class Counted final : public Dataset {
 public:
  Counted(const Dataset& all, const std::vector<std::size_t>& which,
          std::size_t times)
      : Dataset(all.input()), all_(all), which_(which), times_(times) {}
  std::size_t size() const override { return times_ * which_.size(); }
  std::int64_t label(std::size_t index) const override {
    return all_.label(which_[index % which_.size()]);
  }
  Rendered render(std::size_t index, std::optional<std::uint64_t> random,
                  std::span<float> out) const override {
    Rendered rendered = all_.render(which_[index % which_.size()], random, out);
    ++made_;
    return rendered;
  }
  std::size_t made() const { return made_; }

 private:
  const Dataset& all_;
  const std::vector<std::size_t>& which_;
  std::size_t times_;
  mutable std::atomic<std::size_t> made_ = 0;
};

class Watch {
 public:
  LoadingTime stop(std::size_t samples) const {
    const std::chrono::duration<double> wall = Clock::now() - wall_;
    return {wall.count(), cpu_now() - cpu_, samples};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double cpu_now() {
    timespec now = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) +
           1e-9 * static_cast<double>(now.tv_nsec);
  }

  Clock::time_point wall_ = Clock::now();
  double cpu_ = cpu_now();
};

// Until all memory has been used once.
std::size_t untimed(const LoadingOptions& o) { return o.prefetch + 3; }

template <class Next>
LoadingTime time_batches(const Counted& data, const LoadingOptions& o,
                         const Next& next) {
  for (std::size_t i = 0; i < untimed(o); ++i) next();
  const std::size_t before = data.made();
  const Watch watch;
  for (std::size_t i = 0; i < o.batches; ++i) next();
  return watch.stop(data.made() - before);
}

}  // namespace

LoadingTime time_loader(const Dataset& dataset,
                        const std::vector<std::size_t>& which,
                        const LoadingOptions& o) {
  SamplerOptions sampling;
  sampling.batch = o.batch;
  sampling.drop_last = false;
  const Counted counted(dataset, which, 1);
  Loader loader(counted, sampling, {o.threads, o.prefetch});
  return time_batches(counted, o, [&] { loader.next(); });
}

LoadingTime time_evaluation(const Dataset& dataset,
                            const std::vector<std::size_t>& which,
                            const LoadingOptions& o) {
  const std::size_t all = (o.batches + untimed(o)) * o.batch;
  const Counted counted(dataset, which, all / which.size() + 1);
  EvaluationLoader loader(counted, {0, all}, o.batch, {o.threads, o.prefetch});
  return time_batches(counted, o, [&] { loader.next(); });
}

LoadingTime time_decoding(const std::vector<std::vector<std::uint8_t>>& files,
                          std::size_t threads) {
  std::atomic<std::size_t> next = 0;
  const auto decode = [&] {
    std::vector<std::uint8_t> rgb;
    for (std::size_t i; (i = next++) < files.size();) {
      decode_whole_jpeg(files[i], rgb);
    }
  };
  const Watch watch;
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < threads; ++t) others.emplace_back(decode);
  decode();
  for (std::thread& thread : others) thread.join();
  return watch.stop(files.size());
}

}  // namespace sluice
