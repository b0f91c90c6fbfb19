#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_runtime.h"

thread_local dim3 threadIdx;
thread_local dim3 blockIdx;
thread_local dim3 blockDim;
thread_local dim3 gridDim;

namespace sluice::cuda_on_host {
namespace {

constexpr std::size_t kStack = 256 * 1024;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "[cuda_on_host] %s\n", what);
  std::abort();
}

// Where a fiber, or what runs them, goes on. swapcontext() would ask the kernel
// for signal masks each time, which takes a hundred times as long.
#ifdef __x86_64__
extern "C" void sluice_switch_stacks(void** from, void* to);
asm(R"(
.text
.type sluice_switch_stacks, @function
sluice_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sluice_switch_stacks, .-sluice_switch_stacks
)");

struct Context {
  void* top = nullptr;

  void begin(std::byte* stack, std::size_t bytes, void (*function)()) {
    const auto end = reinterpret_cast<std::uintptr_t>(stack + bytes);
    auto** at = reinterpret_cast<void**>(end & ~std::uintptr_t{15});
    *--at = nullptr;  // nowhere to return to
    *--at = reinterpret_cast<void*>(function);
    for (int i = 0; i < 6; ++i) *--at = nullptr;
    top = at;
  }
  static void change(Context& from, Context& to) {
    sluice_switch_stacks(&from.top, to.top);
  }
};
#else
struct Context {
  ucontext_t state;

  void begin(std::byte* stack, std::size_t bytes, void (*function)()) {
    getcontext(&state);
    state.uc_stack.ss_sp = stack;
    state.uc_stack.ss_size = bytes;
    makecontext(&state, function, 0);
  }
  static void change(Context& from, Context& to) {
    swapcontext(&from.state, &to.state);
  }
};
#endif

// A thread of a kernel. It runs one kernel after another, on one stack.
struct Fiber {
  unsigned number = 0;  // in its block
  Together waits = Together::kDone;
  int kind = 0;
  unsigned parity = 0;
  Context context;
  std::unique_ptr<std::byte[]> stack;
};

struct Warp {
  Lanes lanes[2];
};

// The threads of one block, by turns on one thread of the operating system.
class Block {
 public:
  void run(const Launch& launch, unsigned index, std::barrier<>* grid,
           const std::function<void()>& kernel);

  void yield() { Context::change(current_->context, scheduler_); }
  Fiber& current() { return *current_; }
  Warp& warp() { return warps_[current_->number / 32]; }

 private:
  static void enter();
  void resume(Fiber& fiber);
  void run_warp(std::size_t w);
  // What all fibers of a range wait for that have not ended.
  Together common(std::size_t from, std::size_t to) const;
  void release(std::size_t from, std::size_t to);

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  std::size_t count_ = 0;
  Fiber* current_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
  Context scheduler_;
};

thread_local Block* block = nullptr;

// A fiber's next kernel may run on another thread of the operating system, so
// that where thread_local variables are must not be remembered.
[[gnu::noinline]] Block& own_block() {
  asm volatile("");
  return *block;
}

void Block::enter() {
  for (;;) {
    (*own_block().kernel_)();
    own_block().current_->waits = Together::kDone;
    own_block().yield();
  }
}

void Block::resume(Fiber& fiber) {
  current_ = &fiber;
  threadIdx = dim3(fiber.number, 0, 0);
  if (fiber.stack == nullptr) {
    fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStack);
    fiber.context.begin(fiber.stack.get(), kStack, &Block::enter);
  }
  Context::change(scheduler_, fiber.context);
}

Together Block::common(std::size_t from, std::size_t to) const {
  const Fiber* first = nullptr;
  for (std::size_t i = from; i < to; ++i) {
    const Fiber& fiber = *fibers_[i];
    if (fiber.waits == Together::kDone) continue;
    if (first == nullptr) first = &fiber;
    if (fiber.waits != first->waits || fiber.kind != first->kind) {
      die("threads of a block wait for each other at different places");
    }
  }
  return first == nullptr ? Together::kDone : first->waits;
}

void Block::release(std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    Together& waits = fibers_[i]->waits;
    if (waits != Together::kDone) waits = Together::kNone;
  }
}

void Block::run_warp(std::size_t w) {
  const std::size_t from = 32 * w;
  const std::size_t to = std::min(from + 32, count_);
  for (;;) {
    for (std::size_t i = from; i < to; ++i) {
      if (fibers_[i]->waits == Together::kNone) resume(*fibers_[i]);
    }
    if (common(from, to) != Together::kWarp) return;
    std::uint32_t there = 0;
    for (std::size_t i = from; i < to; ++i) {
      if (fibers_[i]->waits != Together::kDone) there |= 1U << (i - from);
    }
    for (Lanes& lanes : warps_[w].lanes) lanes.there = there;
    release(from, to);
  }
}

void Block::run(const Launch& launch, unsigned index, std::barrier<>* grid,
                const std::function<void()>& kernel) {
  block = this;
  kernel_ = &kernel;
  blockIdx = dim3(index % launch.grid.x, index / launch.grid.x, 0);
  blockDim = launch.block;
  gridDim = launch.grid;
  count_ = launch.block.x;
  while (fibers_.size() < count_) fibers_.push_back(std::make_unique<Fiber>());
  warps_.resize((count_ + 31) / 32);
  for (std::size_t i = 0; i < count_; ++i) {
    Fiber& fiber = *fibers_[i];
    fiber.number = static_cast<unsigned>(i);
    fiber.waits = Together::kNone;
    fiber.parity = 0;
  }
  for (;;) {
    for (std::size_t w = 0; w < warps_.size(); ++w) run_warp(w);
    const Together whom = common(0, count_);
    if (whom == Together::kDone) return;
    if (whom == Together::kGrid) {
      if (grid == nullptr) die("the blocks of this kernel cannot wait");
      grid->arrive_and_wait();
    }
    release(0, count_);
  }
}

// Blocks that have been used keep their stacks for the next launch.
class Pool {
 public:
  std::unique_ptr<Block> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Block>();
    auto one = std::move(free_.back());
    free_.pop_back();
    return one;
  }
  void give(std::unique_ptr<Block> one) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(one));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> free_;
};

Pool& pool() {
  static Pool all;
  return all;
}

}  // namespace

void meet(Together whom, int kind) {
  Fiber& fiber = block->current();
  fiber.waits = whom;
  fiber.kind = kind;
  if (whom == Together::kWarp) fiber.parity ^= 1U;
  block->yield();
}

Lanes& lanes() { return block->warp().lanes[block->current().parity]; }
unsigned lane() { return block->current().number % 32; }

void run(const Launch& launch, const std::function<void()>& kernel) {
  const unsigned count = launch.grid.x * launch.grid.y * launch.grid.z;
  if (launch.block.y != 1 || launch.block.z != 1) die("blocks have one row");
  if (!launch.together) {
    auto one = pool().take();
    for (unsigned i = 0; i < count; ++i) one->run(launch, i, nullptr, kernel);
    pool().give(std::move(one));
    return;
  }
  std::barrier<> grid(count);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      auto one = pool().take();
      one->run(launch, i, &grid, kernel);
      grid.arrive_and_drop();
      pool().give(std::move(one));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

namespace {

std::mutex memory_mutex;
std::map<void*, std::pair<void*, std::size_t>> memory;  // -> mapping, bytes

}  // namespace

void* allocate(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t room = (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256;
  const std::size_t mapped = (room + page - 1) / page * page + page;
  void* all = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* end = static_cast<std::byte*>(all) + mapped - page;
  mprotect(end, page, PROT_NONE);
  // Large ones are rings and scratch of which most is never used.
  std::memset(end - room, 0xcd, std::min(room, std::size_t{1} << 16));
  const std::lock_guard lock(memory_mutex);
  memory[end - room] = {all, mapped};
  return end - room;
}

void release(void* address) {
  if (address == nullptr) return;
  const std::lock_guard lock(memory_mutex);
  const auto at = memory.find(address);
  if (at == memory.end()) die("memory is freed that was never allocated");
  munmap(at->second.first, at->second.second);
  memory.erase(at);
}

}  // namespace sluice::cuda_on_host
