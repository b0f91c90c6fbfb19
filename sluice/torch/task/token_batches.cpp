#include "sluice/torch/task/token_batches.h"

#include <algorithm>

#include "sluice/core/error.h"

namespace sluice {
namespace {

// Tokens and targets for `rows` pieces of `length`.
struct Room {
  Room(std::uint64_t rows, std::uint64_t length)
      : in(torch::zeros({static_cast<std::int64_t>(rows),
                         static_cast<std::int64_t>(length)},
                        torch::kInt64)),
        out(torch::full_like(in, kNoToken)) {}

  // The `count` tokens from `begin`, and their successors.
  void put(std::uint64_t row, std::span<const std::int32_t> tokens,
           std::uint64_t begin, std::uint64_t count) {
    const auto length = static_cast<std::uint64_t>(in.size(1));
    std::int64_t* to = in.data_ptr<std::int64_t>() + row * length;
    std::int64_t* next = out.data_ptr<std::int64_t>() + row * length;
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(begin), count, to);
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(begin) + 1, count,
                next);
  }
  Batch batch() && { return {{in, out}, {}, {}}; }

  torch::Tensor in;
  torch::Tensor out;
};

class Columns final : public BatchSource {
 public:
  Columns(std::span<const std::int32_t> tokens, std::uint64_t length,
          const SamplerOptions& options)
      : tokens_(tokens), length_(length), options_(options) {
    const std::uint64_t count = options.batch * options.ranks;
    column_ = tokens.size() / count;
    steps_ = column_ == 0 ? 0 : (column_ - 1) / length;
    require(steps_ > 0, "[train] a text of ", tokens.size(),
            " tokens is too short for ", options.ranks, " workers with ",
            options.batch, " columns each and steps of ", length,
            " tokens; lower --batch-size or --length");
  }

  std::uint64_t steps_per_epoch() const override { return steps_; }
  const Position& position() const override { return position_; }
  void seek(const Position& position) override {
    require(position.step <= steps_, "[train] an epoch has ", steps_,
            " steps, got ", position.step);
    position_ = position;
    wrap();
  }
  Batch next() override {
    Room room(options_.batch, length_);
    for (std::uint64_t row = 0; row < options_.batch; ++row) {
      const std::uint64_t column = options_.rank * options_.batch + row;
      room.put(row, tokens_, column * column_ + position_.step * length_,
               length_);
    }
    ++position_.step;
    wrap();
    return std::move(room).batch();
  }

 private:
  void wrap() {
    if (position_.step < steps_) return;
    position_ = {position_.epoch + 1, 0};
  }

  std::span<const std::int32_t> tokens_;
  std::uint64_t length_;
  SamplerOptions options_;
  std::uint64_t column_ = 0;
  std::uint64_t steps_ = 0;
  Position position_;
};

std::uint64_t count_blocks(std::span<const std::int32_t> tokens,
                           std::uint64_t length,
                           const SamplerOptions& options) {
  const std::uint64_t blocks =
      tokens.empty() ? 0 : (tokens.size() - 1) / length;
  require(blocks >= options.batch * options.ranks, "[train] a text of ",
          tokens.size(), " tokens is too short for ", options.ranks,
          " workers with ", options.batch, " blocks of ", length,
          " tokens each; lower --batch-size or --length");
  return blocks;
}

class Blocks final : public BatchSource {
 public:
  Blocks(std::span<const std::int32_t> tokens, std::uint64_t length,
         const SamplerOptions& options)
      : tokens_(tokens),
        length_(length),
        sampler_(count_blocks(tokens, length, options), options) {}

  std::uint64_t steps_per_epoch() const override {
    return sampler_.steps_per_epoch();
  }
  const Position& position() const override { return sampler_.position(); }
  void seek(const Position& position) override { sampler_.seek(position); }
  Batch next() override {
    const std::vector<std::uint64_t> blocks = sampler_.next();
    Room room(blocks.size(), length_);
    for (std::uint64_t row = 0; row < blocks.size(); ++row) {
      room.put(row, tokens_, blocks[row] * length_, length_);
    }
    return std::move(room).batch();
  }

 private:
  std::span<const std::int32_t> tokens_;
  std::uint64_t length_;
  Sampler sampler_;
};

}  // namespace

std::unique_ptr<BatchSource> column_batches(
    std::span<const std::int32_t> tokens, std::uint64_t length,
    const SamplerOptions& options) {
  return std::make_unique<Columns>(tokens, length, options);
}

std::unique_ptr<BatchSource> block_batches(std::span<const std::int32_t> tokens,
                                           std::uint64_t length,
                                           const SamplerOptions& options) {
  return std::make_unique<Blocks>(tokens, length, options);
}

TokenEvaluation::TokenEvaluation(std::span<const std::int32_t> tokens,
                                 std::uint64_t length, std::uint64_t columns,
                                 std::uint64_t batch, std::uint64_t rank,
                                 std::uint64_t ranks)
    : tokens_(tokens), length_(length), columns_(columns), batch_(batch) {
  require(tokens.size() > 1 && length > 0 && batch > 0,
          "[evaluation] there must be two tokens at least, got ",
          tokens.size());
  const std::uint64_t predicted = tokens.size() - 1;
  columns_ = std::min(columns, predicted);
  const std::uint64_t blocks = (predicted + length - 1) / length;
  mine_ = evaluation_partition(columns_ > 0 ? columns_ : blocks, rank, ranks);
  for (std::uint64_t c = mine_.begin; columns_ > 0 && c < mine_.end; ++c) {
    longest_ = std::max(longest_, column_begin(c + 1) - column_begin(c));
  }
}

std::optional<Batch> TokenEvaluation::next() {
  if (columns_ == 0) {
    if (mine_.begin == mine_.end) return std::nullopt;
    return blocks();
  }
  if (done_ >= longest_) return std::nullopt;
  return columns();
}

std::uint64_t TokenEvaluation::column_begin(std::uint64_t column) const {
  return column * (tokens_.size() - 1) / columns_;
}

Batch TokenEvaluation::blocks() {
  const std::uint64_t end = std::min(mine_.begin + batch_, mine_.end);
  Room room(end - mine_.begin, length_);
  for (std::uint64_t b = mine_.begin; b < end; ++b) {
    const std::uint64_t begin = b * length_;
    room.put(b - mine_.begin, tokens_, begin,
             std::min(length_, tokens_.size() - 1 - begin));
  }
  mine_.begin = end;
  return std::move(room).batch();
}

Batch TokenEvaluation::columns() {
  const std::uint64_t length = std::min(length_, longest_ - done_);
  Room room(mine_.end - mine_.begin, length);
  for (std::uint64_t c = mine_.begin; c < mine_.end; ++c) {
    const std::uint64_t begin = column_begin(c) + done_;
    const std::uint64_t end = column_begin(c + 1);
    if (begin >= end) continue;
    room.put(c - mine_.begin, tokens_, begin, std::min(length, end - begin));
  }
  done_ += length;
  return std::move(room).batch();
}

}  // namespace sluice
