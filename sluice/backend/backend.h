#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sluice/backend/memory.h"
#include "sluice/backend/pass.h"
#include "sluice/core/view.h"

namespace sluice {

// The passes over memory that every method is made of, on one device.
//
// Work is enqueued on a stream and runs in order; a result may be read on the
// host only after an event recorded behind it is done. A backend knows nothing
// of methods or ranks. Several threads may use an instance, each with a stream
// of its own; in steady state (same shapes, same density) no pass allocates.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // Whether its memory is the host's: what has run may be read in place.
  virtual bool is_host() const = 0;

  // Zeroed memory; `bytes` may be 0. Throws std::bad_alloc.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Of the host, in a way that the device copies from and to fast (pinned).
  virtual Buffer allocate_host(std::size_t bytes) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual Event record(Stream& stream) = 0;
  // Blocks the host until the event is done.
  virtual void wait(const Event& event) = 0;
  // What is enqueued from now on runs after the event, of whichever stream.
  virtual void wait(Stream& stream, const Event& event) = 0;

  // Host to device. `source` may be reused as soon as the call returns.
  virtual void copy_in(Stream& stream, void* target,
                       std::span<const std::byte> source) = 0;
  // Device to host. `target` is valid once a later event is done.
  virtual void copy_out(Stream& stream, std::span<std::byte> target,
                        const void* source) = 0;

  virtual void pack(Stream& stream, const PackPass& pass) = 0;
  virtual void fill(Stream& stream, float* target, std::size_t n,
                    float value) = 0;
  // *count (of the device) = how many of n values are not finite.
  virtual void count_nonfinite(Stream& stream, const float* values,
                               std::size_t n, std::uint64_t* count) = 0;
  virtual void select(Stream& stream, const SelectPass& pass) = 0;
  virtual void momentum(Stream& stream, const MomentumPass& pass) = 0;
  virtual void quantize(Stream& stream, const QuantizePass& pass) = 0;
  virtual void narrow(Stream& stream, const NarrowPass& pass) = 0;
  virtual void widen(Stream& stream, const WidenPass& pass) = 0;
  virtual void scatter(Stream& stream, const ScatterPass& pass) = 0;
  virtual void gather(Stream& stream, const GatherPass& pass) = 0;
  virtual void apply(Stream& stream, const ApplyPass& pass) = 0;
  virtual void encode(Stream& stream, const EncodePass& pass) = 0;
  virtual void decode(Stream& stream, const DecodePass& pass) = 0;
};

// Options of the CPU backend.
struct CpuOptions {
  // Threads of its pool; 0: one per core that the process may run on.
  std::size_t threads = 0;
  // "avx512", "avx2" or "portable"; empty: SLUICE_CPU if set, else the best
  // that this machine has.
  std::string isa;
};

// Throws std::invalid_argument for an unknown isa or one this machine lacks.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options = {});

// The isas this machine can run, best first.
std::span<const std::string_view> cpu_isas();

// Options of the CUDA backend.
struct CudaOptions {
  int device = 0;
};

// Of the toolkit that it was compiled with; empty if this build has none.
std::string cuda_version();

// What its maker calls a GPU; empty if there is none.
std::string cuda_name(int device = 0);

// Why that GPU cannot be used, in a sentence; empty if it can.
std::string cuda_problem(int device = 0);

// All work goes to streams of its own. Throws std::runtime_error with
// cuda_problem().
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

// An event of the CUDA runtime that someone else has recorded, as torch; for
// the streams of a CUDA backend. `owner` keeps it.
Event cuda_event(std::shared_ptr<const void> owner, void* handle);

// Captures what `enqueue` puts on a stream of a CUDA backend, as a CUDA graph,
// instead of running it. Each call of what it returns runs all of it once more,
// on that stream, which must outlive it, with the same arguments: memory keeps
// its place, values change. For all passes but encode and decode. They must
// have run before: memory cannot grow meanwhile. A stream that waits for an
// event of a stream that someone else captures takes part in that capture.
std::function<void()> cuda_capture(Stream& stream,
                                   const std::function<void()>& enqueue);

}  // namespace sluice
