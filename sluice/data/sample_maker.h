#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "sluice/data/dataset.h"

namespace sluice {

// Samples to make, and where they go.
struct Order {
  std::vector<std::uint64_t> indices;
  // Decides, with the index, about the augmentation; none: as they are.
  std::optional<std::uint64_t> key;
  // Room for all of them, of the caller's.
  float* images = nullptr;
  std::int64_t* labels = nullptr;
};

// The outcome of one.
struct BatchOutcome {
  std::uint64_t replaced = 0;  // samples whose place another one took
  std::string problem{};       // of the first of these
};

// Makes sample `i` of an order; a function of the order and the data alone.
Rendered make_sample(const Dataset& dataset, const Order& order, std::size_t i);

// Threads that make samples, order after order.
//
// For one thread to call.
class SampleMaker {
 public:
  // Keeps a reference to `dataset`.
  SampleMaker(const Dataset& dataset, std::size_t threads);
  // Waits for the samples that are being made, and makes no more.
  ~SampleMaker();
  SampleMaker(const SampleMaker&) = delete;
  SampleMaker& operator=(const SampleMaker&) = delete;

  // Its memory must stay until it is taken or forgotten.
  void push(Order order);
  // Waits for the oldest order. Throws what the first of its samples that
  // failed threw; the order is gone then, too.
  BatchOutcome pop();
  // As the destructor does; may go on with other orders.
  void forget();

 private:
  struct Work {
    Order order;
    std::size_t begun = 0;
    std::size_t done = 0;
    BatchOutcome outcome;
    std::size_t problem_at = ~std::size_t{0};
    std::exception_ptr error;
    std::size_t error_at = ~std::size_t{0};
  };

  void run();
  void end();
  Work* unfinished();
  void make(Work& work, std::unique_lock<std::mutex>& lock);

  const Dataset& dataset_;
  std::mutex mutex_;
  std::condition_variable wanted_;  // there is something to do
  std::condition_variable ready_;   // something is done
  std::deque<Work> works_;          // references stay as ends come and go
  std::size_t running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace sluice
