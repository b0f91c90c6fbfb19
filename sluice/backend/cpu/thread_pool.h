#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace sluice::cpu {

// Threads that share out numbered tasks. The caller works too, so a pool of one
// starts no thread. While one caller has the threads, another works alone.
class ThreadPool {
 public:
  explicit ThreadPool(std::size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const { return workers_.size() + 1; }

  // Calls f(task) for every task in [0, tasks), in any order and on any thread,
  // and returns when all are done. Throws what the first task that failed
  // threw; tasks not yet begun are left out then.
  template <class F>
  void run(std::size_t tasks, F&& f) {
    if (tasks <= 1 || workers_.empty()) {
      for (std::size_t t = 0; t < tasks; ++t) f(t);
      return;
    }
    dispatch(tasks, &f, [](void* context, std::size_t task) {
      (*static_cast<std::remove_reference_t<F>*>(context))(task);
    });
  }

 private:
  using Call = void (*)(void*, std::size_t);

  void dispatch(std::size_t tasks, void* context, Call call);
  void work();
  void stop();
  void drain();
  void run_task(std::size_t task) noexcept;

  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint32_t> idle_{0};
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> busy_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // of the task that set failed_
  std::size_t tasks_ = 0;
  void* context_ = nullptr;
  Call call_ = nullptr;
};

}  // namespace sluice::cpu
