// Stands in for the CUDA backend in builds without it.

#include <stdexcept>

#include "sluice/backend/backend.h"
#include "sluice/backend/clock.h"

namespace sluice {

std::string cuda_version() { return {}; }

std::string cuda_name(int) { return {}; }

std::string cuda_problem(int) {
  return "[cuda] this build has no CUDA; build it where nvcc is, with "
         "-DSLUICE_WITH_CUDA=ON";
}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  throw std::runtime_error(cuda_problem(options.device));
}

Event cuda_event(std::shared_ptr<const void>, void*) {
  throw std::runtime_error(cuda_problem(0));
}

std::function<void()> cuda_capture(Stream&, const std::function<void()>&) {
  throw std::runtime_error(cuda_problem(0));
}

std::unique_ptr<Clock> make_cuda_clock() {
  throw std::runtime_error(cuda_problem(0));
}

}  // namespace sluice
