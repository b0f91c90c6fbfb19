#include "sluice/collective/exchange_context.h"

#include <stdexcept>

#include "sluice/core/error.h"

namespace sluice {

ExchangeContext::ExchangeContext(Backend& device, DeviceLink* link)
    : device_(device),
      link_(link),
      stream_(device.make_stream()),
      own_host_(device.is_host() ? nullptr : make_cpu_backend({1, ""})),
      host_(device.is_host() ? device : *own_host_),
      coder_(host_),
      codec_(device, "auto:checksum=false"),
      sized_(device.allocate(sizeof(std::uint64_t))),
      size_(device.allocate_host(sizeof(std::uint64_t))) {}

void ExchangeContext::set_watch(const EncodeWatch& watch) {
  watch_ = watch;
  coder_.set_watch(watch);
}

void ExchangeContext::wait() {
  const Event event = device_.record(*stream_);
  if (link_ != nullptr) {
    link_->wait(event);
  } else {
    device_.wait(event);
  }
}

void ExchangeContext::reserve(Buffer& buffer, std::size_t bytes) {
  if (bytes <= buffer.bytes()) return;
  wait();
  buffer = device_.allocate(bytes);
}

// With room for more: counts vary.
template <class T>
T* ExchangeContext::grown(Buffer& buffer, std::size_t count) {
  if (buffer.bytes() < count * sizeof(T)) {
    reserve(buffer, count * sizeof(T) * 5 / 4);
  }
  return buffer.data<T>();
}

ListView ExchangeContext::host_view(const Contribution& mine) {
  SparseBlock& block = mine.block;
  if (device_.is_host()) {
    const std::size_t count = *block.view().count;
    return {{block.indices(), count}, {block.values(), count}};
  }
  block.fetch(device_, *stream_);
  wait();
  mine_.reset(block.count());
  const auto copy = [&](auto* target, const auto* source) {
    device_.copy_out(*stream_,
                     std::as_writable_bytes(std::span(target, mine_.size())),
                     source);
  };
  copy(mine_.indices(), block.indices());
  copy(mine_.values(), block.values());
  wait();
  return mine_;
}

void ExchangeContext::rest_at(const Contribution& mine,
                              std::span<const std::uint32_t> indices,
                              std::span<float> out) {
  const std::uint64_t count = indices.size();
  if (device_.is_host()) {
    device_.gather(*stream_, {{indices.data(), nullptr, &count, indices.size()},
                              mine.rest,
                              out.data()});
    return;
  }
  // The count, the indices, the values.
  auto* head = grown<std::uint64_t>(gathered_, 1 + count);
  auto* at = reinterpret_cast<std::uint32_t*>(head + 1);
  auto* values = reinterpret_cast<float*>(at + count);
  device_.copy_in(*stream_, head, std::as_bytes(std::span(&count, 1)));
  device_.copy_in(*stream_, at, std::as_bytes(indices));
  device_.gather(*stream_,
                 {{at, nullptr, head, indices.size()}, mine.rest, values});
  device_.copy_out(*stream_, std::as_writable_bytes(out), values);
  wait();
}

Frame ExchangeContext::encode(Communicator& comm, const Contribution& mine) {
  const auto start = std::chrono::steady_clock::now();
  const SparseBlock& block = mine.block;
  const bool host = device_.is_host();
  const std::size_t count = host ? *block.view().count : block.capacity();
  const std::size_t most = Codec::max_bytes(count, mine.forms.size());
  Frame frame = comm.make_frame(host ? most : 0);
  const std::span<std::byte> out =
      host ? frame.payload()
           : std::span(grown<std::byte>(message_, most), most);
  auto* written = sized_.data<std::uint64_t>();
  codec_.encode(*stream_,
                {block.indices(), block.values(), block.starts(), mine.forms},
                out, written);
  auto* size = size_.data<std::uint64_t>();
  device_.copy_out(*stream_, std::as_writable_bytes(std::span(size, 1)),
                   written);
  wait();
  if (*size == 0) {
    throw std::logic_error("[encode] a block did not fit its forms");
  }
  if (host) {
    frame.resize(*size);
  } else {
    frame = comm.make_frame(*size);
    device_.copy_out(*stream_, frame.payload(), out.data());
    wait();
  }
  if (watch_) watch_(start);
  return frame;
}

void ExchangeContext::decode(std::span<const std::byte> bytes,
                             std::span<const SegmentForm> forms,
                             SparseBlock& out, DecodeResult* result) {
  out.reserve(device_, std::min<std::size_t>(Codec::claimed_count(bytes),
                                             out.dense_size()));
  if (!device_.is_host()) {
    auto* copy = grown<std::byte>(incoming_, bytes.size());
    device_.copy_in(*stream_, copy, bytes);
    bytes = {copy, bytes.size()};
  }
  codec_.decode(*stream_, bytes, forms,
                {out.indices(), out.values(), out.starts(), out.capacity()},
                result);
}

std::size_t ExchangeContext::most_slot_bytes(const Contribution& mine) {
  return kSlotHeader +
         Codec::max_bytes(mine.block.capacity(), mine.forms.size());
}

void ExchangeContext::encode_slot(const Contribution& mine,
                                  std::span<std::byte> slot) {
  const SparseBlock& block = mine.block;
  codec_.encode(
      *stream_, {block.indices(), block.values(), block.starts(), mine.forms},
      slot.subspan(kSlotHeader), reinterpret_cast<std::uint64_t*>(slot.data()));
}

void ExchangeContext::decode_slot(std::span<const std::byte> slot,
                                  std::span<const SegmentForm> forms,
                                  SparseBlock& out, DecodeResult* result) {
  codec_.decode(*stream_, slot.subspan(kSlotHeader), forms,
                {out.indices(), out.values(), out.starts(), out.capacity()},
                result, reinterpret_cast<const std::uint64_t*>(slot.data()));
}

std::span<const SparseView> ExchangeContext::on_device(const Pieces& pieces) {
  if (!pieces.on_host || device_.is_host()) return pieces.lists;
  std::size_t total = 0;
  for (const SparseView& list : pieces.lists) total += *list.count;
  // All counts, then each list's indices and values.
  auto* counts = grown<std::uint64_t>(landed_, pieces.lists.size() + total);
  auto* at = reinterpret_cast<std::byte*>(counts + pieces.lists.size());
  views_.clear();
  const auto land = [&](auto* target, const auto* source, std::size_t count) {
    device_.copy_in(*stream_, target, std::as_bytes(std::span(source, count)));
  };
  for (const SparseView& list : pieces.lists) {
    const std::size_t count = *list.count;
    auto* indices = reinterpret_cast<std::uint32_t*>(at);
    auto* values = reinterpret_cast<float*>(indices + count);
    land(counts + views_.size(), list.count, 1);
    land(indices, list.indices, count);
    land(values, list.values, count);
    views_.push_back({indices, values, counts + views_.size(), count});
    at += 8 * count;
  }
  return views_;
}

const float* ExchangeContext::on_device(std::span<const float> dense) {
  if (device_.is_host()) return dense.data();
  auto* target = grown<float>(landed_, dense.size());
  device_.copy_in(*stream_, target, std::as_bytes(dense));
  return target;
}

void ExchangeContext::apply(const Pieces& pieces,
                            std::span<const TensorView> targets, float scale,
                            std::uint64_t* nonfinite) {
  const float* dense = pieces.dense.empty() ? nullptr : pieces.dense.data();
  if (dense != nullptr && pieces.on_host) dense = on_device(pieces.dense);
  device_.apply(*stream_,
                {on_device(pieces), dense, targets, scale, nonfinite});
}

std::size_t ExchangeContext::memory_bytes() const {
  return mine_.memory_bytes() + message_.bytes() + incoming_.bytes() +
         landed_.bytes() + gathered_.bytes();
}

}  // namespace sluice
