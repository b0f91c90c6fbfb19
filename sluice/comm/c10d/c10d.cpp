#include "sluice/comm/c10d/c10d.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "sluice/comm/c10d/mailbox.h"
#include "sluice/core/ensure.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

using Clock = Engine::Clock;
using Group = c10::intrusive_ptr<c10d::Backend>;
using Work = c10::intrusive_ptr<c10d::Work>;

// A frame travels as its length with the frame itself behind it if it is short,
// else as its length and then, by another tag, as it is. So short ones take one
// message, and long ones are never copied.
constexpr std::size_t kShort = std::size_t{1} << 16;
constexpr int kFirstTag = 1;
constexpr int kRestTag = 2;
// gloo sends when it knows that the receiver waits; so several are waited for,
// or each message would take the way back as well.
constexpr std::size_t kPosted = 4;
// Who closes its connections says so, and waits until its peers have heard it,
// and so all that it sent before: what is on its way is lost with a connection.
// Lengths that no frame has.
constexpr std::uint64_t kLeaves = 0;
constexpr std::uint64_t kHeard = 1;
// Waits end by abort(): one that ends by time closes all of gloo's connections.
constexpr auto kForever = std::chrono::hours(24 * 365);
constexpr auto kMoment = std::chrono::milliseconds(50);
constexpr auto kLastSends = std::chrono::seconds(5);
// As GLOO_SOCKET_IFNAME may name them: each has connections of its own, and a
// message those of its tag modulo their number.
constexpr int kMostDevices = 8;

at::Tensor tensor_over(std::span<std::byte> bytes) {
  return at::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())},
                       at::kByte);
}

// What is on its way: keeps frames until gloo has sent them, which only a
// thread that waits can tell.
class Sender {
 public:
  explicit Sender(Group group) : group_(std::move(group)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Sender() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLastSends, [&] { return sending_.empty(); });
    stopping_ = true;
    if (!sending_.empty()) sending_.front().work->abort();
    lock.unlock();
    changed_.notify_all();
    thread_.join();
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void send_word(std::size_t peer, std::uint64_t word) {
    const Frame first = pool_.get(sizeof(word));
    std::memcpy(first.payload().data(), &word, sizeof(word));
    start(peer, first, first.payload(), kFirstTag);
  }

  void send(std::size_t peer, const Frame& frame) {
    const std::span<std::byte> bytes = frame.bytes();
    const std::uint64_t size = bytes.size();
    const std::size_t along = size <= kShort ? size : 0;
    const Frame first = pool_.get(sizeof(size) + along);
    std::memcpy(first.payload().data(), &size, sizeof(size));
    std::memcpy(first.payload().data() + sizeof(size), bytes.data(), along);
    start(peer, first, first.payload(), kFirstTag);
    if (along == 0) start(peer, frame, bytes, kRestTag);
  }

 private:
  struct Sending {
    Work work;
    Frame frame;
  };

  void start(std::size_t peer, const Frame& frame, std::span<std::byte> bytes,
             int tag) {
    std::vector<at::Tensor> tensors = {tensor_over(bytes)};
    Work work = group_->send(tensors, static_cast<int>(peer), tag);
    const std::lock_guard lock(mutex_);
    sending_.push({std::move(work), frame});
    changed_.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !sending_.empty(); });
      if (stopping_) return;
      const Work work = sending_.front().work;
      lock.unlock();
      try {
        work->wait(kForever);
      } catch (const std::exception&) {
        // To a lost peer.
      }
      lock.lock();
      if (stopping_) return;
      sending_.pop();
      changed_.notify_all();
    }
  }

  Group group_;
  FramePool pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Fifo<Sending> sending_;  // the first is being waited for
  bool stopping_ = false;
  std::thread thread_;
};

// What arrives from one peer, on a thread of its own.
class Receiver {
 public:
  Receiver(Group group, std::size_t peer, Mailbox& mailbox, Sender& sender)
      : group_(std::move(group)),
        peer_(peer),
        mailbox_(mailbox),
        sender_(sender) {
    thread_ = std::thread([this] { run(); });
  }
  ~Receiver() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (Posted& first : firsts_) abort(first.work);
      abort(rest_);
    }
    thread_.join();
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

 private:
  struct Posted {
    std::array<std::byte, sizeof(std::uint64_t) + kShort> bytes;
    Work work;
  };

  static void abort(const Work& work) {
    if (work) work->abort();
  }

  void run() {
    try {
      for (Posted& first : firsts_) post(first.bytes, kFirstTag, first.work);
      for (std::size_t i = 0; receive(firsts_[i]); i = (i + 1) % kPosted) {
      }
    } catch (const std::exception&) {
      mailbox_.close(peer_);
      mailbox_.tell(peer_);
    }
  }

  // Once stopping, nothing is posted any more.
  void post(std::span<std::byte> bytes, int tag, Work& work) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    std::vector<at::Tensor> tensors = {tensor_over(bytes)};
    work = group_->recv(tensors, static_cast<int>(peer_), tag);
  }

  // False if it was aborted.
  bool wait(const Work& work) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return false;
    }
    return work->wait(kForever);
  }

  bool receive(Posted& first) {
    if (!wait(first.work)) return false;
    std::uint64_t size = 0;
    std::memcpy(&size, first.bytes.data(), sizeof(size));
    if (size < Frame::kHeader) {
      take_word(size);
      post(first.bytes, kFirstTag, first.work);
      return true;
    }
    Frame frame = pool_.get(size - Frame::kHeader);
    if (size <= kShort) {
      std::memcpy(frame.bytes().data(), first.bytes.data() + sizeof(size),
                  size);
    } else {
      post(frame.bytes(), kRestTag, rest_);
      if (!wait(rest_)) return false;
    }
    post(first.bytes, kFirstTag, first.work);
    mailbox_.put(peer_, std::move(frame));
    return true;
  }

  void take_word(std::uint64_t word) {
    ensure(word == kLeaves || word == kHeard, "[c10d] rank ", peer_,
           " must send frames, sent ", word, " bytes");
    if (word == kHeard) return mailbox_.tell(peer_);
    mailbox_.close(peer_);
    sender_.send_word(peer_, kHeard);
  }

  Group group_;
  std::size_t peer_;
  Mailbox& mailbox_;
  Sender& sender_;
  FramePool pool_;
  std::mutex mutex_;  // of what abort() must see
  bool stopping_ = false;
  std::array<Posted, kPosted> firsts_;
  Work rest_;
  std::thread thread_;
};

constexpr std::size_t kText = 256;

// What each rank brings, cut to so many bytes. A call of all ranks.
std::vector<std::string> gather_texts(const Group& group,
                                      const std::string& mine) {
  const auto n = static_cast<std::int64_t>(kText);
  std::vector<at::Tensor> inputs = {at::zeros({n}, at::kByte)};
  std::memcpy(inputs[0].mutable_data_ptr(), mine.data(),
              std::min(mine.size(), kText - 1));
  std::vector<std::vector<at::Tensor>> all(1);
  for (int r = 0; r < group->getSize(); ++r) {
    all[0].push_back(at::zeros({n}, at::kByte));
  }
  group->allgather(all, inputs)->wait();
  std::vector<std::string> texts;
  for (const at::Tensor& text : all[0]) {
    texts.emplace_back(static_cast<const char*>(text.const_data_ptr()));
  }
  return texts;
}

// Per rank, the first rank on its machine.
std::vector<std::size_t> machines_in(const Group& group) {
  std::array<char, kText> name = {};
  gethostname(name.data(), kText - 1);
  const auto names = gather_texts(group, name.data());
  std::vector<std::size_t> first;
  for (const std::string& n : names) {
    first.push_back(
        static_cast<std::size_t>(std::ranges::find(names, n) - names.begin()));
  }
  return first;
}

void compare_labels(const Group& group, const std::string& label) {
  const auto labels = gather_texts(group, label);
  for (std::size_t r = 0; r < labels.size(); ++r) {
    require(labels[r] == labels[0],
            "[attach] all ranks must use the group alike, but rank ", r,
            " has '", labels[r], "' and rank 0 '", labels[0], "'");
  }
}

// Which gloo's work keeps for as long as it writes there.
at::Tensor tensor_of(std::span<float> values, const MemoryOwner& owner) {
  return at::from_blob(
      values.data(), {static_cast<std::int64_t>(values.size())},
      [owner](void*) {}, at::kFloat);
}

// Sums that nobody waits for any more, and that write to their memory still.
class LateSums {
 public:
  void add(const Work& work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(work);
  }
  // Ends them, and with them the group: a receive that ends by time closes
  // its connections.
  void end(const Group& group) {
    const std::lock_guard lock(mutex_);
    for (int tag = 0; tag < kMostDevices && !works_.empty(); ++tag) {
      wait([&] { receive_nothing(group, tag); });
    }
    for (const Work& work : works_) {
      while (!work->isCompleted()) wait([&] { work->wait(kMoment); });
    }
    works_.clear();
  }

 private:
  // From no rank in particular: some may have closed theirs already.
  static void receive_nothing(const Group& group, int tag) {
    std::vector<at::Tensor> tensors = {at::empty({1}, at::kByte)};
    group->recvAnysource(tensors, tag)->wait(std::chrono::milliseconds(1));
  }
  // Whatever it ends by.
  template <class Wait>
  static void wait(Wait&& wait) {
    try {
      wait();
    } catch (const std::exception&) {
    }
  }

  std::mutex mutex_;
  std::vector<Work> works_;
};

class GlooSum final : public Engine::Sum {
 public:
  GlooSum(const Group& group, const at::Tensor& values, LateSums& late)
      : late_(late) {
    try {
      std::vector<at::Tensor> tensors = {values};
      work_ = group->allreduce(tensors);
    } catch (const std::exception&) {
      // The connection is closed, as wait() says.
    }
  }
  ~GlooSum() override {
    if (work_ && !work_->isCompleted()) late_.add(work_);
  }

  Engine::Native wait(const std::function<bool()>& late) override {
    while (!is_done()) {
      if (has_failed() || late()) return Engine::Native::kLate;
    }
    return Engine::Native::kDone;
  }

 private:
  // Waits a moment, which ends by an exception as well as a failure does.
  bool is_done() {
    try {
      return work_ && work_->wait(kMoment);
    } catch (const std::exception&) {
      return false;
    }
  }
  // A work may end well right after is_done() has looked.
  bool has_failed() const {
    return !work_ || (work_->isCompleted() && !work_->isSuccess());
  }

  LateSums& late_;
  Work work_;
};

class C10dEngine final : public Engine {
 public:
  C10dEngine(const Group& group, const Group& sums)
      : group_(group),
        rank_(static_cast<std::size_t>(group->getRank())),
        machines_(machines_in(group_)),
        sums_(sums),
        mailbox_(machines_.size()),
        sender_(group_) {
    for (std::size_t r = 0; r < size(); ++r) {
      if (machines_[r] == machine()) {
        if (r < rank_) ++local_rank_;
        ++local_size_;
      }
      if (r == rank_) continue;
      receivers_.push_back(
          std::make_unique<Receiver>(group_, r, mailbox_, sender_));
    }
  }

  ~C10dEngine() override {
    for (std::size_t r = 0; r < size(); ++r) {
      if (r != rank_) leave(r);
    }
    mailbox_.wait_until_told(rank_, kLastSends);
    receivers_.clear();  // they answer by the sender
    // A sum that nobody ends keeps the group from being destroyed until its
    // timeout.
    if (sums_) late_sums_.end(sums_);
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return machines_.size(); }
  std::size_t local_rank() const override { return local_rank_; }
  std::size_t local_size() const override { return local_size_; }
  std::size_t machine() const override { return machines_[rank_]; }

  void post(std::size_t peer, const Frame& frame) override {
    try {
      sender_.send(peer, frame);
    } catch (const std::exception&) {
      // The connection is closed, which the receiver of this peer notices.
    }
  }
  bool poll(std::size_t peer, Frame& frame) override {
    return mailbox_.take(peer, frame);
  }
  bool closed(std::size_t peer) const override { return mailbox_.closed(peer); }
  void idle(Clock::time_point until) override { mailbox_.wait(until); }

  // By memory that is not the caller's alone: a late sum still writes there.
  Native sum(std::span<const float> in, std::span<float> out,
             const MemoryOwner& owner,
             const std::function<bool()>& late) override {
    if (!sums_) return Native::kNone;
    const bool in_place = owner != nullptr && out.data() == in.data();
    const at::Tensor values = in_place ? tensor_of(out, owner) : copy_of(in);
    const Native done = GlooSum(sums_, values, late_sums_).wait(late);
    if (done == Native::kDone && !in_place) {
      std::memcpy(out.data(), values.const_data_ptr(), out.size_bytes());
    }
    return done;
  }
  std::unique_ptr<Sum> start_sum(std::span<float> values,
                                 const MemoryOwner& owner) override {
    if (!sums_) return nullptr;
    return std::make_unique<GlooSum>(sums_, tensor_of(values, owner),
                                     late_sums_);
  }

  // After an error a sum of some rank may be outstanding, or have closed the
  // connections. Who goes on fills the same memory again, as DDP its buckets.
  void rebuild() override {
    if (sums_) late_sums_.end(sums_);
    sums_.reset();
  }

 private:
  void leave(std::size_t peer) {
    try {
      sender_.send_word(peer, kLeaves);
    } catch (const std::exception&) {
      mailbox_.tell(peer);
    }
  }

  // Used again, for sums of equal size.
  at::Tensor copy_of(std::span<const float> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    if (!sum_.defined() || sum_.numel() != n) sum_ = at::empty({n}, at::kFloat);
    std::memcpy(sum_.mutable_data_ptr(), values.data(), values.size_bytes());
    return sum_;
  }

  Group group_;
  std::size_t rank_;
  std::vector<std::size_t> machines_;
  std::size_t local_rank_ = 0;
  std::size_t local_size_ = 0;
  at::Tensor sum_;
  Group sums_;  // null: gloo's own may not be used
  LateSums late_sums_;
  Mailbox mailbox_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
  Sender sender_;
};

}  // namespace

std::unique_ptr<Engine> make_c10d_engine(
    const c10::intrusive_ptr<c10d::Backend>& group,
    const c10::intrusive_ptr<c10d::Backend>& sums, const std::string& label) {
  compare_labels(group, label);
  return std::make_unique<C10dEngine>(group, sums);
}

}  // namespace sluice
