#include "sluice/comm/device_link.h"

// Nothing is exchanged of nothing, which need not have memory.

namespace sluice {

void DeviceLink::all_gather(Stream& stream, const void* mine, void* all,
                            std::size_t bytes) {
  if (bytes == 0) return;
  enqueue_all_gather(stream, mine, all, bytes);
  count(others() * bytes, others());
}

void DeviceLink::all_to_all(Stream& stream, const void* out, void* in,
                            std::size_t bytes) {
  if (bytes == 0) return;
  enqueue_all_to_all(stream, out, in, bytes);
  count(others() * bytes, others());
}

void DeviceLink::sum(Stream& stream, const float* in, float* out,
                     std::size_t n) {
  if (n == 0) return;
  enqueue_sum(stream, in, out, n);
  count(2 * n * sizeof(float) * others() / comm_.size(), 2 * others());
}

void DeviceLink::count(std::size_t bytes, std::size_t messages) {
  comm_.count_traffic({bytes, bytes, messages});
}

}  // namespace sluice
