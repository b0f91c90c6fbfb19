#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/backend/cuda/stream.h"
#include "sluice/comm/nccl/api.h"
#include "sluice/comm/nccl/nccl.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr const char* kWhere = " inside NCCL";

// NcclRank as bytes.
struct Facts {
  char problem[512] = {};
  char gpu[40] = {};
  std::int32_t version = 0;
  std::int32_t shares = 0;
};

template <std::size_t N>
void put(char (&target)[N], const std::string& text) {
  std::strncpy(target, text.c_str(), N - 1);
}

// The same on every machine, and of a part of a GPU (MIG) its own.
std::string uuid_of(int device) {
  cudaDeviceProp properties = {};
  cuda::check(cudaGetDeviceProperties(&properties, device),
              "to ask for a GPU's UUID");
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : properties.uuid.bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

Facts own_facts(int device, std::string problem) {
  Facts facts;
  if (problem.empty()) problem = cuda_problem(device);
  if (problem.empty()) problem = nccl::api().problem;
  try {
    if (problem.empty()) put(facts.gpu, uuid_of(device));
  } catch (const std::exception& e) {
    problem = e.what();  // the others are waiting for it
  }
  put(facts.problem, problem);
  facts.version = nccl::api().version;
  const char* shares = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  facts.shares = shares != nullptr && std::string(shares) == "1" ? 1 : 0;
  return facts;
}

std::vector<NcclRank> gather_facts(Communicator& comm, const Facts& mine) {
  comm.begin("nccl", Communicator::kBetweenSteps);
  std::vector<NcclRank> ranks;
  for (std::size_t r = 0; r < comm.size(); ++r) {
    if (r != comm.rank()) comm.send(r, 0, std::as_bytes(std::span(&mine, 1)));
  }
  for (std::size_t r = 0; r < comm.size(); ++r) {
    Facts facts = mine;
    if (r != comm.rank()) {
      const auto bytes = comm.receive(r, 0);
      if (bytes.size() != sizeof(facts)) comm.reject(r, "no facts of NCCL");
      std::memcpy(&facts, bytes.data(), sizeof(facts));
    }
    ranks.push_back(
        {facts.problem, facts.version, facts.gpu, facts.shares == 1});
  }
  return ranks;
}

// Its communicator is non-blocking: a blocking one can wait for a dead rank for
// ever, where nobody can abort it.
class NcclLink final : public DeviceLink {
 public:
  NcclLink(Communicator& comm, int device)
      : DeviceLink(comm), api_(nccl::api()), device_(device) {}
  ~NcclLink() override { abort(); }

  std::string_view name() const override { return "nccl"; }

  void wait(const Event& event) override {
    use();
    comm_.wait_until(
        [&] {
          check();
          return event.done();
        },
        kWhere);
  }

  void abort() noexcept override {
    if (nccl_ == nullptr) return;
    cudaSetDevice(device_);
    api_.abort(nccl_);
    nccl_ = nullptr;
  }

  void rebuild() override {
    constexpr std::uint32_t kId = 1;
    abort();
    use();
    comm_.begin("nccl", Communicator::kBetweenSteps);
    nccl::UniqueId id;
    if (comm_.rank() == 0) {
      settle(api_.get_unique_id(&id));
      for (std::size_t r = 1; r < comm_.size(); ++r) {
        comm_.send(r, kId, std::as_bytes(std::span(&id, 1)));
      }
    } else {
      const auto bytes = comm_.receive(0, kId);
      if (bytes.size() != sizeof(id)) comm_.reject(0, "no id of NCCL");
      std::memcpy(&id, bytes.data(), sizeof(id));
    }
    nccl::Config config;
    config.blocking = 0;
    settle(api_.init(&nccl_, static_cast<int>(comm_.size()), id,
                     static_cast<int>(comm_.rank()), &config));
  }

 private:
  void enqueue_all_gather(Stream& stream, const void* mine, void* all,
                          std::size_t bytes) override {
    use();
    settle(api_.all_gather(mine, all, bytes, nccl::kUint8, connected(),
                           cuda::as_cuda(stream).handle));
  }

  void enqueue_all_to_all(Stream& stream, const void* out, void* in,
                          std::size_t bytes) override {
    use();
    const auto* from = static_cast<const std::byte*>(out);
    auto* to = static_cast<std::byte*>(in);
    const cudaStream_t handle = cuda::as_cuda(stream).handle;
    nccl::Communicator* const nccl = connected();
    settle(api_.group_start());
    for (std::size_t r = 0; r < comm_.size(); ++r) {
      const int peer = static_cast<int>(r);
      // What goes wrong here, the group's end tells.
      api_.send(from + r * bytes, bytes, nccl::kUint8, peer, nccl, handle);
      api_.receive(to + r * bytes, bytes, nccl::kUint8, peer, nccl, handle);
    }
    settle(api_.group_end());
  }

  void enqueue_sum(Stream& stream, const float* in, float* out,
                   std::size_t n) override {
    use();
    settle(api_.all_reduce(in, out, n, nccl::kFloat32, nccl::kSum, connected(),
                           cuda::as_cuda(stream).handle));
  }

  void use() const { cuda::check(cudaSetDevice(device_), "to use the device"); }

  nccl::Communicator* connected() const {
    if (nccl_ == nullptr) {
      throw std::logic_error("[nccl] a link that was aborted must be rebuilt");
    }
    return nccl_;
  }

  // Until what was called is on the stream: only then may more be enqueued.
  void settle(nccl::Result result) {
    if (result == nccl::kInProgress) {
      comm_.wait_until([&] { return check() != nccl::kInProgress; }, kWhere);
    } else if (result != nccl::kSuccess) {
      fail(result);
    }
  }

  // kSuccess or kInProgress; throws if NCCL has found anything else.
  nccl::Result check() {
    if (nccl_ == nullptr) return nccl::kSuccess;
    nccl::Result state = nccl::kSuccess;
    const nccl::Result asked = api_.get_async_error(nccl_, &state);
    if (asked != nccl::kSuccess) state = asked;
    if (state != nccl::kSuccess && state != nccl::kInProgress) fail(state);
    return state;
  }

  // NCCL does not say which rank it has lost; the others may know.
  [[noreturn]] void fail(nccl::Result result) {
    const char* more = nccl_ != nullptr ? api_.last_error(nccl_) : nullptr;
    std::string what = api_.error_string(result);
    if (more != nullptr && *more != '\0') what += concat(": ", more);
    if (result == nccl::kRemoteError || result == nccl::kSystemError) {
      comm_.give_up(concat(kWhere, " (", what, ")"));
    }
    comm_.abandon(concat("[nccl] NCCL failed on rank ", comm_.rank(), ": ",
                         what, "; NCCL_DEBUG=WARN says more"));
  }

  const nccl::Api& api_;
  int device_;
  nccl::Communicator* nccl_ = nullptr;
};

}  // namespace

NcclLinkOrProblem make_nccl_link(Communicator& comm, int device,
                                 const std::string& problem) {
  const auto ranks = gather_facts(comm, own_facts(device, problem));
  std::string together = nccl_problem(ranks);
  if (!together.empty()) return {nullptr, std::move(together)};
  auto link = std::make_unique<NcclLink>(comm, device);
  link->rebuild();
  return {std::move(link), {}};
}

}  // namespace sluice
