// Forward and backward of a model, for benchmarks/models.py, which runs the
// same network in Python beside it.
//
//   sluice_model_steps MODEL CHANNELS HEIGHT WIDTH CLASSES BATCH THREADS
//
// For every number N on the standard input it runs N steps and prints a line
// with the seconds of each: of the clock, then of the processors.

#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <iostream>

#include "sluice/torch/models/model.h"

namespace {

using namespace sluice;

class Steps {
 public:
  Steps(const std::string& text, const ImageInput& input, std::int64_t batch)
      : model_(make_model(text, input)),
        images_(
            torch::randn({batch, input.channels, input.height, input.width})),
        labels_(torch::arange(batch) % input.classes) {}

  void run() {
    model_->zero_grad();
    torch::cross_entropy_loss(model_->forward(images_), labels_).backward();
  }

 private:
  std::shared_ptr<Model> model_;
  torch::Tensor images_;
  torch::Tensor labels_;
};

void run_and_print(Steps& steps) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const std::clock_t begin = std::clock();
  steps.run();
  const double busy =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> taken = Clock::now() - start;
  std::printf("%.9f %.9f ", taken.count(), busy);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 8) {
    std::cerr << "usage: sluice_model_steps MODEL CHANNELS HEIGHT WIDTH "
                 "CLASSES BATCH THREADS\n";
    return 2;
  }
  const auto number = [&](int i) { return std::stoll(argv[i]); };
  at::set_num_threads(static_cast<int>(number(7)));
  Steps steps(argv[1], {number(2), number(3), number(4), number(5)}, number(6));
  for (int count; std::cin >> count;) {
    for (int i = 0; i < count; ++i) run_and_print(steps);
    std::printf("\n");
    std::fflush(stdout);
  }
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
