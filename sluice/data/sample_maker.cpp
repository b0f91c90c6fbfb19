#include "sluice/data/sample_maker.h"

#include <algorithm>
#include <system_error>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {

Rendered make_sample(const Dataset& dataset, const Order& order,
                     std::size_t i) {
  const auto pixels = static_cast<std::size_t>(dataset.input().pixels());
  const std::uint64_t index = order.indices[i];
  std::optional<std::uint64_t> random;
  if (order.key) random = mix64(*order.key, index);
  Rendered sample = dataset.render(
      index, random, std::span(order.images + i * pixels, pixels));
  order.labels[i] = sample.label;
  return sample;
}

SampleMaker::SampleMaker(const Dataset& dataset, std::size_t threads)
    : dataset_(dataset) {
  try {
    for (std::size_t t = 0; t < threads; ++t) {
      threads_.emplace_back([this] { run(); });
    }
  } catch (const std::system_error& e) {
    end();
    throw std::runtime_error(concat("[data] ", threads, " threads were wanted",
                                    ", but only ", threads_.size(),
                                    " could be made (", e.what(),
                                    "); ask for fewer data threads"));
  }
}

SampleMaker::~SampleMaker() { end(); }

void SampleMaker::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void SampleMaker::push(Order order) {
  {
    const std::lock_guard lock(mutex_);
    works_.emplace_back().order = std::move(order);
  }
  wanted_.notify_all();
}

BatchOutcome SampleMaker::pop() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] {
    const Work& work = works_.front();
    return work.done == work.order.indices.size();
  });
  const Work work = std::move(works_.front());
  works_.pop_front();
  if (work.error) std::rethrow_exception(work.error);
  return work.outcome;
}

void SampleMaker::forget() {
  std::unique_lock lock(mutex_);
  for (Work& work : works_) work.begun = work.order.indices.size();
  ready_.wait(lock, [&] { return running_ == 0; });
  works_.clear();
}

void SampleMaker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Work* work = nullptr;
    wanted_.wait(lock, [&] { return stop_ || (work = unfinished()); });
    if (stop_) return;
    make(*work, lock);
  }
}

// The oldest with a sample that nobody has begun.
SampleMaker::Work* SampleMaker::unfinished() {
  const auto found = std::find_if(
      works_.begin(), works_.end(),
      [](const Work& work) { return work.begun < work.order.indices.size(); });
  return found == works_.end() ? nullptr : &*found;
}

void SampleMaker::make(Work& work, std::unique_lock<std::mutex>& lock) {
  const std::size_t i = work.begun++;
  ++running_;
  lock.unlock();
  Rendered sample;
  std::exception_ptr error;
  try {
    sample = make_sample(dataset_, work.order, i);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  --running_;
  ++work.done;
  // By place rather than by time: another run says the same.
  if (error && i < work.error_at) {
    work.error = error;
    work.error_at = i;
  }
  if (!sample.problem.empty()) {
    ++work.outcome.replaced;
    if (i < work.problem_at) {
      work.outcome.problem = std::move(sample.problem);
      work.problem_at = i;
    }
  }
  if (work.done == work.order.indices.size() || running_ == 0) {
    ready_.notify_all();
  }
}

}  // namespace sluice
