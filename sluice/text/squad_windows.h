#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/text/squad.h"
#include "sluice/text/wordpiece_tokenizer.h"

namespace sluice {

struct SquadWindowOptions {
  std::size_t length = 384;  // tokens of a sequence
  std::size_t stride = 128;  // from one window of a context to the next
  std::size_t query = 64;    // tokens of a question at most; the rest is cut
};

// [CLS] question [SEP] piece of the context [SEP]. Not padded.
struct SquadWindow {
  std::size_t question = 0;  // of SquadData::questions
  std::vector<std::int32_t> tokens;
  std::size_t first = 0;          // position of the first token of the context
  std::vector<ByteRange> places;  // in the context, of its tokens in here
  // Of the same tokens: whether no other window shows more around it. Only
  // there may an answer begin, or the best one would be told many times.
  std::vector<bool> best_here;
  // Positions of the first answer; 0, that of [CLS], if it is not all in here.
  std::size_t start = 0;
  std::size_t end = 0;  // the last token, not past it

  // 1 for the context and the [SEP] behind it, 0 before.
  std::int32_t segment(std::size_t position) const {
    return position >= first ? 1 : 0;
  }
};

// All windows, in the order of the questions. Throws std::runtime_error if the
// vocabulary lacks [CLS] or [SEP], std::invalid_argument for lengths that leave
// no room for a context.
std::vector<SquadWindow> make_squad_windows(const SquadData& data,
                                            WordPieceTokenizer& tokenizer,
                                            const SquadWindowOptions& options);

// Throws std::invalid_argument if sequences are longer than a model's.
void check_squad_length(const SquadWindowOptions& options,
                        std::size_t model_length);

// What a model says about a window: a number per token, for an answer that
// starts or ends there.
struct SpanScores {
  std::span<const float> start;
  std::span<const float> end;
};

struct SpanSearch {
  std::size_t top = 20;      // starts and ends that are tried
  std::size_t longest = 30;  // tokens of an answer
};

// The text, from the context as it is, of the span with the largest sum over
// all windows of one question; empty if there is none. Of equals the first.
// Throws std::invalid_argument unless there are scores for every token.
std::string best_answer(const SquadData& data,
                        std::span<const SquadWindow> windows,
                        std::span<const SpanScores> scores,
                        const SpanSearch& search = {});

}  // namespace sluice
