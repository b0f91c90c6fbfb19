#include "sluice/python/hook.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sluice/comm/c10d/c10d.h"
#include "sluice/comm/communicator.h"
#include "sluice/comm/emulated/emulated.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

TranslateError translate_error = [](const std::exception_ptr& e) { return e; };

std::vector<TensorInfo> checked(const NamedTensors& parameters) {
  require(!parameters.empty(),
          "[attach] there must be a parameter that requires a gradient");
  const c10::Device device = parameters[0].tensor.device();
  for (const NamedTensor& p : parameters) {
    require(p.tensor.device() == device,
            "[attach] parameters must be on one device, got '", p.name, "' on ",
            p.tensor.device().str(), " beside ", device.str());
  }
  require(device.is_cpu() || device.is_cuda(),
          "[attach] parameters must be on the CPU or a CUDA GPU, got ",
          device.str());
  return describe_tensors("attach", parameters);
}

// What gradients, or a bucket of them, hold once the step is done. By the
// stream of the calling thread.
void settle_values(at::Tensor values, bool committed,
                   const BucketHook::Scale& scale) {
  if (committed && !scale) return;
  const c10::DeviceGuard guard(values.device());
  if (!committed) {
    values.fill_(std::numeric_limits<float>::quiet_NaN());
    return;
  }
  values.mul_(*scale);
  // It was made by the stream of another thread, which may use its memory for
  // something else as soon as it is gone.
  const c10::Device device = scale->device();
  if (device.is_cpu()) return;
  scale->record_stream(
      c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

// Its elements in the order in which the parameter lies, as DDP's buckets have
// them, so that what is kept of one goes with the other.
at::Tensor in_order_of(const at::Tensor& parameter,
                       const at::Tensor& gradient) {
  if (parameter.is_contiguous()) return gradient;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(parameter.dim()));
  std::iota(dims.begin(), dims.end(), 0);
  std::ranges::stable_sort(dims, [&](std::int64_t a, std::int64_t b) {
    return parameter.stride(a) > parameter.stride(b);
  });
  return gradient.permute(dims);
}

}  // namespace

void set_error_translation(TranslateError translate) {
  translate_error = translate;
}

std::unique_ptr<Engine> make_hook_engine(const Group& group, const Group& sums,
                                         const std::string& settings) {
  const auto network_in = nlohmann::json::parse(settings)["net"];
  // What is no text is refused with the other settings.
  const std::string network =
      network_in.is_string() ? network_in.get<std::string>() : "";
  if (network.empty()) return make_c10d_engine(group, sums, "");
  auto engine = make_c10d_engine(group, sums, "emulate=" + network);
  const Link link = parse_link(network);
  require(engine->local_size() == engine->size(),
          "[attach] a network is emulated between ranks of one machine, got ",
          engine->local_size(), " of ", engine->size(),
          " here; leave 'emulate' out");
  return make_emulated(std::move(engine), link);
}

BucketHook::BucketHook(std::unique_ptr<Engine> engine,
                       const NamedTensors& parameters,
                       const std::string& settings) {
  std::vector<TensorInfo> tensors = checked(parameters);
  for (const NamedTensor& p : parameters) {
    tensor_of_[p.tensor.unsafeGetTensorImpl()] = parameters_.size();
    parameters_.push_back(p.tensor);
  }
  require(tensor_of_.size() == parameters_.size(),
          "[attach] every parameter must come once, under one name");
  std::optional<int> gpu;
  const c10::Device device = parameters_[0].device();
  if (device.is_cuda()) gpu = device.index();
  runner_ = std::make_unique<SyncRunner>(std::move(engine), gpu,
                                         std::move(tensors), settings);
}

std::vector<SyncRunner::Gradient> BucketHook::gradients_of(
    const Tensors& parameters, const Tensors& gradients,
    const MemoryOwner& scratch) const {
  std::vector<SyncRunner::Gradient> out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto known = tensor_of_.find(parameters[i].unsafeGetTensorImpl());
    require(known != tensor_of_.end(),
            "[sync] gradients must be of parameters that were there when "
            "sluice was attached, got one of ",
            parameters[i].sizes(), "; attach to the model as it is now");
    require(gradients[i].layout() == c10::kStrided,
            "[sync] gradients must be dense tensors, but that of '",
            runner_->names()[known->second],
            "' is sparse; Embedding(sparse=False) makes dense ones");
    out.push_back({known->second, view_of(gradients[i]), {}, scratch});
  }
  if (!gradients.empty()) {
    const Event event = event_after(gradients[0]);
    for (auto& gradient : out) gradient.event = event;
  }
  return out;
}

BucketHook::Future BucketHook::announce(c10d::GradBucket& bucket,
                                        const c10::IValue& value,
                                        const Scale& scale, const Ways& ways) {
  at::Tensor buffer = bucket.getBuffer();
  require(buffer.layout() == c10::kStrided,
          "[sync] gradients must be dense tensors, but a bucket's is sparse; "
          "Embedding(sparse=False) makes dense ones");
  if (scale) buffer.div_(*scale);
  std::vector<c10::Device> devices;
  if (!buffer.device().is_cpu()) devices.push_back(buffer.device());
  auto future = c10::make_intrusive<c10::ivalue::Future>(
      c10::PyObjectType::get(), std::move(devices));
  // Of its memory alone: who lets go of a tensor of Python's last needs the
  // interpreter's lock.
  const auto owner =
      ways.scratch ? std::make_shared<const c10::Storage>(buffer.storage())
                   : nullptr;
  Brought brought = {bucket.getParameters(), bucket.getGradients(), scale,
                     ways.drops_unused};
  try {
    runner_->announce(
        gradients_of(brought.parameters, brought.gradients, owner),
        to(future, value, buffer, brought));
  } catch (...) {
    brought.scale_back();
    throw;
  }
  // DDP announces its buckets in order, whichever is ready first.
  if (bucket.isLast()) runner_->expect_all();
  if (ways.drops_unused) {
    hand_over_behind(brought, bucket.getIndex() == 0, bucket.isLast());
  }
  return future;
}

SyncRunner::Done BucketHook::to(const Future& future, const c10::IValue& value,
                                const at::Tensor& buffer, Brought brought) {
  return [this, future, value, buffer,
          brought = std::move(brought)](const SyncRunner::Outcome& outcome) {
    if (outcome.error != nullptr) {
      keep(outcome.error, brought.as_it_lies());
      future->setError(translate_error(outcome.error));
      return;
    }
    settle_values(buffer, outcome.report.committed, brought.scale);
    future->markCompleted(value);
  };
}

// A step may be made after all if ranks are lost; else it is not.
void BucketHook::keep(const std::exception_ptr& error, Brought brought) {
  try {
    std::rethrow_exception(error);
  } catch (const CommError&) {
    failed_.push_back(std::move(brought));
  } catch (const std::exception&) {
    brought.scale_back();
  }
}

// A bucket gives gradients as if all parameters were contiguous, but has their
// elements in the order of their memory.
BucketHook::Brought BucketHook::Brought::as_it_lies() const {
  Brought out = *this;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& p = parameters[i];
    out.gradients[i] = gradients[i].as_strided(p.sizes(), p.strides());
  }
  return out;
}

void BucketHook::Brought::scale_back() {
  if (!scale) return;
  for (const at::Tensor& g : gradients) g.mul_(*scale);
  scale.reset();
}

// To the gradient itself, the one in the bucket, or what DDP has copied from.
void BucketHook::Brought::hand_over(std::size_t i) const {
  at::Tensor& now = parameters[i].mutable_grad();
  const at::Tensor& mean = gradients[i];
  if (now.defined()) {
    if (now.const_data_ptr() != mean.const_data_ptr()) now.copy_(mean);
  } else if (!drops_unused || mean.any().item<bool>()) {
    now = mean.clone();
  }
}

// DistributedDataParallel drops what came for parameters that no rank has used,
// which may be what was owed to them: hands it over behind it.
void BucketHook::hand_over_behind(const Brought& brought, bool first,
                                  bool last) {
  // What is left of a backward pass that did not come to its end.
  if (first) unused_.clear();
  unused_.push_back(brought.as_it_lies());
  if (!last) return;
  const auto hand_over = [all = std::exchange(unused_, {})] {
    const at::NoGradGuard guard;
    for (const Brought& b : all) {
      for (std::size_t i = 0; i < b.parameters.size(); ++i) {
        if (!b.parameters[i].grad().defined()) b.hand_over(i);
      }
    }
  };
  // Its own callback is queued behind this one, and the second behind that.
  auto& engine = torch::autograd::Engine::get_default_engine();
  engine.queue_callback(
      [&engine, hand_over] { engine.queue_callback(hand_over); });
}

BucketHook::Tensors BucketHook::own_gradients() {
  Tensors out;
  for (at::Tensor& p : parameters_) {
    at::Tensor& gradient = p.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(p);
    out.push_back(gradient);
  }
  return out;
}

// Waits for the end of the step, after which nothing writes to gradients. What
// `check` throws ends the step, and is the result.
std::exception_ptr BucketHook::wait_for(const std::future<bool>& step,
                                        const std::function<void()>& check) {
  constexpr auto kCheck = std::chrono::milliseconds(100);
  std::exception_ptr stop;
  try {
    while (check && step.wait_for(kCheck) != std::future_status::ready) check();
  } catch (...) {
    stop = std::current_exception();
    runner_->interrupt(concat("[sync] rank ", runner_->rank(),
                              " was told to stop in step ",
                              runner_->steps() + 1));
  }
  step.wait();
  return stop;
}

bool BucketHook::step(const Scale& scale, const std::function<void()>& check) {
  const at::NoGradGuard guard;
  const Tensors gradients = own_gradients();
  if (scale) {
    for (const at::Tensor& g : gradients) g.div_(*scale);
  }
  std::promise<bool> promise;
  std::exception_ptr stop;
  bool committed = false;
  try {
    Tensors in_order;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      in_order.push_back(in_order_of(parameters_[i], gradients[i]));
    }
    runner_->announce(gradients_of(parameters_, in_order, {}),
                      [&](const SyncRunner::Outcome& outcome) {
                        if (outcome.error != nullptr) {
                          promise.set_exception(outcome.error);
                        } else {
                          promise.set_value(outcome.report.committed);
                        }
                      });
    auto future = promise.get_future();
    stop = wait_for(future, check);
    committed = future.get();
  } catch (...) {
    keep(std::current_exception(), {parameters_, gradients, scale, false});
    if (stop) std::rethrow_exception(stop);
    throw;
  }
  for (const at::Tensor& g : gradients) settle_values(g, committed, scale);
  if (stop) std::rethrow_exception(stop);
  return committed;
}

bool BucketHook::recover() {
  const at::NoGradGuard guard;
  const bool committed = runner_->recover();
  for (Brought& b : failed_) {
    b.scale_back();
    if (!committed) continue;
    for (std::size_t i = 0; i < b.parameters.size(); ++i) b.hand_over(i);
  }
  return !std::exchange(failed_, {}).empty() && committed;
}

}  // namespace sluice
