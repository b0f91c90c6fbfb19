#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/backend/cpu/bucket_passes.h"
#include "sluice/backend/cpu/kernels.h"
#include "sluice/backend/cpu/scratch.h"
#include "sluice/backend/cpu/selector.h"
#include "sluice/backend/cpu/thread_pool.h"
#include "sluice/backend/cpu/wire.h"
#include "sluice/core/error.h"

namespace sluice {
namespace cpu {
namespace {

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> all;
  for (const Kernels* table :
       {avx512_kernels(), avx2_kernels(), portable_kernels()}) {
    if (table != nullptr) all.push_back(table);
  }
  return all;
}

}  // namespace

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

}  // namespace cpu

namespace {

using cpu::choose_kernels;
using cpu::Kernels;
namespace wire = cpu::wire;

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

// What passes need for themselves; of the stream, so that threads with streams
// of their own do not meet.
struct CpuStream final : public Stream {
  CpuStream(const Kernels& kernels, cpu::ThreadPool& pool)
      : selector(kernels, pool), coder(cpu::wire_kernels(kernels.name)) {}

  cpu::Selector selector;
  cpu::wire::Coder coder;
  std::vector<double> partial;
  std::vector<float> rounded;
};

CpuStream& as_cpu(Stream& stream) { return dynamic_cast<CpuStream&>(stream); }

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : kernels_(choose_kernels(options.isa)),
        pool_(thread_count(options.threads)),
        name_(concat("cpu/", kernels_.name)) {}

  std::string_view name() const override { return name_; }
  bool is_host() const override { return true; }

  Buffer allocate(std::size_t bytes) override {
    return {cpu::map_pages(bytes), bytes, &cpu::unmap_pages};
  }
  Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CpuStream>(kernels_, pool_);
  }
  // Everything has run by the time its call returns; what another device has
  // not yet done is for the caller to wait for.
  Event record(Stream&) override { return {}; }
  void wait(const Event&) override {}
  void wait(Stream&, const Event&) override {}

  void copy_in(Stream&, void* target,
               std::span<const std::byte> source) override {
    if (!source.empty()) std::memcpy(target, source.data(), source.size());
  }
  void copy_out(Stream&, std::span<std::byte> target,
                const void* source) override {
    if (!target.empty()) std::memcpy(target.data(), source, target.size());
  }

  void pack(Stream&, const PackPass& pass) override {
    cpu::run_pack(pass, pool_);
  }
  void fill(Stream&, float* target, std::size_t n, float value) override {
    cpu::for_chunks(pool_, n, [&](std::size_t begin, std::size_t end) {
      std::fill(target + begin, target + end, value);
    });
  }
  void count_nonfinite(Stream&, const float* values, std::size_t n,
                       std::uint64_t* count) override {
    *count = cpu::count_nonfinite(kernels_, values, n, pool_);
  }
  void select(Stream& stream, const SelectPass& pass) override {
    as_cpu(stream).selector.run(pass);
  }
  void momentum(Stream& stream, const MomentumPass& pass) override {
    cpu::run_momentum(pass, pool_, as_cpu(stream).partial);
  }
  void quantize(Stream& stream, const QuantizePass& pass) override {
    cpu::run_quantize(pass, as_cpu(stream).rounded);
  }
  void narrow(Stream&, const NarrowPass& pass) override {
    cpu::run_narrow(pass, pool_);
  }
  void widen(Stream&, const WidenPass& pass) override {
    cpu::run_widen(pass, pool_);
  }
  void scatter(Stream&, const ScatterPass& pass) override {
    cpu::run_scatter(pass);
  }
  void gather(Stream&, const GatherPass& pass) override {
    cpu::run_gather(pass);
  }
  void apply(Stream&, const ApplyPass& pass) override {
    cpu::run_apply(kernels_, pass, pool_);
  }
  void encode(Stream& stream, const EncodePass& pass) override {
    *pass.written = as_cpu(stream).coder.encode(pass, pass.options,
                                                {pass.out, pass.capacity});
  }
  void decode(Stream& stream, const DecodePass& pass) override {
    *pass.result = as_cpu(stream).coder.decode(
        {pass.in, message_bytes(pass.bytes, pass.size)}, pass.segments,
        {pass.indices, pass.capacity}, {pass.values, pass.capacity},
        pass.starts);
  }

 private:
  const Kernels& kernels_;
  cpu::ThreadPool pool_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

std::span<const std::string_view> cpu_isas() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const Kernels* table : cpu::available_kernels()) {
      names.push_back(table->name);
    }
    return names;
  }();
  return kNames;
}

}  // namespace sluice
