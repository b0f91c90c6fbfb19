#pragma once

#include <vector>

#include "sluice/backend/cuda/pass_args.h"
#include "sluice/backend/cuda/runtime.h"

// The passes over memory other than select and the wire, enqueued on a stream.

namespace sluice::cuda {

// Scratch of the passes of one stream.
struct PassScratch {
  Scratch partial;  // of norms
  Scratch scales;   // one per tensor
  Scratch dense;    // fp32 sums on their way to 16-bit tensors
  // What the host writes and sends along; kept, so that no pass allocates.
  std::vector<Place> places;
  std::vector<MemoryRange> ranges;
  std::vector<Moving> moving;
  std::vector<Rounding> rounding;
};

void run_fill(cudaStream_t stream, float* target, std::size_t n, float value);
void run_count_nonfinite(cudaStream_t stream, const float* values,
                         std::size_t n, std::uint64_t* count);
void run_pack(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
              const PackPass& pass);
void run_momentum(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                  const MomentumPass& pass);
void run_quantize(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                  const QuantizePass& pass);
void run_narrow(cudaStream_t stream, const NarrowPass& pass);
void run_widen(cudaStream_t stream, const WidenPass& pass);
void run_scatter(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                 const ScatterPass& pass);
void run_gather(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                const GatherPass& pass);
void run_apply(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
               const ApplyPass& pass);

}  // namespace sluice::cuda
