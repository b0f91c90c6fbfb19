#include "support.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "fake_device.h"
#include "sluice/core/hash.h"
#include "sluice/core/key.h"

namespace sluice::testing {
namespace {

// Uniform in (0, 1), the same on every machine (unlike <random>'s
// distributions).
double uniform(std::uint64_t seed, std::uint64_t i) {
  return (static_cast<double>(mix64(seed, i) >> 11) + 0.5) * 0x1p-53;
}

double normal(std::uint64_t seed, std::uint64_t i) {
  return std::sqrt(-2 * std::log(uniform(seed, 2 * i))) *
         std::cos(6.283185307179586 * uniform(seed, 2 * i + 1));
}

template <class F>
std::vector<float> fill(std::size_t n, F&& f) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(f(i));
  return x;
}

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names = {"fake"};
  for (const std::string_view isa : cpu_isas()) {
    names.push_back("cpu/" + std::string(isa));
  }
  if (cuda_problem().empty()) names.push_back("cuda");
  return names;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names = {"cpu/portable", "fake"};
  if (cuda_problem().empty()) names.push_back("cuda");
  return names;
}

std::vector<std::string> linked_names() {
  std::vector<std::string> names = device_names();
  for (std::string& name : names) name += "+link";
  return names;
}

std::vector<std::string> device_and_linked_names() {
  std::vector<std::string> names = device_names();
  for (std::string& name : linked_names()) names.push_back(std::move(name));
  return names;
}

std::unique_ptr<Backend> make_backend(std::string_view name,
                                      std::size_t threads) {
  name = name.substr(0, name.find('+'));
  if (name == "fake") return make_fake_device_backend({threads, ""});
  if (name == "cuda") return make_cuda_backend();
  return make_cpu_backend({threads, std::string(name.substr(4))});
}

std::vector<float> gaussian(std::size_t n, std::uint64_t seed, float scale) {
  return fill(n, [&](std::size_t i) {
    return static_cast<double>(scale) * normal(seed, i);
  });
}

std::vector<float> laplace(std::size_t n, std::uint64_t seed) {
  return fill(n, [&](std::size_t i) {
    const double magnitude = -std::log(uniform(seed, 2 * i));
    return uniform(seed, 2 * i + 1) < 0.5 ? -magnitude : magnitude;
  });
}

std::vector<float> double_gamma(std::size_t n, std::uint64_t seed) {
  return fill(n, [&](std::size_t i) {
    const double z = normal(seed, 2 * i);
    return uniform(~seed, i) < 0.5 ? -z * z / 2 : z * z / 2;
  });
}

std::vector<float> student3(std::size_t n, std::uint64_t seed) {
  return fill(n, [&](std::size_t i) {
    double chi = 0;
    for (std::uint64_t j = 1; j < 4; ++j) {
      chi += std::pow(normal(seed, 4 * i + j), 2);
    }
    return normal(seed, 4 * i) / std::sqrt(chi / 3);
  });
}

std::vector<std::string> data_names() {
  return {"gaussian",  "zeros", "equal",    "two-level", "sparse",
          "embedding", "ramp",  "denormal", "huge"};
}

std::vector<float> make_data(std::string_view name, std::size_t n,
                             std::uint64_t seed) {
  if (name == "gaussian") return gaussian(n, seed);
  return fill(n, [&](std::size_t i) -> double {
    const double sign = i % 2 == 0 ? 1 : -1;
    if (name == "zeros") return sign * 0.0;
    if (name == "embedding") {
      return mix64(seed, i / 50) % 16 == 0 ? normal(seed, i) : sign * 0.0;
    }
    if (name == "equal") return sign * 0.25;
    if (name == "two-level") return i % 7 == 0 ? 2 : -1;
    if (name == "sparse") {
      return mix64(seed, i) % 2000 == 0 ? normal(seed, i) : 0;
    }
    if (name == "ramp") return static_cast<double>(i) - 0.3 * double(n);
    if (name == "denormal")
      return sign * static_cast<double>(i % 97) * 0x1p-149;
    if (name == "huge") return sign * (1 + static_cast<double>(i % 89)) * 1e35;
    throw std::invalid_argument("no data '" + std::string(name) + "'");
  });
}

std::vector<std::uint32_t> reference_topk(std::span<const float> x,
                                          std::size_t k) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    if (x[i] != 0 && magnitude_key(x[i]) < kInfKey) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) {
                     return magnitude_key(x[a]) > magnitude_key(x[b]);
                   });
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

Rig::Rig(const Options& options)
    : options_(options),
      backend_(make_backend(options.backend, options.threads)),
      stream_(backend_->make_stream()) {
  for (std::size_t t = 0; t < options.tensors.size(); ++t) {
    bucket_.add(t, shape3(options.tensors[t]), bucket_.size(),
                options.keeps_residual);
  }
  arena_ = std::make_unique<Arena>(*backend_, bucket_.size());
  gradients_ = backend_->allocate(bucket_.size() * sizeof(float));
  feedback_ = make_feedback(
      options.feedback, {*backend_, *arena_, bucket_,
                         make_sparsifier(options.sparsifier), options.values});
}

void Rig::set_gradients(std::span<const float> gradients) {
  backend_->copy_in(*stream_, gradients_.data(), std::as_bytes(gradients));
}

void Rig::select(double density) {
  std::vector<TensorView> views;
  for (std::size_t t = 0; t < options_.tensors.size(); ++t) {
    views.push_back(
        contiguous_view(gradients_.data<float>() + bucket_.segments()[t].base,
                        options_.tensors[t]));
  }
  feedback_->select(*stream_, views,
                    {steps++, options_.total_steps, density, options_.seed});
}

Sent Rig::sent() {
  feedback_->fetch_report(*stream_);
  SparseBlock& block = feedback_->staged();
  backend_->wait(block.fetch(*backend_, *stream_));
  Sent sent;
  sent.report = feedback_->report();
  sent.indices.resize(block.count());
  sent.values.resize(block.count());
  backend_->copy_out(*stream_, std::as_writable_bytes(std::span(sent.indices)),
                     block.indices());
  backend_->copy_out(*stream_, std::as_writable_bytes(std::span(sent.values)),
                     block.values());
  backend_->wait(backend_->record(*stream_));
  return sent;
}

Sent Rig::step(std::span<const float> gradients, double density, bool commit) {
  set_gradients(gradients);
  select(density);
  Sent out = sent();
  if (commit) this->commit();
  return out;
}

void Rig::commit() {
  feedback_->commit(*stream_);
  backend_->wait(backend_->record(*stream_));
}

void Rig::rollback() {
  feedback_->rollback(*stream_);
  backend_->wait(backend_->record(*stream_));
}

std::vector<float> Rig::read(const float* device, std::size_t n) {
  std::vector<float> host(n);
  backend_->copy_out(*stream_, std::as_writable_bytes(std::span(host)), device);
  backend_->wait(backend_->record(*stream_));
  return host;
}

std::vector<float> Rig::residual() {
  return read(arena_->residual(), bucket_.size());
}

void Rig::set_residual(std::span<const float> values) {
  backend_->copy_in(*stream_, arena_->residual(), std::as_bytes(values));
}

std::vector<float> Rig::momentum() {
  return read(arena_->momentum(*backend_), bucket_.size());
}

std::vector<float> rebuild(const Sent& sent, std::span<const float> residual) {
  std::vector<float> all(residual.begin(), residual.end());
  for (std::size_t i = 0; i < sent.indices.size(); ++i) {
    all[sent.indices[i]] += sent.values[i];
  }
  return all;
}

std::string safe_name(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

}  // namespace sluice::testing
