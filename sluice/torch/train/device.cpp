#include "sluice/torch/train/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <malloc.h>

#include <climits>
#include <cstdlib>

#include "sluice/core/ensure.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

// What a step gives back is wanted again in the next: glibc would return it to
// the kernel, and every page of it would fault anew. On 2 cores of an EPYC
// (2026-11-18) steps of lenet with batches of 256 took 16 or 24 ms, as it
// happened, and take 16 with this. Who has set limits in the environment keeps
// them.
void keep_memory() {
  if (std::getenv("MALLOC_MMAP_THRESHOLD_") != nullptr ||
      std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr) {
    return;
  }
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

}  // namespace

torch::Device device_of(const TrainConfig& config, std::size_t local_rank) {
  const DeviceChoice choice = parse_device(config.device);
  if (choice.is_cpu) return torch::kCPU;
  ensure(c10::impl::hasDeviceGuardImpl(torch::kCUDA), "[train] --device ",
         config.device,
         " needs a torch with CUDA, but this program was built "
         "with torch ",
         TORCH_VERSION,
         " for CPUs; build it with another, or use --device cpu");
  const auto count = static_cast<std::size_t>(torch::cuda::device_count());
  ensure(count > 0, "[train] --device ", config.device,
         " needs a GPU, but torch sees no GPU; nvidia-smi shows GPUs, and "
         "--device cpu works everywhere");
  const std::size_t number = choice.number.value_or(local_rank % count);
  ensure(number < count, "[train] --device ", config.device,
         " must be one of the ", count,
         " GPUs here, cuda:0 to cuda:", count - 1);
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(number)};
}

void set_up_device(const TrainConfig& config, const torch::Device& device,
                   bool shapes_vary) {
  if (device.is_cpu()) {
    keep_memory();
    return;
  }
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(config.tf32 == "on");
  context.setAllowTF32CuDNN(config.tf32 == "on");
  const bool repeats = config.deterministic == "on";
  // Where shapes stay the same the search pays for itself in a few steps, else
  // never; and what it finds depends on times.
  context.setBenchmarkCuDNN(!repeats && !shapes_vary);
  context.setDeterministicCuDNN(repeats);
  context.setDeterministicAlgorithms(repeats, /*warn_only=*/true);
}

std::string describe_device(const TrainConfig& config,
                            const torch::Device& device, bool through_host) {
  if (device.is_cpu()) {
    return config.tf32 == "on" ? "--tf32 on is for GPUs and changes nothing on "
                                 "the CPU"
                               : "";
  }
  return concat(
      "computing on ", device.str(), ": ", config.precision,
      config.tf32 == "on" ? " with" : " without", " TF32, ",
      config.channels_last == "on" ? "channels-last" : "contiguous",
      config.deterministic == "on" ? ", deterministic" : "",
      through_host
          ? "; gradients go through host memory, where they are selected"
          : "; gradients are selected there");
}

void with_memory(const torch::Device& device,
                 const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& e) {
    const std::string what = e.what_without_backtrace();
    if (what.find("out of memory") == std::string::npos) throw;
    throw std::runtime_error(
        concat("[train] ", device.str(),
               " must have memory for the model and a batch, but has none "
               "left; a smaller --batch-size (--accumulate keeps the step), "
               "--precision bf16 or fewer workers on it need less"));
  }
}

}  // namespace sluice
