#include "sluice/text/squad_windows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/core/ensure.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

// [CLS] and two [SEP].
constexpr std::size_t kMarks = 3;

// Tokens [begin, begin + count) of a context.
struct Extract {
  std::size_t begin;
  std::size_t count;
};

std::vector<Extract> extracts(std::size_t tokens, std::size_t room,
                              std::size_t stride) {
  std::vector<Extract> all;
  std::size_t begin = 0;
  while (true) {
    const std::size_t count = std::min(tokens - begin, room);
    all.push_back({begin, count});
    if (begin + count == tokens) return all;
    begin += std::min(count, stride);
  }
}

// BERT's rule: the smaller of what is to the left and to the right, and a bit
// for the length of the window.
bool shows_most(const std::vector<Extract>& all, std::size_t which,
                std::size_t token) {
  std::size_t best = 0;
  double best_score = -1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (token < all[i].begin || token >= all[i].begin + all[i].count) continue;
    const std::size_t left = token - all[i].begin;
    const std::size_t right = all[i].begin + all[i].count - 1 - token;
    const double score = static_cast<double>(std::min(left, right)) +
                         0.01 * static_cast<double>(all[i].count);
    if (score > best_score) {
      best_score = score;
      best = i;
    }
  }
  return best == which;
}

class WindowMaker {
 public:
  WindowMaker(const SquadData& data, WordPieceTokenizer& tokenizer,
              const SquadWindowOptions& options)
      : data_(data), tokenizer_(tokenizer), options_(options) {
    const SpecialTokens& special = tokenizer.special();
    ensure(special.classify && special.separate,
           "[squad] the vocabulary must have [CLS] and [SEP]; take that of a "
           "BERT model, or make one with sluice data vocab --kind wordpiece");
    classify_ = *special.classify;
    separate_ = *special.separate;
  }

  std::vector<SquadWindow> make() {
    for (std::size_t i = 0; i < data_.questions.size(); ++i) add_question(i);
    return std::move(windows_);
  }

 private:
  void add_question(std::size_t index) {
    const SquadQuestion& question = data_.questions[index];
    std::vector<std::int32_t> query = tokenizer_.encode(question.question);
    query.resize(std::min(query.size(), options_.query));
    // Questions about one context follow each other.
    if (context_ != question.context) {
      tokens_ = tokenizer_.encode_placed(data_.contexts[question.context]);
      context_ = question.context;
    }
    const auto all =
        extracts(tokens_.size(), options_.length - query.size() - kMarks,
                 options_.stride);
    for (std::size_t i = 0; i < all.size(); ++i) {
      SquadWindow window;
      window.question = index;
      window.tokens = {classify_};
      window.tokens.insert(window.tokens.end(), query.begin(), query.end());
      window.tokens.push_back(separate_);
      window.first = window.tokens.size();
      for (std::size_t k = 0; k < all[i].count; ++k) {
        const PlacedToken& token = tokens_[all[i].begin + k];
        window.tokens.push_back(token.id);
        window.places.push_back(token.place);
        window.best_here.push_back(shows_most(all, i, all[i].begin + k));
      }
      window.tokens.push_back(separate_);
      mark_answer(question.answers[0].place, all[i], window);
      windows_.push_back(std::move(window));
    }
  }

  void mark_answer(const ByteRange& answer, const Extract& extract,
                   SquadWindow& window) const {
    const auto first = std::find_if(
        tokens_.begin(), tokens_.end(),
        [&](const PlacedToken& t) { return t.place.end > answer.begin; });
    const auto past = std::find_if(
        first, tokens_.end(),
        [&](const PlacedToken& t) { return t.place.begin >= answer.end; });
    if (first == past) return;
    const auto begin = static_cast<std::size_t>(first - tokens_.begin());
    const auto end = static_cast<std::size_t>(past - tokens_.begin());
    if (begin < extract.begin || end > extract.begin + extract.count) return;
    window.start = window.first + begin - extract.begin;
    window.end = window.first + end - 1 - extract.begin;
  }

  const SquadData& data_;
  WordPieceTokenizer& tokenizer_;
  SquadWindowOptions options_;
  std::int32_t classify_ = 0;
  std::int32_t separate_ = 0;
  std::size_t context_ = std::numeric_limits<std::size_t>::max();
  std::vector<PlacedToken> tokens_;  // of context_
  std::vector<SquadWindow> windows_;
};

// Positions of the largest scores, of equals the first; NaN is least.
std::vector<std::size_t> largest(std::span<const float> scores,
                                 std::size_t count) {
  std::vector<std::size_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  count = std::min(count, order.size());
  const auto score = [&](std::size_t i) {
    return std::isnan(scores[i]) ? -std::numeric_limits<float>::infinity()
                                 : scores[i];
  };
  std::partial_sort(order.begin(),
                    order.begin() + static_cast<std::ptrdiff_t>(count),
                    order.end(), [&](std::size_t a, std::size_t b) {
                      return score(a) != score(b) ? score(a) > score(b) : a < b;
                    });
  order.resize(count);
  return order;
}

struct BestSpan {
  float score = -std::numeric_limits<float>::infinity();
  std::size_t window = 0;
  std::size_t start = 0;
  std::size_t end = 0;
  bool found = false;
};

bool may_be(const SquadWindow& window, std::size_t start, std::size_t end,
            std::size_t longest) {
  const std::size_t past = window.first + window.places.size();
  return start >= window.first && end < past && start <= end &&
         end - start < longest && window.best_here[start - window.first];
}

}  // namespace

std::vector<SquadWindow> make_squad_windows(const SquadData& data,
                                            WordPieceTokenizer& tokenizer,
                                            const SquadWindowOptions& options) {
  require(options.stride >= 1, "[squad] the stride must be at least 1, got 0");
  require(options.length > options.query + kMarks,
          "[squad] a sequence must be longer than a question and ", kMarks,
          " marks, ", options.query + kMarks, " tokens, got ", options.length);
  return WindowMaker(data, tokenizer, options).make();
}

void check_squad_length(const SquadWindowOptions& options,
                        std::size_t model_length) {
  require(options.length <= model_length,
          "[squad] sequences must have at most ", model_length,
          " tokens, the positions of the model, got ", options.length);
}

std::string best_answer(const SquadData& data,
                        std::span<const SquadWindow> windows,
                        std::span<const SpanScores> scores,
                        const SpanSearch& search) {
  require(windows.size() == scores.size(), "[squad] there must be scores for ",
          windows.size(), " windows, got ", scores.size());
  BestSpan best;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const std::size_t tokens = windows[w].tokens.size();
    require(scores[w].start.size() >= tokens && scores[w].end.size() >= tokens,
            "[squad] there must be scores for ", tokens, " tokens, got ",
            scores[w].start.size(), " and ", scores[w].end.size());
    const auto starts = largest(scores[w].start.first(tokens), search.top);
    const auto ends = largest(scores[w].end.first(tokens), search.top);
    for (const std::size_t start : starts) {
      for (const std::size_t end : ends) {
        if (!may_be(windows[w], start, end, search.longest)) continue;
        const float score = scores[w].start[start] + scores[w].end[end];
        if (best.found && !(score > best.score)) continue;
        best = {score, w, start, end, true};
      }
    }
  }
  if (!best.found) return {};
  const SquadWindow& window = windows[best.window];
  const std::string& context =
      data.contexts[data.questions[window.question].context];
  const std::size_t begin = window.places[best.start - window.first].begin;
  const std::size_t end = window.places[best.end - window.first].end;
  return context.substr(begin, end - begin);
}

}  // namespace sluice
