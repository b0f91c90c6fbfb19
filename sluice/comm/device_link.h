#pragma once

#include <cstddef>
#include <string_view>

#include "sluice/backend/memory.h"
#include "sluice/comm/communicator.h"

namespace sluice {

// Moves memory of a device between the ranks without the host. Exchanges are
// enqueued on a stream and return at once; all ranks enqueue the same ones in
// the same order. Beside a communicator, in whose calls they take place: its
// deadlines and errors are theirs, and it counts their bytes. Used by the same
// thread.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  virtual std::string_view name() const = 0;

  // These throw CommError if a rank is lost that must enqueue the same. The
  // stream may then wait for ever, until abort().

  // all[r] = what rank r gives, `bytes` from each; `mine` may be its place
  // there.
  void all_gather(Stream& stream, const void* mine, void* all,
                  std::size_t bytes);
  // in[r] = what rank r has for this one, `bytes` for each; no overlap.
  void all_to_all(Stream& stream, const void* out, void* in, std::size_t bytes);
  // out = the sum of n values over the ranks, the same bits everywhere; `out`
  // may be `in`. Counts as the bytes that it ideally takes.
  void sum(Stream& stream, const float* in, float* out, std::size_t n);

  // Blocks the host until the event is done, as long as the communicator's call
  // may take. Throws CommError.
  virtual void wait(const Event& event) = 0;

  // Ends everything that is enqueued, whose results are then undefined; nothing
  // can be enqueued before rebuild().
  virtual void abort() noexcept = 0;
  // After an error, on all ranks that go on, once the communicator is rebuilt.
  // A call of its own. Throws CommError.
  virtual void rebuild() = 0;

 protected:
  // `comm` must outlive it.
  explicit DeviceLink(Communicator& comm) : comm_(comm) {}

  Communicator& comm_;

 private:
  virtual void enqueue_all_gather(Stream& stream, const void* mine, void* all,
                                  std::size_t bytes) = 0;
  virtual void enqueue_all_to_all(Stream& stream, const void* out, void* in,
                                  std::size_t bytes) = 0;
  virtual void enqueue_sum(Stream& stream, const float* in, float* out,
                           std::size_t n) = 0;
  std::size_t others() const { return comm_.size() - 1; }
  void count(std::size_t bytes, std::size_t messages);
};

}  // namespace sluice
