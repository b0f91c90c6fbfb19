#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/collective/vote.h"
#include "sluice/core/hash.h"

namespace sluice::testing {

// Entries of the host, as tests make them.
struct Picks {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;

  std::size_t size() const { return indices.size(); }
  void add(std::uint32_t index, float value) {
    indices.push_back(index);
    values.push_back(value);
  }
};

// k of n, values Gaussian; `hot` puts all of them in the first 1 / hot.
inline Picks random_picks(std::uint64_t n, double density, std::uint64_t seed,
                          std::uint64_t hot = 1) {
  Picks out;
  const auto bar = static_cast<std::uint64_t>(density * double(hot) * 0x1p32);
  for (std::uint64_t j = 0; j < n / hot; ++j) {
    const std::uint64_t h = mix64(seed, j);
    if ((h >> 32) < bar) {
      out.add(static_cast<std::uint32_t>(j),
              static_cast<float>(static_cast<int>(h % 2001) - 1000) / 100);
    }
  }
  return out;
}

// One rank's side of exchanges: entries of the host go in, dense vectors come
// out, whatever the device between them.
class Exchanger {
 public:
  struct Options {
    std::uint64_t n = 0;
    std::uint64_t k = 0;  // 0: as many as there are
    std::uint64_t step = 0;
    std::vector<float> rest{};         // or none
    std::vector<SegmentForm> forms{};  // of n elements; none: one of fp32
  };

  explicit Exchanger(Backend& backend, DeviceLink* link = nullptr)
      : backend_(backend), context_(backend, link) {}
  explicit Exchanger(
      std::unique_ptr<Backend> backend = make_cpu_backend({1, "portable"}))
      : own_(std::move(backend)), backend_(*own_), context_(backend_) {}

  ExchangeContext& context() { return context_; }
  Backend& backend() { return backend_; }
  Delivery& delivery() { return out_; }

  void reduce(SparseAllreduce& collective, Communicator& comm,
              const Contribution& mine) {
    n_ = mine.n();
    do {
      collective.reduce(comm, context_, mine, out_);
      context_.wait();
    } while (!collective.verify(comm));
  }

  void reduce(SparseAllreduce& collective, Communicator& comm,
              const Picks& mine, const Options& options) {
    std::vector<SegmentForm> forms = options.forms;
    if (forms.empty()) forms.push_back({.size = options.n});
    block_.emplace(backend_, options.n, options.n, forms.size());
    std::vector<std::uint64_t> starts;
    std::uint64_t base = 0;
    for (const SegmentForm& form : forms) {
      starts.push_back(static_cast<std::uint64_t>(
          std::lower_bound(mine.indices.begin(), mine.indices.end(), base) -
          mine.indices.begin()));
      base += form.size;
    }
    starts.push_back(mine.size());
    block_->assign(backend_, stream(), mine.indices, mine.values, starts);
    rest_ = backend_.allocate(options.rest.size() * sizeof(float));
    backend_.copy_in(stream(), rest_.data(),
                     std::as_bytes(std::span(options.rest)));
    std::vector<MemoryRange> ranges;
    base = 0;
    for (const SegmentForm& form : forms) {
      if (options.rest.empty()) break;
      ranges.push_back({rest_.data<float>() + base, base, form.size});
      base += form.size;
    }
    reduce(collective, comm,
           {*block_, forms, options.k > 0 ? options.k : mine.size(),
            options.step, ranges});
  }

  // A new instance of a collective, kept as long as what it delivers.
  void reduce(const std::string& name, Communicator& comm, const Picks& mine,
              const Options& options) {
    collective_ = make_collective(name);
    reduce(*collective_, comm, mine, options);
  }

  std::vector<float> sum(float scale = 1) { return dense(out_.sum, scale); }
  std::vector<float> returned() { return dense(out_.returned, 1); }
  // Of the sum's lists together.
  std::size_t sum_entries() {
    std::size_t count = 0;
    for (const float v : sum()) count += v != 0 ? 1 : 0;
    return count;
  }

 private:
  Stream& stream() { return context_.stream(); }
  void wait() { backend_.wait(backend_.record(stream())); }

  std::vector<float> dense(const Pieces& pieces, float scale) {
    std::vector<float> host(n_);
    const Buffer target = backend_.allocate(n_ * sizeof(float));
    const TensorView view = flat_view({target.data<float>(), n_});
    context_.apply(pieces, {&view, 1}, scale);
    backend_.copy_out(stream(), std::as_writable_bytes(std::span(host)),
                      target.data());
    wait();
    return host;
  }

  std::unique_ptr<Backend> own_;
  Backend& backend_;
  ExchangeContext context_;
  std::unique_ptr<SparseAllreduce> collective_;
  std::optional<SparseBlock> block_;
  Buffer rest_;
  Delivery out_;
  std::uint64_t n_ = 0;
};

// Holds a vote that carries one count; returns its result over all ranks.
inline VoteResult vote_on(Communicator& comm, std::uint64_t step, bool yes,
                          Standing& standing, std::uint64_t count = 0) {
  VoteResult result;
  vote(comm, step, yes ? Ballot::kYes : Ballot::kNo, {&count, 1}, standing,
       result);
  return result;
}

// The same of ranks that vote on nothing else.
inline VoteResult vote_on(Communicator& comm, std::uint64_t step, bool yes,
                          std::uint64_t count = 0) {
  Standing standing;
  return vote_on(comm, step, yes, standing, count);
}

}  // namespace sluice::testing
