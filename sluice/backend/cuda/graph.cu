#include <memory>

#include "sluice/backend/backend.h"
#include "sluice/backend/cuda/stream.h"

namespace sluice {
namespace {

using cuda::check;

struct Graph {
  ~Graph() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

}  // namespace

std::function<void()> cuda_capture(Stream& stream,
                                   const std::function<void()>& enqueue) {
  const cudaStream_t handle = cuda::as_cuda(stream).handle;
  const auto captured = std::make_shared<Graph>();
  check(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal),
        "to capture a stream");
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(handle, &captured->graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(handle, &captured->graph), "to capture a stream");
  check(cudaGraphInstantiate(&captured->executable, captured->graph, 0),
        "to make a graph");
  return [captured, handle] {
    check(cudaGraphLaunch(captured->executable, handle), "to launch a graph");
  };
}

}  // namespace sluice
