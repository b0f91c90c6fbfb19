#include "sluice/collective/allgather.h"

#include <vector>

#include "sluice/codec/codec.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

class Allgather final : public SparseAllreduce {
 public:
  Allgather(Backend& backend, Communicator& communicator,
            std::string_view codec)
      : backend_(backend),
        communicator_(communicator),
        codec_(backend, codec) {}

  std::string_view name() const override { return "allgather"; }

  void reduce(Stream& stream, const Contribution& mine, float* mean,
              SparseBlock& undelivered) override {
    const std::size_t n = mine.selected.dense_size();
    codec_.encode(stream, mine.selected, mine.values, mine.rows, message_);
    host_.resize(message_.size);
    backend_.copy_out(stream, host_, message_.bytes.data());
    backend_.wait(backend_.record(stream));
    communicator_.all_gather(host_, mine.step, 0, all_);

    backend_.fill(stream, mean, n, 0);
    const float share = 1.0F / static_cast<float>(communicator_.size());
    for (std::size_t r = 0; r < all_.size(); ++r) {
      add(stream, all_[r], r, n, mean, share);
    }
    // Everything was delivered: an empty block, made once.
    if (undelivered.dense_size() != n ||
        undelivered.segments() != mine.selected.segments()) {
      undelivered = SparseBlock(backend_, n, 0, mine.selected.segments());
    }
  }

 private:
  void add(Stream& stream, std::span<const std::byte> bytes, std::size_t rank,
           std::size_t n, float* mean, float share) {
    if (incoming_.bytes() < bytes.size()) {
      incoming_ = backend_.allocate(bytes.size());
    }
    backend_.copy_in(stream, incoming_.data(), bytes);
    if (received_.dense_size() != n || received_.segments() != 1) {
      received_ = SparseBlock(backend_, n, 0, 1);
    }
    received_.reserve(backend_, n);
    codec_.decode(stream, {incoming_.data<std::byte>(), bytes.size()},
                  concat("rank ", rank), received_);
    ScatterPass pass;
    pass.indices = received_.indices();
    pass.values = received_.values();
    pass.starts = received_.starts();
    pass.target = mean;
    pass.scale = share;
    backend_.scatter(stream, pass);
  }

  Backend& backend_;
  Communicator& communicator_;
  Codec codec_;
  Message message_;
  std::vector<std::byte> host_;
  std::vector<std::vector<std::byte>> all_;
  Buffer incoming_;
  SparseBlock received_;
};

}  // namespace

std::unique_ptr<SparseAllreduce> make_allgather(Backend& backend,
                                                Communicator& communicator,
                                                std::string_view codec) {
  return std::make_unique<Allgather>(backend, communicator, codec);
}

}  // namespace sluice
