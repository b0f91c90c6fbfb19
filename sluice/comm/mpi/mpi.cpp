#include "sluice/comm/mpi/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

using Clock = Engine::Clock;

constexpr int kTag = 1;
// A rank that waits yields for a moment, then sleeps, the longer it has waited
// the longer: with more ranks than cores a spinning one takes the time of one
// that computes, and so do those that wake up often. A moment, not a number of
// times: over TCP every look at the network is a call of the kernel's.
constexpr auto kMoment = std::chrono::microseconds(20);
constexpr auto kSleep = std::chrono::microseconds(20);
constexpr auto kLongSleep = std::chrono::microseconds(200);
constexpr int kWaitedPerSleep = 8;
constexpr auto kLastSends = std::chrono::seconds(10);
constexpr std::size_t kSmallParts = 64;
constexpr std::size_t kLargePart = std::size_t{1}
                                   << 30;               // bytes: an int counts
constexpr std::size_t kSumPart = std::size_t{1} << 28;  // elements

// Above its limit Open MPI asks the receiver before it sends, which took 2 ms
// per message in a ring of four hosts at 1 Gbit/s (netlab, November 2026).
// Parts of the default size go without; who has set limits keeps them.
void send_parts_at_once() {
  static_assert(MpiOptions::kPart + 1024 <= 160000);
  for (const char* name :
       {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_rndv_eager_limit",
        "OMPI_MCA_btl_tcp_max_send_size"}) {
    setenv(name, "160000", 0);
  }
}

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(code, text, &size);
  throw std::runtime_error(concat("[mpi] ", what, " failed: ", text));
}

struct Sending {
  Frame frame;
  std::vector<MPI_Request> requests;
};

struct Receiving {
  Frame frame;
  std::size_t have = 0;  // bytes of earlier parts
  std::size_t part = 0;  // bytes of the part that is under way
  std::size_t most = 0;  // bytes of the longest message so far
  MPI_Request request = MPI_REQUEST_NULL;
};

// What MPI may still write to or read from after a rank has given up.
struct Buffers {
  std::vector<Sending> sending;  // the first `under_way` of them
  std::size_t under_way = 0;
  std::vector<Receiving> receiving;
  std::vector<float> sums;
  MemoryOwner owner;  // of what is summed in place instead
  MPI_Request sum_request = MPI_REQUEST_NULL;
};

class MpiEngine final : public Engine {
 public:
  explicit MpiEngine(const MpiOptions& options) : options_(options) {
    int initialised = 0;
    MPI_Initialized(&initialised);
    if (initialised == 0) {
      int provided = 0;
      send_parts_at_once();
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided),
            "MPI_Init_thread");
      require(provided >= MPI_THREAD_SERIALIZED,
              "[mpi] MPI must allow calls from any one thread at a time "
              "(MPI_THREAD_SERIALIZED), got level ",
              provided);
      finalise_ = true;
    }
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    rank_ = rank_in(comm_);
    size_ = size_of(comm_);
    MPI_Comm local = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                              &local),
          "MPI_Comm_split_type");
    local_rank_ = rank_in(local);
    local_size_ = size_of(local);
    auto first = static_cast<int>(rank_);
    check(MPI_Bcast(&first, 1, MPI_INT, 0, local), "MPI_Bcast");
    machine_ = static_cast<std::size_t>(first);
    MPI_Comm_free(&local);
    buffers_->receiving.resize(size_);
  }

  ~MpiEngine() override {
    // After an error MPI may use its buffers for as long as the process lives.
    if (!finished_) [[maybe_unused]]
      Buffers* kept = buffers_.release();
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::size_t local_rank() const override { return local_rank_; }
  std::size_t local_size() const override { return local_size_; }
  std::size_t machine() const override { return machine_; }

  void post(std::size_t peer, const Frame& frame) override {
    // Used again together with the memory of its requests.
    if (buffers_->under_way == buffers_->sending.size()) {
      buffers_->sending.emplace_back();
    }
    Sending& s = buffers_->sending[buffers_->under_way++];
    s.frame = frame;
    s.requests.clear();
    const std::span<std::byte> bytes = frame.bytes();
    // A part of full size is followed by another, so the last is always short.
    for (std::size_t at = 0; at <= bytes.size(); at += part_at(at)) {
      const std::size_t part = std::min(part_at(at), bytes.size() - at);
      check(MPI_Isend(bytes.data() + at, static_cast<int>(part), MPI_BYTE,
                      static_cast<int>(peer), kTag, comm_,
                      &s.requests.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Isend");
    }
    forget_sent();
  }

  bool poll(std::size_t peer, Frame& frame) override {
    Receiving& r = buffers_->receiving[peer];
    while (true) {
      if (r.request == MPI_REQUEST_NULL && !start_part(peer, r)) return false;
      int done = 0;
      check(MPI_Test(&r.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) return false;
      const bool last = r.part < part_at(r.have);
      r.have += r.part;
      if (last) break;
    }
    frame = std::move(r.frame);
    r.frame = {};
    r.most = std::max(r.most, r.have);
    frame.resize(std::max(r.have, Frame::kHeader) - Frame::kHeader);
    // No header of an earlier frame may show in one that is too short.
    for (; r.have < Frame::kHeader; ++r.have) {
      frame.bytes()[r.have] = std::byte{0};
    }
    r.have = 0;
    waiting_ = false;
    return true;
  }

  void idle(Clock::time_point until) override {
    forget_sent();
    const Clock::time_point looked = Clock::now();
    if (!waiting_) began_ = looked;
    waiting_ = true;
    const Clock::duration waited = looked - began_;
    if (waited < kMoment) {
      std::this_thread::yield();
    } else {
      const Clock::duration sleep = std::clamp<Clock::duration>(
          waited / kWaitedPerSleep, kSleep, kLongSleep);
      std::this_thread::sleep_until(std::min(until, looked + sleep));
    }
  }

  // After an error a sum of some rank may be outstanding for ever, and MPI
  // would match it with the next one of another.
  void rebuild() override { sums_ = false; }

  // By memory that is not the caller's alone: a late sum still writes there.
  Native sum(std::span<const float> in, std::span<float> out,
             const MemoryOwner& owner,
             const std::function<bool()>& late) override {
    if (!sums_) return Native::kNone;
    const bool in_place = owner != nullptr && in.data() == out.data();
    if (in_place) {
      buffers_->owner = owner;
    } else {
      buffers_->sums.assign(in.begin(), in.end());
    }
    const std::span<float> sums = in_place ? out : std::span(buffers_->sums);
    for (std::size_t at = 0; at < sums.size(); at += kSumPart) {
      const std::size_t part = std::min(kSumPart, sums.size() - at);
      MPI_Request& request = buffers_->sum_request;
      check(
          MPI_Iallreduce(MPI_IN_PLACE, sums.data() + at, static_cast<int>(part),
                         MPI_FLOAT, MPI_SUM, comm_, &request),
          "MPI_Iallreduce");
      waiting_ = false;
      while (true) {
        int done = 0;
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done != 0) break;
        if (late()) return Native::kLate;
        idle(now() + kSleep);
      }
    }
    buffers_->owner.reset();
    if (!in_place) std::copy(sums.begin(), sums.end(), out.begin());
    return Native::kDone;
  }

  void finish() override {
    const auto until = now() + kLastSends;
    for (forget_sent(); buffers_->under_way > 0; forget_sent()) {
      ensure(now() < until,
             "[mpi] a message that nobody received is left at the end");
      std::this_thread::yield();
    }
    MPI_Comm_free(&comm_);
    if (options_.before_finalize) options_.before_finalize();
    if (finalise_) MPI_Finalize();
    finished_ = true;
  }

 private:
  static std::size_t rank_in(MPI_Comm comm) {
    int rank = 0;
    check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    return static_cast<std::size_t>(rank);
  }
  static std::size_t size_of(MPI_Comm comm) {
    int size = 0;
    check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    return static_cast<std::size_t>(size);
  }

  // Bytes of a full part that starts at `at`: thousands of small ones would be
  // slower than asking.
  std::size_t part_at(std::size_t at) const {
    return at < kSmallParts * options_.part ? options_.part : kLargePart;
  }

  bool start_part(std::size_t peer, Receiving& r) {
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(static_cast<int>(peer), kTag, comm_, &there, &message,
                      &status),
          "MPI_Improbe");
    if (there == 0) return false;
    int part = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &part), "MPI_Get_count");
    r.part = static_cast<std::size_t>(part);
    make_room(r);
    check(MPI_Imrecv(r.frame.bytes().data() + r.have, part, MPI_BYTE, &message,
                     &r.request),
          "MPI_Imrecv");
    return true;
  }

  // For the next part behind those that are there.
  void make_room(Receiving& r) {
    const std::size_t need = r.have + r.part;
    if (!r.frame.empty() && r.frame.bytes().size() >= need) return;
    // More parts follow a full one: as much as ever came, or twice as much.
    const std::size_t room =
        r.part < part_at(r.have) ? need : std::max({need, 2 * r.have, r.most});
    Frame larger = pool_.get(std::max(room, Frame::kHeader) - Frame::kHeader);
    if (r.have > 0) {
      std::copy_n(r.frame.bytes().begin(), r.have, larger.bytes().begin());
    }
    r.frame = std::move(larger);
  }

  void forget_sent() {
    for (std::size_t i = 0; i < buffers_->under_way;) {
      Sending& s = buffers_->sending[i];
      int done = 0;
      check(MPI_Testall(static_cast<int>(s.requests.size()), s.requests.data(),
                        &done, MPI_STATUSES_IGNORE),
            "MPI_Testall");
      if (done == 0) {
        ++i;
        continue;
      }
      s.frame = {};
      std::swap(s, buffers_->sending[--buffers_->under_way]);
    }
  }

  MpiOptions options_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::size_t rank_ = 0;
  std::size_t size_ = 1;
  std::size_t local_rank_ = 0;
  std::size_t local_size_ = 1;
  std::size_t machine_ = 0;
  bool finalise_ = false;
  bool finished_ = false;
  bool sums_ = true;  // MPI's own may be used
  bool waiting_ = false;
  Clock::time_point began_{};  // to wait
  FramePool pool_;
  std::unique_ptr<Buffers> buffers_ = std::make_unique<Buffers>();
};

}  // namespace

bool mpi_is_built() { return true; }

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int size = 0;
  MPI_Get_library_version(text, &size);
  const std::string_view version(text, static_cast<std::size_t>(size));
  return std::string(version.substr(0, version.find_first_of(",\n")));
}

bool mpi_launched() {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

std::unique_ptr<Engine> make_mpi_engine(const MpiOptions& options) {
  require(options.part > 0 && options.part <= std::size_t{1} << 30,
          "[mpi] parts must be from 1 to 2^30 bytes, got ", options.part);
  return std::make_unique<MpiEngine>(options);
}

}  // namespace sluice
