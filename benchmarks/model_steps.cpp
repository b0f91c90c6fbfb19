// Forward and backward of a model, for benchmarks/models.py, which runs the
// same network in Python beside it.
//
//   sluice_model_steps MODEL THREADS KIND NUMBERS...
//
// Kind and numbers are those of make_job (tests/torch/model_job.h). For every
// number N on the standard input it runs N steps and prints a line with the
// seconds of each: of the clock, then of the processors.

#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <iostream>

#include "tests/torch/model_job.h"

namespace {

using namespace sluice;

void run(testing::ModelJob& job) {
  job.model().zero_grad();
  job.loss(job.scores()).backward();
}

void run_and_print(testing::ModelJob& job) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const std::clock_t begin = std::clock();
  run(job);
  const double busy =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> taken = Clock::now() - start;
  std::printf("%.9f %.9f ", taken.count(), busy);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) {
    std::cerr << "usage: sluice_model_steps MODEL THREADS KIND NUMBERS...\n";
    return 2;
  }
  at::set_num_threads(std::stoi(argv[2]));
  std::vector<std::int64_t> numbers;
  for (int i = 4; i < argc; ++i) numbers.push_back(std::stoll(argv[i]));
  const auto job = testing::make_job(argv[1], argv[3], numbers);
  job->convert(torch::kFloat);
  for (int count; std::cin >> count;) {
    for (int i = 0; i < count; ++i) run_and_print(*job);
    std::printf("\n");
    std::fflush(stdout);
  }
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
