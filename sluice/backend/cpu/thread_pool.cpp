#include "sluice/backend/cpu/thread_pool.h"

#include <stdexcept>
#include <system_error>
#include <utility>

#include "sluice/core/error.h"

namespace sluice::cpu {
namespace {

// A pass is many short regions; a worker that slept between them would lose
// more than it saves. 2^12 pauses are about 50 us.
constexpr int kSpins = 1 << 12;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(std::size_t threads) {
  try {
    for (std::size_t t = 1; t < threads; ++t) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    const std::size_t started = size();
    stop();
    throw std::runtime_error(concat("[threads] could start only ", started,
                                    " of ", threads,
                                    " threads; ask for fewer"));
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::dispatch(std::size_t tasks, void* context, Call call) {
  if (busy_.exchange(true, std::memory_order_acquire)) {
    for (std::size_t t = 0; t < tasks; ++t) call(context, t);
    return;
  }
  tasks_ = tasks;
  context_ = context;
  call_ = call;
  next_.store(0, std::memory_order_relaxed);
  idle_.store(0, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  drain();
  // Every worker must have left the region before the next one may change it.
  const auto all = static_cast<std::uint32_t>(workers_.size());
  for (int spin = 0; idle_.load(std::memory_order_acquire) != all;) {
    if (++spin < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
  const std::exception_ptr error = std::exchange(error_, nullptr);
  failed_.store(false, std::memory_order_relaxed);
  busy_.store(false, std::memory_order_release);
  if (error != nullptr) std::rethrow_exception(error);
}

void ThreadPool::work() {
  std::uint32_t seen = 0;
  while (true) {
    for (int spin = 0;
         spin < kSpins && generation_.load(std::memory_order_acquire) == seen;
         ++spin) {
      pause();
    }
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    drain();
    idle_.fetch_add(1, std::memory_order_release);
  }
}

void ThreadPool::drain() {
  while (true) {
    const std::size_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    run_task(task);
  }
}

void ThreadPool::run_task(std::size_t task) noexcept {
  if (failed_.load(std::memory_order_relaxed)) return;
  try {
    call_(context_, task);
  } catch (...) {
    if (!failed_.exchange(true)) error_ = std::current_exception();
  }
}

}  // namespace sluice::cpu
