#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

// The device's memory: locked except while one of its operations runs.
class Arena {
 public:
  void* allocate(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t size = (bytes + page - 1) / page * page;
    void* data =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    sizes_[data] = size;
    return data;
  }
  void release(void* data) {
    munmap(data, sizes_.at(data));
    sizes_.erase(data);
  }
  void protect(int protection) {
    for (const auto& [data, size] : sizes_) mprotect(data, size, protection);
  }

 private:
  std::map<void*, std::size_t> sizes_;
};

struct Operation {
  std::function<void(Stream&)> run;
  std::shared_ptr<bool> done;
};

class FakeStream final : public Stream {
 public:
  using Registry = std::set<FakeStream*>;

  explicit FakeStream(std::shared_ptr<Registry> registry)
      : registry_(std::move(registry)) {
    registry_->insert(this);
  }
  ~FakeStream() override { registry_->erase(this); }

  std::list<Operation> queue;

 private:
  std::shared_ptr<Registry> registry_;
};

class FakeDeviceBackend final : public Backend {
 public:
  explicit FakeDeviceBackend(const CpuOptions& options)
      : cpu_(make_cpu_backend(options)),
        cpu_stream_(cpu_->make_stream()),
        name_(concat("fake/", cpu_->name())) {}

  std::string_view name() const override { return name_; }

  Buffer allocate(std::size_t bytes) override {
    if (bytes == 0) return {};
    return {
        arena_->allocate(bytes), bytes,
        [arena = arena_](void* data, std::size_t) { arena->release(data); }};
  }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<FakeStream>(streams_);
  }
  Event record(Stream& stream) override {
    auto done = std::make_shared<bool>(false);
    as_fake(stream).queue.push_back({nullptr, done});
    return Event(done);
  }
  // Runs the streams up to this event; nothing runs before someone waits.
  void wait(const Event& event) override {
    for (FakeStream* stream : *streams_) {
      if (event.done()) return;
      run_until(*stream, event);
    }
    if (!event.done()) {
      throw std::logic_error("[fake_device] the event belongs to no stream");
    }
  }

  void copy_in(Stream& stream, void* target,
               std::span<const std::byte> source) override {
    std::vector<std::byte> bytes(source.begin(), source.end());
    enqueue(stream, [this, target, bytes = std::move(bytes)](Stream& s) {
      cpu_->copy_in(s, target, bytes);
    });
  }
  void copy_out(Stream& stream, std::span<std::byte> target,
                const void* source) override {
    enqueue(stream,
            [=, this](Stream& s) { cpu_->copy_out(s, target, source); });
  }
  void pack(Stream& stream, const TensorView& source, float* target) override {
    enqueue(stream, [=, this](Stream& s) { cpu_->pack(s, source, target); });
  }
  void fill(Stream& stream, float* target, std::size_t n,
            float value) override {
    enqueue(stream, [=, this](Stream& s) { cpu_->fill(s, target, n, value); });
  }
  void select(Stream& stream, const SelectPass& pass) override {
    enqueue_tasks(stream, pass.segments, [pass, this](Stream& s, auto tasks) {
      SelectPass copy = pass;
      copy.segments = tasks;
      cpu_->select(s, copy);
    });
  }
  void momentum(Stream& stream, const MomentumPass& pass) override {
    enqueue(stream, [=, this](Stream& s) { cpu_->momentum(s, pass); });
  }
  void quantize(Stream& stream, const QuantizePass& pass) override {
    enqueue_tasks(stream, pass.tasks, [pass, this](Stream& s, auto tasks) {
      QuantizePass copy = pass;
      copy.tasks = tasks;
      cpu_->quantize(s, copy);
    });
  }
  void scatter(Stream& stream, const ScatterPass& pass) override {
    enqueue(stream, [=, this](Stream& s) { cpu_->scatter(s, pass); });
  }

  void encode(Stream& stream, const EncodePass& pass) override {
    enqueue_forms(stream, pass, [this](Stream& s, const EncodePass& copy) {
      cpu_->encode(s, copy);
    });
  }
  void decode(Stream& stream, const DecodePass& pass) override {
    enqueue_forms(stream, pass, [this](Stream& s, const DecodePass& copy) {
      cpu_->decode(s, copy);
    });
  }

 private:
  static FakeStream& as_fake(Stream& stream) {
    return dynamic_cast<FakeStream&>(stream);
  }
  void enqueue(Stream& stream, std::function<void(Stream&)> run) {
    as_fake(stream).queue.push_back({std::move(run), nullptr});
  }
  template <class F>
  void enqueue_tasks(Stream& stream, std::span<const SegmentTask> tasks, F f) {
    std::vector<SegmentTask> copy(tasks.begin(), tasks.end());
    enqueue(stream, [copy = std::move(copy), f](Stream& s) {
      f(s, std::span<const SegmentTask>(copy));
    });
  }
  // With a copy of the pass's segments.
  template <class Pass, class F>
  void enqueue_forms(Stream& stream, const Pass& pass, F f) {
    std::vector<SegmentForm> forms(pass.segments.begin(), pass.segments.end());
    enqueue(stream, [pass, forms = std::move(forms), f](Stream& s) {
      Pass copy = pass;
      copy.segments = forms;
      f(s, copy);
    });
  }
  void run_until(FakeStream& stream, const Event& event) {
    while (!stream.queue.empty() && !event.done()) {
      Operation op = std::move(stream.queue.front());
      stream.queue.pop_front();
      if (op.done != nullptr) {
        *op.done = true;
        continue;
      }
      arena_->protect(PROT_READ | PROT_WRITE);
      op.run(*cpu_stream_);
      arena_->protect(PROT_NONE);
    }
  }

  std::unique_ptr<Backend> cpu_;
  std::unique_ptr<Stream> cpu_stream_;
  std::string name_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::shared_ptr<FakeStream::Registry> streams_ =
      std::make_shared<FakeStream::Registry>();
};

}  // namespace

std::unique_ptr<Backend> make_fake_device_backend(const CpuOptions& options) {
  return std::make_unique<FakeDeviceBackend>(options);
}

}  // namespace sluice
