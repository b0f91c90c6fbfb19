#include "sluice/torch/train/replicas.h"

#include <algorithm>
#include <cstring>

#include "sluice/core/checksum.h"
#include "sluice/core/error.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

torch::Tensor in_host_memory(const torch::Tensor& tensor) {
  return tensor.detach().cpu().contiguous();
}

std::span<const std::byte> bytes_of(const torch::Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()};
}

Bytes pack(const NamedTensors& tensors) {
  Bytes all;
  for (const NamedTensor& t : tensors) {
    const torch::Tensor host = in_host_memory(t.tensor);
    const auto bytes = bytes_of(host);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

void unpack(const Bytes& all, const NamedTensors& tensors) {
  const torch::NoGradGuard no_gradients;
  const std::byte* from = all.data();
  for (const NamedTensor& t : tensors) {
    torch::Tensor host = torch::empty(t.tensor.sizes(), t.tensor.scalar_type());
    std::copy_n(from, host.nbytes(),
                static_cast<std::byte*>(host.mutable_data_ptr()));
    from += host.nbytes();
    torch::Tensor target = t.tensor;
    target.copy_(host);
  }
}

std::vector<std::uint32_t> hashes_of(const NamedTensors& tensors) {
  std::vector<std::uint32_t> hashes;
  for (const NamedTensor& t : tensors) {
    Checksum sum;
    sum.add(bytes_of(in_host_memory(t.tensor)));
    hashes.push_back(sum.fold());
  }
  return hashes;
}

// In double and in the order of ranks.
Bytes mean_of(const std::vector<Bytes>& all, const NamedTensors& tensors) {
  Bytes mean = all[0];
  std::size_t at = 0;
  for (const NamedTensor& t : tensors) {
    const std::size_t bytes = t.tensor.nbytes();
    if (t.tensor.scalar_type() == torch::kFloat32) {
      for (std::size_t i = at; i < at + bytes; i += sizeof(float)) {
        double sum = 0;
        for (const Bytes& rank : all) {
          float value = 0;
          std::memcpy(&value, rank.data() + i, sizeof(value));
          sum += static_cast<double>(value);
        }
        const auto value =
            static_cast<float>(sum / static_cast<double>(all.size()));
        std::memcpy(mean.data() + i, &value, sizeof(value));
      }
    }
    at += bytes;
  }
  return mean;
}

// The ranks that are not like most of them in tensor `t`.
std::vector<std::size_t> outsiders(
    const std::vector<std::vector<std::uint32_t>>& hashes, std::size_t t) {
  std::size_t best = 0;
  std::uint32_t common = hashes[0][t];
  for (const auto& candidate : hashes) {
    const auto votes = static_cast<std::size_t>(
        std::count_if(hashes.begin(), hashes.end(),
                      [&](const auto& h) { return h[t] == candidate[t]; }));
    if (votes > best) {
      best = votes;
      common = candidate[t];
    }
  }
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < hashes.size(); ++r) {
    if (hashes[r][t] != common) ranks.push_back(r);
  }
  return ranks;
}

std::string judge(const std::vector<std::vector<std::uint32_t>>& hashes,
                  const NamedTensors& tensors, std::uint64_t step) {
  std::size_t count = 0;
  std::string first;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto ranks = outsiders(hashes, t);
    if (ranks.empty() || ++count > 1) continue;
    for (const std::size_t r : ranks) {
      first += concat(first.empty() ? "rank " : ", rank ", r);
    }
    first +=
        concat(" differs from the others in tensor '", tensors[t].name, "'");
  }
  if (count == 0) return {};
  return concat("[replica_check] all ranks must have the same weights after ",
                step, " steps, but ", first, " (", count, " of ",
                tensors.size(),
                " tensors differ); its memory or its library may be at fault: "
                "resume from a checkpoint without it");
}

}  // namespace

void broadcast_tensors(Communicator& comm, std::uint64_t step,
                       const NamedTensors& tensors) {
  unpack(broadcast_first(comm, "broadcast of weights", step,
                         comm.rank() == 0 ? pack(tensors) : Bytes()),
         tensors);
}

void average_tensors(Communicator& comm, std::uint64_t step,
                     const NamedTensors& tensors) {
  if (tensors.empty()) return;
  const auto all =
      gather_at_first(comm, "averaging of statistics", step, pack(tensors));
  Bytes mean;
  if (comm.rank() == 0) mean = mean_of(all, tensors);
  unpack(
      broadcast_first(comm, "averaging of statistics", step, std::move(mean)),
      tensors);
}

void check_replicas(Communicator& comm, std::uint64_t step,
                    const NamedTensors& tensors) {
  if (comm.size() == 1) return;
  const auto mine = hashes_of(tensors);
  const auto all = gather_at_first(comm, "replica check", step,
                                   std::as_bytes(std::span(mine)));
  std::vector<std::vector<std::uint32_t>> hashes;
  for (const Bytes& bytes : all) {
    hashes.emplace_back(bytes.size() / sizeof(std::uint32_t));
    std::memcpy(hashes.back().data(), bytes.data(), bytes.size());
  }
  std::string verdict;
  if (comm.rank() == 0) verdict = judge(hashes, tensors, step);
  agree(comm, "replica check", step, verdict);
}

std::uint64_t hash_tensors(const NamedTensors& tensors) {
  std::uint64_t hash = 0;
  for (const std::uint32_t h : hashes_of(tensors)) hash = mix64(hash, h);
  return hash;
}

}  // namespace sluice
