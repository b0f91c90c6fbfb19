#pragma once

#include <c10/core/Event.h>

#include "sluice/torch/data/batch.h"

namespace sluice {

// Batches of a source on a device, each copied there while the one before it is
// computed with, on a stream beside the computation.
class BatchFeed {
 public:
  // Images, tensors of four dimensions, come in `format`. Keeps a reference to
  // `source`, which belongs to the feed from now on.
  BatchFeed(BatchSource& source, const torch::Device& device,
            at::MemoryFormat format);
  ~BatchFeed();
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  // Goes on with the batch of that place.
  void seek(const Position& place);
  // The batch of this place, for what the current stream does from now on; goes
  // on to the next. Throws as BatchSource::next does.
  Batch next();
  // Begins with what next() will return. An error comes with its batch.
  void prefetch();

 private:
  struct Moving {
    Position place;
    Batch host;
    Batch there;
    std::optional<c10::Event> done;  // of the copy; none: there is none
  };

  Moving fetch();
  void copy(Moving& moving);
  torch::Tensor formatted(const torch::Tensor& tensor) const;
  // Memory of the host may be written again once a copy is done.
  static void let_go(std::optional<Moving>& moving);

  BatchSource& source_;
  torch::Device device_;
  at::MemoryFormat format_;
  std::optional<c10::Stream> side_;
  std::optional<Moving> next_;
  std::optional<Moving> used_;
};

}  // namespace sluice
