#include "sluice/python/hook.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <future>
#include <limits>
#include <nlohmann/json.hpp>

#include "sluice/comm/c10d/c10d.h"
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

// Messages of all ranks take the time that they would take there.
std::unique_ptr<Engine> behind_network(std::unique_ptr<Engine> engine,
                                       const std::string& network) {
  if (network.empty()) return engine;
  const Link link = parse_link(network);
  require(engine->local_size() == engine->size(),
          "[attach] a network is emulated between ranks of one machine, got ",
          engine->local_size(), " of ", engine->size(),
          " here; leave 'emulate' out");
  return make_emulated(std::move(engine), link);
}

// What gradients, or a bucket of them, hold once the step is done. By the
// stream of the calling thread.
void settle_values(at::Tensor values, bool committed,
                   const std::optional<at::Tensor>& scale) {
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

}  // namespace

void set_error_translation(TranslateError translate) {
  translate_error = translate;
}

BucketHook::BucketHook(const Group& group, const Group& sums,
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
  const auto network_in = nlohmann::json::parse(settings)["net"];
  // What is no text is refused with the other settings.
  const std::string network =
      network_in.is_string() ? network_in.get<std::string>() : "";
  const std::string label = network.empty() ? "" : "emulate=" + network;
  auto engine = behind_network(make_c10d_engine(group, sums, label), network);
  runner_ = std::make_unique<SyncRunner>(std::move(engine), gpu,
                                         std::move(tensors), settings);
}

std::vector<SyncRunner::Gradient> BucketHook::gradients_of(
    const std::vector<at::Tensor>& parameters,
    const std::vector<at::Tensor>& gradients,
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
                                        const std::optional<at::Tensor>& scale,
                                        bool scratch) {
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
      scratch ? std::make_shared<const c10::Storage>(buffer.storage())
              : nullptr;
  runner_->announce(
      gradients_of(bucket.getParameters(), bucket.getGradients(), owner),
      [future, value, buffer, scale](const SyncRunner::Outcome& outcome) {
        if (outcome.error != nullptr) {
          future->setError(translate_error(outcome.error));
          return;
        }
        settle_values(buffer, outcome.report.committed, scale);
        future->markCompleted(value);
      });
  // DDP announces its buckets in order, whichever is ready first.
  if (bucket.isLast()) runner_->expect_all();
  return future;
}

bool BucketHook::step(const std::vector<at::Tensor>& gradients) {
  std::promise<bool> promise;
  runner_->announce(gradients_of(parameters_, gradients, {}),
                    [&](const SyncRunner::Outcome& outcome) {
                      if (outcome.error != nullptr) {
                        promise.set_exception(outcome.error);
                      } else {
                        promise.set_value(outcome.report.committed);
                      }
                    });
  const bool committed = promise.get_future().get();
  for (const at::Tensor& g : gradients) {
    settle_values(g, committed, std::nullopt);
  }
  return committed;
}

}  // namespace sluice
