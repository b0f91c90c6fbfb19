#pragma once

#include "sluice/backend/cuda/passes.h"
#include "sluice/backend/cuda/select.h"
#include "sluice/backend/cuda/wire.h"
#include "sluice/backend/memory.h"

namespace sluice::cuda {

// A CUDA stream and what passes on it need for themselves.
struct CudaStream final : public Stream {
  CudaStream();
  ~CudaStream() override;

  cudaStream_t handle;
  Uploads uploads;
  Selector selector;
  PassScratch scratch;
  WireEncoder encoder;
  WireDecoder decoder;
};

inline CudaStream& as_cuda(Stream& stream) {
  return dynamic_cast<CudaStream&>(stream);
}

}  // namespace sluice::cuda
