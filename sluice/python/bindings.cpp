#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <system_error>

#include "sluice/codec/codec.h"
#include "sluice/core/message.h"
#include "sluice/python/functions.h"
#include "sluice/python/hook.h"
#include "sluice/run/rank_part.h"
#include "sluice/run/ranks.h"

// What Python sees of it. Only tensors, numbers and text cross; who waits or
// computes does so without the interpreter's lock.

namespace py = pybind11;

namespace sluice {
namespace {

PyObject* comm_error = nullptr;  // the class sluice.CommError

// As torch's own code translates it, when backward rethrows it.
struct LostRank final : public torch::PyTorchError {
  using PyTorchError::PyTorchError;
  PyObject* python_type() override { return comm_error; }
};

std::exception_ptr as_python(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommError& e) {
    return std::make_exception_ptr(LostRank(e.what()));
  } catch (...) {
    return error;
  }
}

void translate(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const CommError& e) {
    PyErr_SetString(comm_error, e.what());
  } catch (const AgreedError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const CodecError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const std::system_error& e) {
    PyErr_SetString(PyExc_RuntimeError, message_of(e).c_str());
  }
}

NamedTensors named(const std::vector<std::string>& names,
                   const std::vector<at::Tensor>& tensors) {
  NamedTensors out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out.push_back({names[i], tensors[i]});
  }
  return out;
}

template <class T>
at::Tensor tensor_of(const std::vector<T>& values, at::ScalarType type) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, type);
  if (!values.empty()) {
    std::memcpy(out.data_ptr(), values.data(), values.size() * sizeof(T));
  }
  return out;
}

template <class T>
std::vector<T> values_of(const at::Tensor& tensor, at::ScalarType type) {
  const at::Tensor host = tensor.to(at::kCPU, type).contiguous();
  const auto* first = static_cast<const T*>(host.const_data_ptr());
  return {first, first + host.numel()};
}

using Tensors = std::vector<at::Tensor>;

py::dict to_dict(const GradientSync::State& state) {
  Tensors rules;
  for (const auto& r : state.rules) rules.push_back(tensor_of(r, at::kByte));
  Tensors collectives;
  for (const auto& c : state.collectives) {
    collectives.push_back(tensor_of(c, at::kDouble));
  }
  py::dict out;
  out["residual"] = tensor_of(state.residual, at::kFloat);
  out["momentum"] = tensor_of(state.momentum, at::kFloat);
  out["rules"] = rules;
  out["collectives"] = collectives;
  return out;
}

GradientSync::State from_dict(const py::dict& dict) {
  GradientSync::State state;
  state.residual =
      values_of<float>(dict["residual"].cast<at::Tensor>(), at::kFloat);
  state.momentum =
      values_of<float>(dict["momentum"].cast<at::Tensor>(), at::kFloat);
  for (const auto& r : dict["rules"].cast<Tensors>()) {
    state.rules.push_back(values_of<std::byte>(r, at::kByte));
  }
  for (const auto& c : dict["collectives"].cast<Tensors>()) {
    state.collectives.push_back(values_of<double>(c, at::kDouble));
  }
  return state;
}

py::tuple to_tuple(const HostEntries& entries,
                   const at::Device& device = at::kCPU) {
  return py::make_tuple(
      tensor_of(entries.indices, at::kInt).to(device, at::kLong),
      tensor_of(entries.values, at::kFloat).to(device));
}

py::tuple select(const at::Tensor& residual, const at::Tensor& gradient,
                 const std::string& sparsifier, double density,
                 std::uint64_t step, std::uint64_t seed) {
  SelectRequest request;
  request.residual = view_of(residual);
  request.gradient = view_of(gradient);
  request.ready = event_after(gradient);
  if (residual.is_cuda()) request.gpu = residual.get_device();
  request.sparsifier = sparsifier;
  request.step.density = density;
  request.step.step = step;
  request.step.seed = seed;
  HostEntries entries;
  {
    const py::gil_scoped_release release;
    entries = select_entries(request);
  }
  return to_tuple(entries, residual.device());
}

at::Tensor encode(const at::Tensor& indices, const at::Tensor& values,
                  std::size_t elements, const std::string& codec) {
  const py::gil_scoped_release release;
  const auto places = values_of<std::uint32_t>(indices, at::kInt);
  const auto numbers = values_of<float>(values, at::kFloat);
  return tensor_of(encode_entries(places, numbers, elements, codec), at::kByte);
}

py::tuple decode(const at::Tensor& message, std::size_t elements) {
  HostEntries entries;
  {
    const py::gil_scoped_release release;
    entries =
        decode_entries(values_of<std::byte>(message, at::kByte), elements);
  }
  return to_tuple(entries);
}

// Warns, with the interpreter's lock, of what the plan has come to. A filter
// that makes an error of the warning must not end the step on this rank alone:
// Python then prints it.
void warn_of_news(BucketHook& hook) {
  std::string news;
  {
    const py::gil_scoped_release release;
    news = hook.runner().take_news();
  }
  if (news.empty()) return;
  if (PyErr_WarnEx(PyExc_UserWarning, news.c_str(), 1) != 0) {
    PyErr_WriteUnraisable(nullptr);
  }
}

using Wrapped = torch::jit::PythonFutureWrapper;

std::shared_ptr<Wrapped> announce(BucketHook& hook, c10d::GradBucket& bucket,
                                  const BucketHook::Scale& scale, bool scratch,
                                  bool drops_unused) {
  const c10::IValue value = torch::jit::toIValue(py::cast(bucket.getBuffer()),
                                                 c10::PyObjectType::get());
  BucketHook::Future future;
  {
    const py::gil_scoped_release release;
    future = hook.announce(bucket, value, scale, {scratch, drops_unused});
  }
  warn_of_news(hook);
  return std::make_shared<Wrapped>(std::move(future));
}

py::dict save(const BucketHook& hook) {
  GradientSync::State state;
  {
    const py::gil_scoped_release release;
    state = hook.runner().save();
  }
  return to_dict(state);
}

py::list gather(BucketHook& hook, const std::string& what,
                const py::bytes& bytes) {
  const auto mine = static_cast<std::string_view>(bytes);
  std::vector<Bytes> all;
  {
    const py::gil_scoped_release release;
    all = hook.runner().gather(what, std::as_bytes(std::span(mine)));
  }
  py::list out;
  for (const Bytes& b : all) {
    out.append(py::bytes(reinterpret_cast<const char*>(b.data()), b.size()));
  }
  return out;
}

void load(BucketHook& hook, const py::dict& dict, std::uint64_t steps) {
  const GradientSync::State state = from_dict(dict);
  const py::gil_scoped_release release;
  hook.runner().load(state, steps);
}

// What a getter of the runner gives. They may wait for a thread that wants the
// interpreter's lock.
template <class Get>
auto unlocked(Get get) {
  return py::cpp_function(
      [get](const BucketHook& hook) { return (hook.runner().*get)(); },
      py::call_guard<py::gil_scoped_release>());
}

// Its destructor waits for threads that may want the interpreter's lock, and
// that a forked process does not have: it lets the hook be.
struct DeleteUnlocked {
  pid_t process = getpid();
  void operator()(BucketHook* hook) const {
    if (process != getpid()) return;
    const py::gil_scoped_release release;
    delete hook;
  }
};
using OwnedHook = std::unique_ptr<BucketHook, DeleteUnlocked>;

// Runs the handlers of signals that have come, which may raise: Ctrl-C, say.
void raise_signals() {
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void bind_hook(py::module_& m) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<BucketHook, OwnedHook>(m, "BucketHook")
      .def(py::init([](const Group& group, const std::optional<Group>& sums,
                       const std::vector<std::string>& names,
                       const std::vector<at::Tensor>& parameters,
                       const std::string& settings) {
        const py::gil_scoped_release release;
        return OwnedHook(new BucketHook(
            make_hook_engine(group, sums.value_or(nullptr), settings),
            named(names, parameters), settings));
      }))
      .def("announce", &announce)
      .def(
          "step",
          [](BucketHook& h, const BucketHook::Scale& scale) {
            return h.step(scale, &raise_signals);
          },
          Release())
      .def("recover", &BucketHook::recover, Release())
      .def("save", &save)
      .def("load", &load)
      .def("gather", &gather)
      .def(
          "repeat",
          [](BucketHook& h, const std::string& decision, std::uint64_t steps) {
            h.runner().repeat(decision, steps);
          },
          Release())
      .def(
          "trace",
          [](BucketHook& h, std::uint64_t steps, const std::string& path) {
            h.runner().trace(steps, path);
          },
          Release())
      .def("warn_of_news", &warn_of_news)
      .def_property_readonly("skipped", unlocked(&SyncRunner::skipped))
      .def(
          "pass_by", [](BucketHook& h) { h.runner().pass(); }, Release())
      .def(
          "enter_tentative",
          [](BucketHook& h) { h.runner().enter_tentative(); }, Release())
      .def(
          "leave_tentative",
          [](BucketHook& h) { h.runner().leave_tentative(); }, Release())
      .def(
          "discard", [](BucketHook& h) { h.runner().discard(); }, Release())
      .def(
          "set_density",
          [](BucketHook& h, double density) {
            h.runner().set_density(density);
          },
          Release())
      .def_property_readonly("stats", unlocked(&SyncRunner::stats))
      .def_property_readonly("rank", unlocked(&SyncRunner::rank))
      .def_property_readonly("size", unlocked(&SyncRunner::size))
      .def_property_readonly("steps", unlocked(&SyncRunner::steps))
      .def_property_readonly("plan", unlocked(&SyncRunner::plan))
      .def_property_readonly("sizes", unlocked(&SyncRunner::sizes))
      .def_property_readonly("decision", unlocked(&SyncRunner::decision))
      .def_property_readonly("decides_live",
                             unlocked(&SyncRunner::decides_live))
      .def_property_readonly("link", unlocked(&SyncRunner::link))
      .def_property_readonly("link_problem",
                             unlocked(&SyncRunner::link_problem));
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  comm_error = PyErr_NewExceptionWithDoc(
      "sluice.CommError",
      "A rank is lost, late, or in another step. The text names both ranks and "
      "the step; residuals are intact.",
      PyExc_RuntimeError, nullptr);
  m.add_object("CommError", comm_error);
  py::register_exception_translator(&translate);
  set_error_translation(&as_python);
  bind_hook(m);
  m.def("select", &select);
  m.def("encode", &encode);
  m.def("decode", &decode);
  m.def("list_methods", &list_methods);
  m.def("inherit",
        [](std::size_t old_ranks, std::size_t rank, std::size_t ranks) {
          std::vector<std::pair<std::size_t, double>> parts;
          for (const Inherited& i : inherit(old_ranks, rank, ranks)) {
            parts.emplace_back(i.rank, i.factor);
          }
          return parts;
        });
}

}  // namespace sluice
