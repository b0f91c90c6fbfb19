#include "fake_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "sluice/core/ensure.h"

namespace sluice::testing {
namespace {

constexpr std::size_t kMemory = std::size_t{1} << 32;

void* map(std::size_t bytes, int protection, int flags, int file) {
  void* data = mmap(nullptr, bytes, protection, flags, file, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return data;
}

// The device's memory, at two addresses: one that the host is told and that
// nobody may touch, and one that the device's own operations use.
class DeviceMemory {
 public:
  DeviceMemory()
      : file_(memfd_create("sluice-fake-device", MFD_CLOEXEC)),
        told_(static_cast<std::byte*>(
            map(kMemory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1))) {
    if (file_ < 0 || ftruncate(file_, kMemory) != 0) throw std::bad_alloc();
    own_ = static_cast<std::byte*>(map(kMemory, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_NORESERVE, file_));
    free_[0] = kMemory;
  }
  ~DeviceMemory() {
    munmap(told_, kMemory);
    munmap(own_, kMemory);
    close(file_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = whole_pages(bytes);
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < size) continue;
      const auto [offset, room] = *at;
      free_.erase(at);
      if (room > size) free_[offset + size] = room - size;
      return told_ + offset;
    }
    throw std::bad_alloc();
  }
  // Zeroed for whoever gets it next.
  void release(void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto offset =
        static_cast<std::size_t>(static_cast<std::byte*>(data) - told_);
    const std::size_t size = whole_pages(bytes);
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(offset), static_cast<off_t>(size));
    free_[offset] = size;
  }

  // Where the device finds what the host knows as `data`.
  template <class T>
  T* own(T* data) const {
    if (data == nullptr) return nullptr;
    const auto* at = reinterpret_cast<const std::byte*>(data);
    expect(at >= told_ && at < told_ + kMemory,
           "[fake_device] a pass must be given memory of the device, got some "
           "of the host's; copy_in() takes it there");
    return reinterpret_cast<T*>(const_cast<std::byte*>(at) - told_ + own_);
  }

 private:
  static std::size_t whole_pages(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
  }

  int file_;
  std::byte* told_;
  std::byte* own_ = nullptr;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // offset to bytes
};

class FakeStream;

struct FakeEvent final : public Event::State {
  explicit FakeEvent(FakeStream& s) : stream(&s) {}
  bool done() const override { return has_run; }

  FakeStream* stream;
  std::atomic<bool> has_run{false};
};

struct Operation {
  std::function<void(Stream&)> run;        // or
  std::shared_ptr<FakeEvent> reached;      // or
  std::shared_ptr<const FakeEvent> after;  // wait for it
};

// Streams that are still there, and what orders all that happens to them.
struct Queues {
  std::mutex mutex;
  std::set<FakeStream*> streams;
};

class FakeStream final : public Stream {
 public:
  explicit FakeStream(std::shared_ptr<Queues> queues)
      : queues_(std::move(queues)) {
    const std::lock_guard lock(queues_->mutex);
    queues_->streams.insert(this);
  }
  ~FakeStream() override {
    const std::lock_guard lock(queues_->mutex);
    queues_->streams.erase(this);
  }

  std::list<Operation> queue;

 private:
  std::shared_ptr<Queues> queues_;
};

class FakeDeviceBackend final : public Backend {
 public:
  FakeDeviceBackend(const CpuOptions& options, FakeDeviceLog* log)
      : log_(log),
        cpu_(make_cpu_backend(options)),
        cpu_stream_(cpu_->make_stream()),
        name_(concat("fake/", cpu_->name())) {}

  std::string_view name() const override { return name_; }
  bool is_host() const override { return false; }

  Buffer allocate(std::size_t bytes) override {
    if (bytes == 0) return {};
    return {memory_->allocate(bytes), bytes,
            [memory = memory_](void* data, std::size_t size) {
              memory->release(data, size);
            }};
  }
  Buffer allocate_host(std::size_t bytes) override {
    return cpu_->allocate_host(bytes);
  }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<FakeStream>(queues_);
  }
  Event record(Stream& stream) override {
    auto event = std::make_shared<FakeEvent>(as_fake(stream));
    push(stream, {nullptr, event, nullptr});
    return Event(event);
  }
  // Runs what the event waits for; nothing runs before someone waits.
  void wait(const Event& event) override {
    if (event.done()) return;
    if (log_ != nullptr) ++log_->waits;
    const std::lock_guard lock(queues_->mutex);
    run_until(as_fake(event));
  }
  void wait(Stream& stream, const Event& event) override {
    if (event.done()) return;
    as_fake(event);
    push(stream, {nullptr, nullptr,
                  std::static_pointer_cast<const FakeEvent>(event.state())});
  }

  void copy_in(Stream& stream, void* target,
               std::span<const std::byte> source) override {
    if (source.empty()) return;
    std::vector<std::byte> bytes(source.begin(), source.end());
    enqueue(stream, [this, to = at(target), bytes = std::move(bytes)](
                        Stream& s) { cpu_->copy_in(s, to, bytes); });
  }
  void copy_out(Stream& stream, std::span<std::byte> target,
                const void* source) override {
    if (target.empty()) return;
    if (log_ != nullptr) log_->bytes_out += target.size();
    enqueue(stream, [=, this, from = at(source)](Stream& s) {
      cpu_->copy_out(s, target, from);
    });
  }
  void fill(Stream& stream, float* target, std::size_t n,
            float value) override {
    enqueue(stream, [=, this, to = at(target)](Stream& s) {
      cpu_->fill(s, to, n, value);
    });
  }

  void count_nonfinite(Stream& stream, const float* values, std::size_t n,
                       std::uint64_t* count) override {
    enqueue(stream, [=, this, from = at(values), to = at(count)](Stream& s) {
      cpu_->count_nonfinite(s, from, n, to);
    });
  }
  void pack(Stream& stream, const PackPass& pass) override {
    defer(stream, &Backend::pack, placed(pass, &PackPass::target),
          &PackPass::sources, &PackPass::residuals);
  }
  void select(Stream& stream, const SelectPass& pass) override {
    using P = SelectPass;
    defer(stream, &Backend::select,
          placed(pass, &P::states, &P::reports, &P::indices, &P::values,
                 &P::starts),
          &P::segments);
  }
  void momentum(Stream& stream, const MomentumPass& pass) override {
    defer(stream, &Backend::momentum, pass, &MomentumPass::tasks);
  }
  void quantize(Stream& stream, const QuantizePass& pass) override {
    using P = QuantizePass;
    defer(stream, &Backend::quantize,
          placed(pass, &P::indices, &P::values, &P::starts), &P::tasks);
  }
  void narrow(Stream& stream, const NarrowPass& pass) override {
    using P = NarrowPass;
    defer(stream, &Backend::narrow,
          placed(pass, &P::values, &P::words, &P::remainders));
  }
  void widen(Stream& stream, const WidenPass& pass) override {
    using P = WidenPass;
    defer(stream, &Backend::widen, placed(pass, &P::words, &P::own, &P::out));
  }
  void scatter(Stream& stream, const ScatterPass& pass) override {
    defer(stream, &Backend::scatter, pass, &ScatterPass::lists,
          &ScatterPass::targets);
  }
  void gather(Stream& stream, const GatherPass& pass) override {
    GatherPass own = placed(pass, &GatherPass::values);
    own.at = owned(pass.at);
    defer(stream, &Backend::gather, own, &GatherPass::sources);
  }
  void apply(Stream& stream, const ApplyPass& pass) override {
    using P = ApplyPass;
    defer(stream, &Backend::apply, placed(pass, &P::dense, &P::nonfinite),
          &P::lists, &P::targets);
  }
  void encode(Stream& stream, const EncodePass& pass) override {
    using P = EncodePass;
    defer(
        stream, &Backend::encode,
        placed(pass, &P::indices, &P::values, &P::starts, &P::out, &P::written),
        &P::segments);
  }
  void decode(Stream& stream, const DecodePass& pass) override {
    using P = DecodePass;
    defer(stream, &Backend::decode,
          placed(pass, &P::in, &P::indices, &P::values, &P::starts, &P::result,
                 &P::size),
          &P::segments);
  }

  void work(Stream& stream, const void* in, void* out, FakeWork work) {
    const auto* from = static_cast<const std::byte*>(in);
    enqueue(stream, [work = std::move(work), from = at(from),
                     to = at(static_cast<std::byte*>(out))](Stream&) {
      work(from, to);
    });
  }

 private:
  static FakeStream& as_fake(Stream& stream) {
    return dynamic_cast<FakeStream&>(stream);
  }
  static const FakeEvent& as_fake(const Event& event) {
    const auto* fake = dynamic_cast<const FakeEvent*>(event.state().get());
    expect(fake != nullptr, "[fake_device] the event is another device's");
    return *fake;
  }

  template <class T>
  T* at(T* data) const {
    return memory_->own(data);
  }
  // A copy of `what` in which these pointers are the device's own.
  template <class T, class... Members>
  T placed(T what, Members... members) const {
    ((what.*members = at(what.*members)), ...);
    return what;
  }
  SparseView owned(const SparseView& view) const {
    return placed(view, &SparseView::indices, &SparseView::values,
                  &SparseView::count);
  }
  MemoryRange owned(const MemoryRange& range) const {
    return placed(range, &MemoryRange::data);
  }
  TensorView owned(TensorView view) const {
    if (view.size() > 0) {
      view.data = at(static_cast<std::byte*>(view.data));
    }
    return view;
  }
  SegmentTask owned(const SegmentTask& task) const {
    return placed(task, &SegmentTask::gradient, &SegmentTask::memory,
                  &SegmentTask::kept_out);
  }
  MomentumTask owned(const MomentumTask& task) const {
    return placed(task, &MomentumTask::gradient, &MomentumTask::momentum,
                  &MomentumTask::velocity, &MomentumTask::nonfinite);
  }
  static SegmentForm owned(const SegmentForm& form) { return form; }
  template <class T>
  std::vector<T> owned(std::span<const T> items) const {
    std::vector<T> copy;
    for (const T& item : items) copy.push_back(owned(item));
    return copy;
  }

  // Enqueues a pass with copies of what its spans hold: these are read during
  // the call, and the work runs later.
  template <class Pass, class... Spans>
  void defer(Stream& stream, void (Backend::*run)(Stream&, const Pass&),
             const Pass& pass, Spans... spans) {
    enqueue(stream, [=, this,
                     copies = std::tuple(owned(pass.*spans)...)](Stream& s) {
      Pass own = pass;
      std::apply([&](const auto&... copy) { ((own.*spans = copy), ...); },
                 copies);
      (cpu_.get()->*run)(s, own);
    });
  }
  void push(Stream& stream, Operation operation) {
    const std::lock_guard lock(queues_->mutex);
    as_fake(stream).queue.push_back(std::move(operation));
  }
  void enqueue(Stream& stream, std::function<void(Stream&)> run) {
    push(stream, {std::move(run), nullptr, nullptr});
  }

  // With the queues locked.
  void run_until(const FakeEvent& event) {
    expect(queues_->streams.contains(event.stream),
           "[fake_device] the event's stream is gone");
    std::list<Operation>& queue = event.stream->queue;
    while (!event.done()) {
      const Operation operation = std::move(queue.front());
      queue.pop_front();
      if (operation.after != nullptr && !operation.after->done()) {
        run_until(*operation.after);
      }
      if (operation.reached != nullptr) operation.reached->has_run = true;
      if (operation.run) operation.run(*cpu_stream_);
    }
  }

  FakeDeviceLog* log_;
  std::unique_ptr<Backend> cpu_;
  std::unique_ptr<Stream> cpu_stream_;
  std::string name_;
  std::shared_ptr<DeviceMemory> memory_ = std::make_shared<DeviceMemory>();
  std::shared_ptr<Queues> queues_ = std::make_shared<Queues>();
};

}  // namespace

std::unique_ptr<Backend> make_fake_device_backend(const CpuOptions& options,
                                                  FakeDeviceLog* log) {
  return std::make_unique<FakeDeviceBackend>(options, log);
}

bool enqueue_fake_work(Backend& backend, Stream& stream, const void* in,
                       void* out, FakeWork work) {
  auto* fake = dynamic_cast<FakeDeviceBackend*>(&backend);
  if (fake != nullptr) fake->work(stream, in, out, std::move(work));
  return fake != nullptr;
}

}  // namespace sluice::testing
