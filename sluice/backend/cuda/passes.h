#pragma once

#include "sluice/backend/cuda/runtime.h"
#include "sluice/backend/pass.h"

// The passes over memory other than select and the wire, enqueued on a stream.

namespace sluice::cuda {

// Scratch of the passes of one stream.
struct PassScratch {
  Scratch partial;  // of norms
  Scratch scales;   // one per tensor
  Scratch dense;    // fp32 sums on their way to 16-bit tensors
};

void run_fill(cudaStream_t stream, float* target, std::size_t n, float value);
void run_count_nonfinite(cudaStream_t stream, const float* values,
                         std::size_t n, std::uint64_t* count);
void run_pack(cudaStream_t stream, Uploads& uploads, const PackPass& pass);
void run_momentum(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                  const MomentumPass& pass);
void run_quantize(cudaStream_t stream, Uploads& uploads,
                  const QuantizePass& pass);
void run_narrow(cudaStream_t stream, const NarrowPass& pass);
void run_widen(cudaStream_t stream, const WidenPass& pass);
void run_scatter(cudaStream_t stream, Uploads& uploads,
                 const ScatterPass& pass);
void run_gather(cudaStream_t stream, Uploads& uploads, const GatherPass& pass);
void run_apply(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
               const ApplyPass& pass);

}  // namespace sluice::cuda
