#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "fake_device.h"
#include "sluice/collective/patterns.h"
#include "sluice/comm/device_link.h"
#include "sluice/comm/threads/threads.h"

namespace sluice::testing {

// Where the links of ranks that are threads meet. `fault`, if any, makes some
// of what ranks give go nowhere: everything but kDeliver.
class LinkHub {
 public:
  explicit LinkHub(Fault fault = nullptr, void* context = nullptr)
      : fault_(fault), context_(context) {}

  // The next rebuild of rank 1's link fails.
  void refuse_rebuild() { refuses_ = true; }
  bool takes_refusal() { return refuses_.exchange(false); }

  // An exchange: the epoch, and the number in it.
  using Key = std::pair<std::uint64_t, std::uint64_t>;

  void give(const Key& key, std::size_t rank, std::vector<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = given_[rank]++;
    const bool lost = fault_ != nullptr &&
                      fault_(context_, rank, rank, number) != Fate::kDeliver;
    if (!lost) meetings_[key][rank] = std::move(bytes);
  }

  // What the ranks gave, by rank; empty if some are missing.
  std::vector<std::vector<std::byte>> take(const Key& key, std::size_t ranks) {
    const std::lock_guard lock(mutex_);
    std::vector<std::vector<std::byte>> all;
    if (meetings_[key].size() < ranks) return all;
    for (const auto& [rank, bytes] : meetings_[key]) all.push_back(bytes);
    return all;
  }

 private:
  Fault fault_;
  void* context_;
  std::atomic<bool> refuses_{false};
  std::mutex mutex_;
  std::map<std::size_t, std::uint64_t> given_;  // by rank
  std::map<Key, std::map<std::size_t, std::vector<std::byte>>> meetings_;
};

// A link of any device through memory of the host: what devices exchange,
// without hardware. On the fake device it runs when the device comes to it, as
// a real one's would; elsewhere at once.
class StagedLink final : public DeviceLink {
 public:
  StagedLink(LinkHub& hub, Communicator& comm, Backend& backend)
      : DeviceLink(comm),
        hub_(hub),
        backend_(backend),
        rank_(comm.rank()),
        size_(comm.size()) {}

  std::string_view name() const override { return "staged"; }
  void wait(const Event& event) override { backend_.wait(event); }
  void abort() noexcept override { aborted_ = true; }
  void rebuild() override {
    if (rank_ == 1 && hub_.takes_refusal()) {
      comm_.abandon("link", Communicator::kBetweenSteps,
                    "[link] rank 1 cannot connect");
    }
    comm_.barrier(Communicator::kBetweenSteps);
    aborted_ = false;
    next_ = 0;
  }

 private:
  using Gifts = std::vector<std::vector<std::byte>>;
  using Finish = std::function<void(const Gifts& all, std::byte* out)>;

  void enqueue_all_gather(Stream& stream, const void* mine, void* all,
                          std::size_t bytes) override {
    run(stream, mine, bytes, all, size_ * bytes,
        [=](const Gifts& gifts, std::byte* out) {
          for (std::size_t r = 0; r < gifts.size(); ++r) {
            std::memcpy(out + r * bytes, gifts[r].data(), bytes);
          }
        });
  }

  void enqueue_all_to_all(Stream& stream, const void* out, void* in,
                          std::size_t bytes) override {
    const std::size_t own = rank_ * bytes;
    run(stream, out, size_ * bytes, in, size_ * bytes,
        [=](const Gifts& gifts, std::byte* target) {
          for (std::size_t r = 0; r < gifts.size(); ++r) {
            std::memcpy(target + r * bytes, gifts[r].data() + own, bytes);
          }
        });
  }

  void enqueue_sum(Stream& stream, const float* in, float* out,
                   std::size_t n) override {
    const std::size_t bytes = n * sizeof(float);
    run(stream, in, bytes, out, bytes,
        [=](const Gifts& gifts, std::byte* target) {
          std::vector<float> sum(n, -0.0F);
          std::vector<float> part(n);
          for (const auto& gift : gifts) {
            std::memcpy(part.data(), gift.data(), bytes);
            for (std::size_t i = 0; i < n; ++i) sum[i] += part[i];
          }
          std::memcpy(target, sum.data(), bytes);
        });
  }

  void run(Stream& stream, const void* in, std::size_t in_bytes, void* out,
           std::size_t out_bytes, const Finish& finish) {
    const LinkHub::Key key = {comm_.epoch(), next_++};
    const auto meet = [=, this](const std::byte* from, std::byte* to) {
      if (aborted_) return;
      hub_.give(key, rank_, {from, from + in_bytes});
      Gifts all;
      comm_.wait_until([&] { return !(all = hub_.take(key, size_)).empty(); },
                       " inside the link");
      finish(all, to);
    };
    if (enqueue_fake_work(backend_, stream, in, out, meet)) return;
    std::vector<std::byte> from(in_bytes);
    std::vector<std::byte> to(out_bytes);
    backend_.copy_out(stream, from, in);
    backend_.wait(backend_.record(stream));
    meet(from.data(), to.data());
    backend_.copy_in(stream, out, to);
  }

  LinkHub& hub_;
  Backend& backend_;
  // Kept: the device may come to an exchange while the host is in a group.
  std::size_t rank_;
  std::size_t size_;
  std::uint64_t next_ = 0;
  bool aborted_ = false;
};

// Whether a device's name ends in "+link".
inline bool is_linked(std::string_view device) {
  return device.ends_with("+link");
}

// Null for those that are not.
inline std::unique_ptr<DeviceLink> make_link(std::string_view device,
                                             LinkHub& hub, Communicator& comm,
                                             Backend& backend) {
  if (!is_linked(device)) return nullptr;
  return std::make_unique<StagedLink>(hub, comm, backend);
}

}  // namespace sluice::testing
