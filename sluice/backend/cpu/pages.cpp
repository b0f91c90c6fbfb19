#include <sys/mman.h>

#include <atomic>
#include <new>

#include "sluice/backend/cpu/scratch.h"

namespace sluice::cpu {
namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
std::atomic<std::size_t> mapped{0};
}  // namespace

void* map_pages(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  mapped.fetch_add(1, std::memory_order_relaxed);
  // A hint: without huge pages everything works, only slower.
  if (bytes >= 2 * kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void unmap_pages(void* data, std::size_t bytes) {
  if (data != nullptr) munmap(data, bytes);
}

std::size_t pages_mapped() { return mapped.load(std::memory_order_relaxed); }

}  // namespace sluice::cpu
