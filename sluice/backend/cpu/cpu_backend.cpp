#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/backend/cpu/kernels.h"
#include "sluice/backend/cpu/pages.h"
#include "sluice/backend/cpu/quantize.h"
#include "sluice/backend/cpu/selector.h"
#include "sluice/backend/cpu/thread_pool.h"
#include "sluice/backend/cpu/wire.h"
#include "sluice/core/error.h"
#include "sluice/core/half.h"

namespace sluice {
namespace {

using cpu::Kernels;
namespace wire = cpu::wire;

constexpr std::size_t kChunk = 1U << 16;

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> all;
  for (const Kernels* table :
       {cpu::avx512_kernels(), cpu::avx2_kernels(), cpu::portable_kernels()}) {
    if (table != nullptr) all.push_back(table);
  }
  return all;
}

const Kernels& choose_kernels(std::string_view isa) {
  const std::vector<const Kernels*> all = available_kernels();
  const char* where = "[cpu_backend] isa";
  if (isa.empty()) {
    if (const char* forced = std::getenv("SLUICE_CPU")) {
      isa = forced;
      where = "[cpu_backend] SLUICE_CPU";
    }
  }
  if (isa.empty()) return *all.front();
  std::string known;
  for (const Kernels* table : all) {
    if (table->name == isa) return *table;
    known += concat(known.empty() ? "" : " ", table->name);
  }
  throw std::invalid_argument(
      concat(where, " must name kernels that this machine can run, got '", isa,
             "'; it can run: ", known));
}

std::size_t thread_count(std::size_t asked) {
  if (asked > 0) {
    require(asked <= 1024, "[cpu_backend] threads must be at most 1024, got ",
            asked);
    return asked;
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    return static_cast<std::size_t>(std::max(1, CPU_COUNT(&allowed)));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

float load_as_float(const void* data, DType dtype, std::ptrdiff_t offset) {
  switch (dtype) {
    case DType::kFp32: {
      float value = 0;  // memcpy: a view may be misaligned
      std::memcpy(&value, static_cast<const std::byte*>(data) + 4 * offset, 4);
      return value;
    }
    case DType::kBf16:
    case DType::kFp16: {
      std::uint16_t half = 0;
      std::memcpy(&half, static_cast<const std::byte*>(data) + 2 * offset, 2);
      return dtype == DType::kBf16 ? from_bf16(half) : from_fp16(half);
    }
  }
  return 0;
}

class CpuStream final : public Stream {};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : kernels_(choose_kernels(options.isa)),
        pool_(thread_count(options.threads)),
        selector_(kernels_, pool_),
        coder_(cpu::wire_kernels(kernels_.name)),
        name_(concat("cpu/", kernels_.name)) {}

  std::string_view name() const override { return name_; }

  Buffer allocate(std::size_t bytes) override {
    return {cpu::map_pages(bytes), bytes, &cpu::unmap_pages};
  }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CpuStream>();
  }
  // Everything has run by the time its call returns.
  Event record(Stream&) override { return done_; }
  void wait(const Event&) override {}

  void copy_in(Stream&, void* target,
               std::span<const std::byte> source) override {
    if (!source.empty()) std::memcpy(target, source.data(), source.size());
  }
  void copy_out(Stream&, std::span<std::byte> target,
                const void* source) override {
    if (!target.empty()) std::memcpy(target.data(), source, target.size());
  }

  void pack(Stream&, const TensorView& source, float* target) override;
  void fill(Stream&, float* target, std::size_t n, float value) override {
    for_chunks(n, [&](std::size_t begin, std::size_t end) {
      std::fill(target + begin, target + end, value);
    });
  }
  void select(Stream&, const SelectPass& pass) override { selector_.run(pass); }
  void momentum(Stream&, const MomentumPass& pass) override;
  void quantize(Stream&, const QuantizePass& pass) override;
  void scatter(Stream&, const ScatterPass& pass) override;
  void encode(Stream&, const EncodePass& pass) override;
  void decode(Stream&, const DecodePass& pass) override;

 private:
  template <class F>
  void for_chunks(std::size_t n, F&& f) {
    pool_.run((n + kChunk - 1) / kChunk, [&](std::size_t c) {
      f(c * kChunk, std::min(n, (c + 1) * kChunk));
    });
  }
  double norm_of(const float* values, std::size_t n);

  const Kernels& kernels_;
  cpu::ThreadPool pool_;
  cpu::Selector selector_;
  cpu::wire::Coder coder_;
  std::string name_;
  Event done_;
  std::vector<double> partial_;
  std::vector<float> rounded_;
};

void CpuBackend::pack(Stream&, const TensorView& source, float* target) {
  const std::size_t n = source.size();
  if (source.contiguous() && source.dtype == DType::kFp32) {
    if (n > 0) std::memcpy(target, source.data, n * sizeof(float));
    return;
  }
  for_chunks(n, [&](std::size_t begin, std::size_t end) {
    // An odometer over the dimensions, set to element `begin`.
    std::array<std::size_t, TensorView::kMaxDims> at{};
    std::ptrdiff_t offset = 0;
    std::size_t rest = begin;
    for (std::size_t d = source.rank; d-- > 0;) {
      at[d] = rest % source.dims[d];
      rest /= source.dims[d];
      offset += static_cast<std::ptrdiff_t>(at[d]) * source.strides[d];
    }
    for (std::size_t i = begin; i < end; ++i) {
      target[i] = load_as_float(source.data, source.dtype, offset);
      for (std::size_t d = source.rank; d-- > 0;) {
        offset += source.strides[d];
        if (++at[d] < source.dims[d]) break;
        offset -= static_cast<std::ptrdiff_t>(at[d]) * source.strides[d];
        at[d] = 0;
      }
    }
  });
}

double CpuBackend::norm_of(const float* values, std::size_t n) {
  partial_.assign((n + kChunk - 1) / kChunk, 0);
  for_chunks(n, [&](std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto v = static_cast<double>(values[i]);
      sum += std::isfinite(v) ? v * v : 0;
    }
    partial_[begin / kChunk] = sum;
  });
  double total = 0;
  for (const double part : partial_) total += part;
  return std::sqrt(total);
}

void CpuBackend::momentum(Stream&, const MomentumPass& pass) {
  float scale = 1;
  if (pass.clip > 0) {
    const double coefficient =
        pass.clip / (norm_of(pass.gradient, pass.n) + 1e-6);
    if (coefficient < 1) scale = static_cast<float>(coefficient);
  }
  std::atomic<std::uint64_t> nonfinite{0};
  for_chunks(pass.n, [&](std::size_t begin, std::size_t end) {
    std::uint64_t bad = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const float g = scale * pass.gradient[i];
      const float u = pass.nesterov ? pass.factor * (pass.momentum[i] + g)
                                    : pass.factor * pass.momentum[i] + g;
      const float v = pass.velocity[i] + (pass.nesterov ? u + g : u);
      const bool finite = std::isfinite(u) && std::isfinite(v);
      pass.momentum[i] = finite ? u : pass.momentum[i];
      pass.velocity[i] = finite ? v : pass.velocity[i];
      bad += finite ? 0 : 1;
    }
    nonfinite.fetch_add(bad, std::memory_order_relaxed);
  });
  *pass.nonfinite = nonfinite.load(std::memory_order_relaxed);
}

void CpuBackend::quantize(Stream&, const QuantizePass& pass) {
  for (std::size_t s = 0; s < pass.tasks.size(); ++s) {
    if (pass.tasks[s].values == ValueForm::kFp32) continue;
    const std::size_t first = pass.starts[s];
    const std::size_t count = pass.starts[s + 1] - first;
    float* values = pass.values + first;
    rounded_.assign(values, values + count);
    cpu::quantize_values(pass.tasks[s].values, rounded_);
    float* memory = pass.tasks[s].memory;
    if (memory != nullptr) {
      const std::uint32_t* indices = pass.indices + first;
      const std::uint32_t base = pass.tasks[s].base;
      for (std::size_t i = 0; i < count; ++i) {
        memory[indices[i] - base] += values[i] - rounded_[i];
      }
    }
    std::copy(rounded_.begin(), rounded_.end(), values);
  }
}

void CpuBackend::scatter(Stream&, const ScatterPass& pass) {
  const std::size_t first = pass.starts[pass.segment];
  const std::size_t last = pass.starts[pass.segment + 1];
  for (std::size_t i = first; i < last; ++i) {
    float& target = pass.target[pass.indices[i] - pass.base];
    target = pass.op == ScatterOp::kZero ? 0.0F
                                         : target + pass.scale * pass.values[i];
  }
}

void CpuBackend::encode(Stream&, const EncodePass& pass) {
  *pass.written = coder_.encode(
      {pass.indices, pass.values, pass.starts, pass.segments},
      {pass.choose, pass.index_form, pass.checksum}, {pass.out, pass.capacity});
}

void CpuBackend::decode(Stream&, const DecodePass& pass) {
  *pass.result = coder_.decode({pass.in, pass.bytes}, pass.segments,
                               {pass.indices, pass.capacity},
                               {pass.values, pass.capacity}, pass.starts);
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

std::span<const std::string_view> cpu_isas() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const Kernels* table : available_kernels()) {
      names.push_back(table->name);
    }
    return names;
  }();
  return kNames;
}

}  // namespace sluice
