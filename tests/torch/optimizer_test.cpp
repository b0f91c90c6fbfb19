#include "sluice/torch/optim/optimizer.h"

#include <cmath>
#include <limits>

#include "files.h"

namespace sluice::testing {
namespace {

using Invalid = std::invalid_argument;

// A matrix and a vector, whose gradients pull towards 0 in odd ways.
NamedTensors make_parameters() {
  const auto matrix = torch::arange(6, torch::kFloat32).reshape({2, 3}) / 7 + 1;
  const auto vector = torch::tensor({1.0F, -2.0F, 3.0F});
  return {{"fc.weight", matrix.clone().requires_grad_()},
          {"fc.bias", vector.clone().requires_grad_()}};
}

void set_gradients(const NamedTensors& parameters, double scale) {
  for (const NamedTensor& item : parameters) {
    torch::Tensor tensor = item.tensor;
    tensor.mutable_grad() = (tensor.detach() * scale).sin();
  }
}

bool equal(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || !torch::equal(a[i].tensor, b[i].tensor)) {
      return false;
    }
  }
  return true;
}

class EveryOptimizer : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryOptimizer, ResumesBitForBit) {
  const auto through = make_parameters();
  const auto first = make_optimizer(GetParam(), through);
  for (int step = 1; step <= 5; ++step) {
    set_gradients(through, step);
    first->step(0.1 / step);
  }
  const auto resumed = make_parameters();
  copy_into("test", through, resumed);
  const auto second = make_optimizer(GetParam(), resumed);
  second->load_state(first->state());
  EXPECT_TRUE(equal(first->state(), second->state()));
  for (int step = 6; step <= 10; ++step) {
    set_gradients(through, step);
    set_gradients(resumed, step);
    first->step(0.1);
    second->step(0.1);
  }
  EXPECT_TRUE(equal(through, resumed));
  EXPECT_TRUE(equal(first->state(), second->state()));
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryOptimizer,
    ::testing::Values("sgd", "sgd:momentum=0", "sgd:nesterov=true",
                      "sgd:weight_decay=0.1,decay_1d=false", "adam",
                      "adam:weight_decay=0.1", "adamw", "adamw:decay_1d=false",
                      "bertadam", "bertadam:clip=0", "lamb",
                      "lamb:weight_decay=0.1,trust_1d=true",
                      "lamb:bias_correction=false"));

template <class Engine, class Options>
void expect_bits_of(const char* name, const Options& options) {
  const auto ours = make_parameters();
  const auto theirs = make_parameters();
  const auto optimizer = make_optimizer(name, ours);
  Engine engine({theirs[0].tensor, theirs[1].tensor}, options);
  for (int step = 1; step <= 5; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    optimizer->step(0.1);
    engine.step();
    EXPECT_TRUE(equal(ours, theirs)) << name << " in step " << step;
  }
}

TEST(Optimizers, HaveTheBitsOfTorchs) {
  using namespace torch::optim;  // NOLINT: five names of it
  expect_bits_of<SGD>("sgd:momentum=0", SGDOptions(0.1));
  expect_bits_of<SGD>("sgd:weight_decay=0.1",
                      SGDOptions(0.1).momentum(0.9).weight_decay(0.1));
  expect_bits_of<SGD>("sgd:nesterov=true",
                      SGDOptions(0.1).momentum(0.9).nesterov(true));
  expect_bits_of<torch::optim::Adam>("adam", AdamOptions(0.1));
  expect_bits_of<torch::optim::Adam>("adam:weight_decay=0.1",
                                     AdamOptions(0.1).weight_decay(0.1));
  expect_bits_of<torch::optim::AdamW>("adamw",
                                      AdamWOptions(0.1).weight_decay(0.01));
}

// The fused kernels of a device, on the host: it is `skip` that asks for them.
TEST_P(EveryOptimizer, SkipsWithoutAskingTheHost) {
  const auto plain = make_parameters();
  const auto fused = make_parameters();
  const auto first = make_optimizer(GetParam(), plain);
  const auto second = make_optimizer(GetParam(), fused);
  for (int step = 1; step <= 5; ++step) {
    set_gradients(plain, step);
    set_gradients(fused, step);
    first->step(0.1);
    second->step(0.1, find_nonfinite(fused));
    fused[1].tensor.mutable_grad()[1] = std::numeric_limits<double>::infinity();
    second->step(0.1, find_nonfinite(fused));
  }
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(torch::allclose(plain[i].tensor, fused[i].tensor, 1e-4, 1e-5));
  }
  const auto state = first->state();
  for (const NamedTensor& item : second->state()) {
    EXPECT_TRUE(
        torch::allclose(find_tensor(state, item.name), item.tensor, 1e-4, 1e-5))
        << item.name;
  }
}

TEST_P(EveryOptimizer, MovesAlikeOnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const auto host = make_parameters();
  NamedTensors device = make_parameters();
  for (NamedTensor& item : device) {
    item.tensor = item.tensor.detach().to(torch::kCUDA).requires_grad_();
  }
  const auto first = make_optimizer(GetParam(), host);
  const auto second = make_optimizer(GetParam(), device);
  for (int step = 1; step <= 5; ++step) {
    set_gradients(host, step);
    set_gradients(device, step);
    clip_tensors(host, 0.8);
    clip_tensors_on_device(device, 0.8);
    first->step(0.1);
    second->step(0.1, step % 2 == 0 ? find_nonfinite(device) : torch::Tensor());
  }
  for (std::size_t i = 0; i < host.size(); ++i) {
    EXPECT_TRUE(
        torch::allclose(host[i].tensor, device[i].tensor.cpu(), 1e-4, 1e-5));
  }
}

TEST(Optimizer, TakesAStateOfAnotherMemoryFormat) {
  const auto weight = [](at::MemoryFormat format) {
    const auto values =
        torch::arange(48, torch::kFloat32).reshape({2, 3, 2, 4});
    return NamedTensors{{"w", values.contiguous(format).requires_grad_()}};
  };
  const auto plain = weight(at::MemoryFormat::Contiguous);
  const auto last = weight(at::MemoryFormat::ChannelsLast);
  const auto first = make_optimizer("sgd", plain);
  const auto second = make_optimizer("sgd", last);
  set_gradients(plain, 1);
  set_gradients(last, 1);
  first->step(0.1);
  second->step(0.1);
  second->load_state(first->state());
  set_gradients(plain, 2);
  set_gradients(last, 2);
  first->step(0.1);
  second->step(0.1, find_nonfinite(last));
  EXPECT_TRUE(torch::allclose(plain[0].tensor, last[0].tensor));
}

TEST(Sgd, FollowsItsFormula) {
  for (const bool nesterov : {false, true}) {
    const auto parameters = make_parameters();
    const auto optimizer =
        make_optimizer(nesterov ? "sgd:nesterov=true,weight_decay=0.25"
                                : "sgd:weight_decay=0.25",
                       parameters);
    torch::Tensor p = parameters[0].tensor.detach().clone();
    torch::Tensor m;
    for (int step = 1; step <= 3; ++step) {
      set_gradients(parameters, step);
      const auto d = parameters[0].tensor.grad() + 0.25 * p;
      m = m.defined() ? 0.9 * m + d : d;
      p = p - 0.5 * (nesterov ? d + 0.9 * m : m);
      optimizer->step(0.5);
    }
    EXPECT_TRUE(torch::allclose(parameters[0].tensor.detach(), p));
  }
}

// The numbers are those of optimizer_reference.py.
void expect_after_five_steps(const char* name, const std::vector<float>& weight,
                             const std::vector<float>& bias) {
  const auto parameters = make_parameters();
  const auto optimizer = make_optimizer(name, parameters);
  for (int step = 1; step <= 5; ++step) {
    set_gradients(parameters, step);
    optimizer->step(0.1);
  }
  const auto is = [](const torch::Tensor& got, const std::vector<float>& want) {
    return torch::allclose(got.detach().reshape({-1}), torch::tensor(want),
                           1e-5, 2e-6);
  };
  EXPECT_TRUE(is(parameters[0].tensor, weight)) << parameters[0].tensor;
  EXPECT_TRUE(is(parameters[1].tensor, bias)) << parameters[1].tensor;
}

TEST(BertAdam, HasTheNumbersOfTheReference) {
  expect_after_five_steps("bertadam",
                          {-0.4224046F, -0.5796161F, -0.6990698F, -0.6302726F,
                           -0.4876082F, -0.3566693F},
                          {-0.4284049F, -1.5333108F, 3.4123744F});
}

TEST(Lamb, HasTheNumbersOfTheReference) {
  expect_after_five_steps(
      "lamb",
      {0.2021749F, 0.3956621F, 0.7829482F, 1.1289613F, 1.3378673F, 1.4900220F},
      {0.5300544F, -1.8645651F, 2.9480978F});
  expect_after_five_steps(
      "lamb:bias_correction=false",
      {0.2003561F, 0.3946748F, 0.7848962F, 1.1332324F, 1.3427044F, 1.4961264F},
      {-0.5324448F, -1.5460870F, 3.3263644F});
}

// The weights of one tensor, 4 of `value`, after a step of `name`.
double after_one_step(const char* name, double value, double gradient,
                      const torch::Tensor& skip = {}) {
  const NamedTensors one = {{"w", torch::full({2, 2}, value).requires_grad_()}};
  torch::Tensor weight = one[0].tensor;
  weight.mutable_grad() = torch::full({2, 2}, gradient);
  make_optimizer(name, one)->step(0.5, skip);
  return weight[0][0].item<double>();
}

TEST(Lamb, TrustsWithinItsLimitsOnly) {
  // Adam's first step is 1 in each of four weights, of norm 2.
  const char* plain = "lamb:weight_decay=0";
  for (const torch::Tensor& fused : {torch::Tensor(), torch::zeros({1})}) {
    EXPECT_NEAR(after_one_step(plain, 3, 0.1, fused), 3 - 0.5 * 3, 1e-4);
    EXPECT_NEAR(after_one_step(plain, 40, 0.1, fused), 40 - 0.5 * 10, 1e-4);
    EXPECT_NEAR(after_one_step("lamb:weight_decay=0,least=2", 1, 0.1, fused),
                1 - 0.5 * 2, 1e-4);
    // No weights, or no step: a trust of 1.
    EXPECT_NEAR(after_one_step(plain, 0, 0.1, fused), -0.5, 1e-4);
    EXPECT_EQ(after_one_step(plain, 3, 0, fused), 3);
  }
  EXPECT_EQ(message_of<Invalid>(
                [] { make_optimizer("lamb:least=20", make_parameters()); }),
            "[optimizer 'lamb'] least must not be above most, got 20 and 10; "
            "use lamb:least=0,most=10");
}

TEST(Optimizer, LeavesOneDimensionUndecayedIfToldTo) {
  for (const char* name : {"sgd", "adam", "adamw", "bertadam", "lamb"}) {
    for (const bool decay_1d : {false, true}) {
      const auto parameters = make_parameters();
      const auto optimizer = make_optimizer(
          std::string(name) +
              ":weight_decay=0.5,decay_1d=" + (decay_1d ? "true" : "false"),
          parameters);
      const auto before = make_parameters();
      for (const NamedTensor& item : parameters) {
        torch::Tensor tensor = item.tensor;
        tensor.mutable_grad() = torch::zeros_like(tensor);
      }
      optimizer->step(0.1);
      EXPECT_FALSE(torch::equal(parameters[0].tensor, before[0].tensor));
      EXPECT_EQ(torch::equal(parameters[1].tensor, before[1].tensor), !decay_1d)
          << name;
    }
  }
}

TEST(Optimizer, ZeroesGradientsInPlace) {
  const auto parameters = make_parameters();
  set_gradients(parameters, 1);
  const void* where = parameters[0].tensor.grad().data_ptr();
  make_optimizer("sgd", parameters)->zero_gradients();
  EXPECT_EQ(parameters[0].tensor.grad().data_ptr(), where);
  EXPECT_EQ(gradient_norm(parameters), 0);
}

TEST(Optimizer, SkipsParametersWithoutGradient) {
  const auto parameters = make_parameters();
  const auto before = make_parameters();
  const auto optimizer = make_optimizer("sgd", parameters);
  optimizer->step(0.1);
  EXPECT_TRUE(equal(parameters, before));
  EXPECT_TRUE(optimizer->state().empty());
}

TEST(Optimizer, RefusesAStateOfAnother) {
  const auto parameters = make_parameters();
  const auto sgd = make_optimizer("sgd", parameters);
  const auto adam = make_optimizer("adam", parameters);
  set_gradients(parameters, 1);
  sgd->step(0.1);
  adam->step(0.1);
  EXPECT_EQ(message_of<Invalid>([&] { adam->load_state(sgd->state()); }),
            "[load_state] 'fc.weight/momentum' must be the state of a "
            "parameter, but there is none such; was it another model or "
            "optimizer?");
  auto state = adam->state();
  std::swap(state[1].tensor, state[4].tensor);
  EXPECT_EQ(message_of<Invalid>([&] { adam->load_state(state); }),
            "[load_state] 'fc.weight/mean' must be [2, 3] of float as its "
            "parameter is, got [3] of float; was it another model?");
  state = adam->state();
  state.erase(state.begin());
  EXPECT_CONTAINS(message_of<Invalid>([&] { adam->load_state(state); }),
                  "'fc.weight/' must have a step (one int64), a mean");
  EXPECT_EQ(adam->state().size(), 6U) << "the old state is kept";
}

TEST(Clipping, ScalesTheGlobalNorm) {
  const auto parameters = make_parameters();
  set_gradients(parameters, 1);
  const double norm = gradient_norm(parameters);
  double squares = 0;
  for (const NamedTensor& item : parameters) {
    squares += item.tensor.grad().square().sum().item<double>();
  }
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-6);
  const auto before = parameters[0].tensor.grad().clone();
  EXPECT_EQ(clip_gradients(parameters, norm + 1), norm);
  EXPECT_TRUE(torch::equal(parameters[0].tensor.grad(), before));
  EXPECT_EQ(clip_gradients(parameters, 0.25), norm);
  EXPECT_NEAR(gradient_norm(parameters), 0.25, 1e-7);
  EXPECT_TRUE(
      torch::allclose(parameters[0].tensor.grad(), before * (0.25 / norm)));
  // Gradients with strides of their own.
  torch::Tensor turned = torch::ones({3, 2}).requires_grad_();
  turned.mutable_grad() = torch::full({2, 3}, 2.0F).t();
  EXPECT_NEAR(gradient_norm({{"x", turned}}), std::sqrt(24.0), 1e-12);
}

TEST(Clipping, ScalesTensorsByThemselves) {
  const auto norms = [](const NamedTensors& of) {
    return std::pair(tensor_norm(of[0].tensor.grad()),
                     tensor_norm(of[1].tensor.grad()));
  };
  const auto host = make_parameters();
  const auto device = make_parameters();
  for (const auto& parameters : {host, device}) {
    set_gradients(parameters, 1);
    parameters[0].tensor.grad().mul_(100);
  }
  const auto [matrix, vector] = norms(host);
  EXPECT_GT(matrix, 200);
  EXPECT_LT(vector, 2);
  EXPECT_EQ(clip_tensors(host, 2), matrix);
  EXPECT_NEAR(norms(host).first, 2, 1e-6);
  EXPECT_EQ(norms(host).second, vector);
  clip_tensors_on_device(device, 2);
  for (std::size_t i = 0; i < host.size(); ++i) {
    EXPECT_TRUE(
        torch::allclose(host[i].tensor.grad(), device[i].tensor.grad()));
  }
  // What is not finite stays, the others do not.
  for (const auto& parameters : {host, device}) {
    parameters[0].tensor.mutable_grad()[0][0] =
        std::numeric_limits<double>::quiet_NaN();
  }
  EXPECT_TRUE(std::isnan(clip_tensors(host, 0.5)));
  clip_tensors_on_device(device, 0.5);
  for (const auto& parameters : {host, device}) {
    EXPECT_TRUE(std::isnan(norms(parameters).first));
    EXPECT_NEAR(norms(parameters).second, 0.5, 1e-6);
  }
  EXPECT_EQ(message_of<Invalid>([&] { clip_tensors(host, -1); }),
            "[clip_gradients] the norm must be above 0, got -1");
  // Nothing to clip, and gradients of 0.
  EXPECT_EQ(clip_tensors(make_parameters(), 1), 0);
  clip_tensors_on_device(make_parameters(), 1);
  const auto zero = make_parameters();
  set_gradients(zero, 0);
  clip_tensors_on_device(zero, 1);
  EXPECT_EQ(gradient_norm(zero), 0);
}

TEST(Clipping, DoesNotDependOnThreads) {
  torch::Tensor x = torch::zeros({300007}).requires_grad_();
  x.mutable_grad() = torch::sin(torch::arange(300007, torch::kFloat32));
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const double one = gradient_norm({{"x", x}});
  torch::set_num_threads(4);
  EXPECT_EQ(gradient_norm({{"x", x}}), one);
  torch::set_num_threads(threads);
}

TEST(Clipping, LeavesWhatIsNotFinite) {
  const auto parameters = make_parameters();
  set_gradients(parameters, 1);
  torch::Tensor gradient = parameters[1].tensor.grad();
  gradient[0] = std::numeric_limits<float>::infinity();
  const auto before = parameters[0].tensor.grad().clone();
  EXPECT_FALSE(std::isfinite(clip_gradients(parameters, 1)));
  EXPECT_TRUE(torch::equal(parameters[0].tensor.grad(), before));
  EXPECT_EQ(message_of<Invalid>([&] { clip_gradients(parameters, 0); }),
            "[clip_gradients] the norm must be above 0, got 0");
}

TEST(Clipping, IsTheSameOnADevice) {
  const auto host = make_parameters();
  const auto device = make_parameters();
  for (const double most : {0.5, 100.0}) {
    set_gradients(host, 2);
    set_gradients(device, 2);
    clip_gradients(host, most);
    clip_on_device(device, most);
    for (std::size_t i = 0; i < host.size(); ++i) {
      EXPECT_TRUE(
          torch::allclose(host[i].tensor.grad(), device[i].tensor.grad()));
    }
  }
  device[0].tensor.mutable_grad()[0][0] =
      std::numeric_limits<double>::infinity();
  const torch::Tensor before = device[1].tensor.grad().clone();
  clip_on_device(device, 0.5);
  EXPECT_TRUE(torch::equal(device[1].tensor.grad(), before));
}

TEST(Optimizers, SayWhatWouldWork) {
  const auto complaint = [](std::string_view text) {
    return message_of<Invalid>(
        [&] { make_optimizer(text, make_parameters()); });
  };
  EXPECT_EQ(complaint("rmsprop"),
            "[make_optimizer] no optimizer 'rmsprop'; known: sgd adam adamw "
            "bertadam lamb");
  EXPECT_CONTAINS(complaint("sgd:lr=0.1"),
                  "[optimizer 'sgd'] no parameter 'lr'; known: momentum");
  EXPECT_CONTAINS(complaint("adam:beta2=1"), "must lie in [0, 0.999999]");
  EXPECT_EQ(complaint("sgd:momentum=0,nesterov=true"),
            "[optimizer 'sgd'] nesterov needs a momentum above 0, got 0; use "
            "sgd:momentum=0.9,nesterov=true");
  EXPECT_CONTAINS(message_of<Invalid>([] { make_optimizer("sgd", {}); }),
                  "there must be a parameter, got none");
  const auto same = make_parameters();
  EXPECT_CONTAINS(message_of<Invalid>([&] {
                    make_optimizer("sgd", {same[0], same[0]});
                  }),
                  "got 'fc.weight' twice");
  EXPECT_EQ(make_optimizer("adamw", same) != nullptr, true);
  for (const auto& entry : optimizers()) {
    EXPECT_FALSE(entry.describe().parameters.empty());
  }
}

}  // namespace
}  // namespace sluice::testing
