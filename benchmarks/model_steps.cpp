// Forward and backward of a model, for benchmarks/models.py, which runs the
// same network in Python beside it.
//
//   sluice_model_steps MODEL DEVICE THREADS KIND NUMBERS...
//
// Kind and numbers are those of make_job (tests/torch/model_job.h); device is
// cpu, or cuda, where a step is in bf16 by autocast. For every number N on the
// standard input it runs N steps and prints a line with the seconds of each: of
// the clock, then of the processors.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <iostream>

#include "sluice/torch/train/evaluation.h"
#include "tests/torch/model_job.h"

namespace {

using namespace sluice;

torch::Tensor forward(testing::ModelJob& job, const torch::Device& device) {
  const Autocast autocast(device.is_cuda(), device.type());
  return job.loss(job.scores());
}

void run(testing::ModelJob& job, const torch::Device& device) {
  job.model().zero_grad();
  forward(job, device).backward();
  if (device.is_cuda()) torch::cuda::synchronize();
}

void run_and_print(testing::ModelJob& job, const torch::Device& device) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const std::clock_t begin = std::clock();
  run(job, device);
  const double busy =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> taken = Clock::now() - start;
  std::printf("%.9f %.9f ", taken.count(), busy);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6) {
    std::cerr << "usage: sluice_model_steps MODEL DEVICE THREADS KIND "
                 "NUMBERS...\n";
    return 2;
  }
  const torch::Device device(argv[2]);
  at::globalContext().setAllowTF32CuBLAS(true);
  at::set_num_threads(std::stoi(argv[3]));
  std::vector<std::int64_t> numbers;
  for (int i = 5; i < argc; ++i) numbers.push_back(std::stoll(argv[i]));
  const auto job = testing::make_job(argv[1], argv[4], numbers);
  job->convert(torch::kFloat);
  job->move_to(device);
  for (int count; std::cin >> count;) {
    for (int i = 0; i < count; ++i) run_and_print(*job, device);
    std::printf("\n");
    std::fflush(stdout);
  }
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
