#include "sluice/python/hook.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sluice/comm/c10d/c10d.h"
#include "sluice/comm/communicator.h"
#include "sluice/comm/emulated/emulated.h"
#include "sluice/core/error.h"
#include "sluice/python/wide_sum.h"

namespace sluice {
namespace {

TranslateError translate_error = [](const std::exception_ptr& e) { return e; };

void check_devices(const NamedTensors& parameters) {
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
}

bool is_wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble || tensor.is_complex();
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

// torch gives a bucket of complex gradients as real numbers, but takes it apart
// as if each gradient had half of them.
std::vector<at::Tensor> gradients_in(const c10d::GradBucket& bucket) {
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  const at::Tensor& buffer = bucket.getBuffer();
  if (!parameters[0].is_complex() || buffer.is_complex()) {
    return bucket.getGradients();
  }
  const at::Tensor values = at::view_as_complex(buffer.view({-1, 2}));
  std::vector<at::Tensor> out;
  std::int64_t at = 0;
  for (const at::Tensor& p : parameters) {
    out.push_back(values.narrow(0, at, p.numel()).view(p.sizes()));
    at += p.numel();
  }
  return out;
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
  check_devices(parameters);
  NamedTensors exchanged;
  for (const NamedTensor& p : parameters) {
    if (p.tensor.numel() > 0) exchanged.push_back(add(p));
  }
  require(tensor_of_.size() == parameters_.size(),
          "[attach] every parameter must come once, under one name");
  require(!parameters_.empty(),
          "[attach] there must be a parameter that has elements");
  std::optional<int> gpu;
  const c10::Device device = parameters_[0].device();
  if (device.is_cuda()) gpu = device.index();
  decltype(SyncOptions::beside) beside;
  if (!doubles_.empty()) {
    beside = [this](Communicator& comm, std::uint64_t step) {
      return mean_of_wide(comm, step);
    };
  }
  runner_ = std::make_unique<SyncRunner>(std::move(engine), gpu,
                                         describe_tensors("attach", exchanged),
                                         settings, beside);
}

NamedTensor BucketHook::add(const NamedTensor& parameter) {
  const at::Tensor& p = parameter.tensor;
  tensor_of_[p.unsafeGetTensorImpl()] = parameters_.size();
  parameters_.push_back(p);
  sparse_.push_back(0);
  Wide& wide = wide_.emplace_back();
  if (!is_wide(p)) return parameter;
  wide.mark = at::zeros({1}, p.options().dtype(at::kFloat));
  wide.first = static_cast<std::int64_t>(doubles_.size());
  wide.count = p.numel() * (p.is_complex() ? 2 : 1);
  // An even number each: torch wants complex numbers at multiples of 16 bytes.
  const auto room = static_cast<std::size_t>(wide.count + wide.count % 2);
  doubles_.resize(doubles_.size() + room);
  return {parameter.name, wide.mark};
}

// Who brings NaN is who says so: all have it afterwards.
std::uint64_t BucketHook::mean_of_wide(Communicator& comm, std::uint64_t step) {
  const auto nonfinite = std::ranges::count_if(
      doubles_, [](double value) { return !std::isfinite(value); });
  mean_of_doubles(comm, step, doubles_);
  return static_cast<std::uint64_t>(nonfinite);
}

void BucketHook::pack(const Wide& wide, const at::Tensor& gradient) {
  wide.mark.zero_();
  const at::Tensor real = gradient.is_complex()
                              ? at::view_as_real(gradient.resolve_conj())
                              : gradient;
  at::from_blob(doubles_.data() + wide.first, {wide.count}, at::kDouble)
      .copy_(real.reshape({-1}));
}

void BucketHook::unpack(const Brought& brought) const {
  for (std::size_t i = 0; i < brought.parameters.size(); ++i) {
    const at::Tensor& gradient = brought.gradients[i];
    if (gradient.numel() == 0) continue;
    const Wide& wide =
        wide_[tensor_of_.at(brought.parameters[i].unsafeGetTensorImpl())];
    if (!wide.mark.defined()) continue;
    // Not written to; a tensor knows no constant memory.
    auto* const first = const_cast<double*>(doubles_.data()) + wide.first;
    at::Tensor mean = at::from_blob(first, {wide.count}, at::kDouble);
    if (gradient.is_complex()) mean = at::view_as_complex(mean.view({-1, 2}));
    const at::Tensor out =
        brought.lies ? in_order_of(brought.parameters[i], gradient) : gradient;
    out.copy_(mean.view(out.sizes()));
  }
}

std::vector<SyncRunner::Gradient> BucketHook::gradients_of(
    const Tensors& parameters, const Tensors& gradients,
    const MemoryOwner& scratch) {
  std::vector<SyncRunner::Gradient> out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].numel() == 0) continue;
    const auto known = tensor_of_.find(parameters[i].unsafeGetTensorImpl());
    require(known != tensor_of_.end(),
            "[sync] gradients must be of parameters that were there when "
            "sluice was attached, got one of ",
            parameters[i].sizes(), "; attach to the model as it is now");
    const Wide& wide = wide_[known->second];
    if (wide.mark.defined()) {
      pack(wide, gradients[i]);
      out.push_back({known->second, view_of(wide.mark), {}, {}});
    } else {
      out.push_back({known->second, view_of(gradients[i]), {}, scratch});
    }
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
  const at::NoGradGuard guard;
  // What is wide of the step before is still needed.
  if (!doubles_.empty()) runner_->wait();
  const at::Tensor buffer = bucket.getBuffer();
  const bool is_sparse = buffer.layout() != c10::kStrided;
  const at::Tensor values = is_sparse ? buffer.to_dense() : buffer;
  if (scale) values.div_(*scale);
  std::vector<c10::Device> devices;
  if (!buffer.device().is_cpu()) devices.push_back(buffer.device());
  auto future = c10::make_intrusive<c10::ivalue::Future>(
      c10::PyObjectType::get(), std::move(devices));
  // Of its memory alone: who lets go of a tensor of Python's last needs the
  // interpreter's lock.
  const auto owner =
      ways.scratch || is_sparse
          ? std::make_shared<const c10::Storage>(values.storage())
          : nullptr;
  Brought brought = {bucket.getParameters(), {},    scale,
                     ways.drops_unused,      false, {}};
  if (is_sparse) {
    brought.gradients = {values};
    brought.sparse = {buffer.sparse_dim()};
  } else {
    brought.gradients = gradients_in(bucket);
  }
  try {
    auto gradients = gradients_of(brought.parameters, brought.gradients, owner);
    if (gradients.empty()) {
      future->markCompleted(value);
    } else {
      runner_->announce(gradients, to(future, value, buffer, brought));
    }
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
    const bool committed = outcome.report.committed;
    if (committed) unpack(brought);
    if (brought.is_copy(0)) {
      settle_values(brought.gradients[0], committed, brought.scale);
      buffer.copy_(brought.gradients[0].to_sparse(brought.sparse[0]));
    } else {
      settle_values(buffer, committed, brought.scale);
    }
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
  out.lies = true;
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
  if (is_copy(i)) {
    now = mean.to_sparse(sparse[i]);
  } else if (now.defined()) {
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
  // DDP's join() brings zeros for a rank that has no more data, outside of any
  // backward pass: nobody takes a step by its gradients.
  if (torch::autograd::get_current_graph_task_id() < 0) {
    unused_.clear();
    return;
  }
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

BucketHook::Brought BucketHook::own_gradients() {
  Brought out = {parameters_, {}, {}, false, true, {}};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].mutable_grad();
    if (gradient.defined() && gradient.layout() != c10::kStrided) {
      sparse_[i] = gradient.sparse_dim();
      out.gradients.push_back(gradient.to_dense());
    } else if (sparse_[i] > 0) {
      out.gradients.push_back(
          gradient.defined() ? gradient : at::zeros_like(parameters_[i]));
    } else {
      if (!gradient.defined()) gradient = at::zeros_like(parameters_[i]);
      out.gradients.push_back(gradient);
    }
  }
  out.sparse = sparse_;
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
  if (!doubles_.empty()) runner_->wait();
  Brought brought = own_gradients();
  brought.scale = scale;
  const Tensors& gradients = brought.gradients;
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
    keep(std::current_exception(), brought);
    if (stop) std::rethrow_exception(stop);
    throw;
  }
  if (committed) unpack(brought);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    settle_values(gradients[i], committed, scale);
    if (brought.is_copy(i)) brought.hand_over(i);
  }
  if (stop) std::rethrow_exception(stop);
  return committed;
}

bool BucketHook::recover() {
  const at::NoGradGuard guard;
  const Recovered what = runner_->recover();
  for (Brought& b : failed_) {
    if (what == Recovered::kCommitted) unpack(b);
    b.scale_back();
    // The ranks that heard that the step is skipped have NaN in all gradients.
    if (what == Recovered::kSkipped) {
      for (const at::Tensor& g : b.gradients) settle_values(g, false, {});
    } else if (what != Recovered::kCommitted) {
      continue;
    }
    for (std::size_t i = 0; i < b.parameters.size(); ++i) b.hand_over(i);
  }
  return !std::exchange(failed_, {}).empty() && what == Recovered::kCommitted;
}

}  // namespace sluice
