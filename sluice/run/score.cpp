#include "sluice/run/score.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "sluice/core/params.h"

namespace sluice {
namespace {

double as_it_is(double mean) { return mean; }
double exponential(double nats) { return std::exp(nats); }
double bits(double nats) { return nats / std::log(2.0); }

constexpr std::array kKinds = {
    ScoreKind{"accuracy", "accuracy", true, true, as_it_is},
    ScoreKind{"top5", "top-5 accuracy", true, true, as_it_is},
    ScoreKind{"perplexity", "perplexity", false, false, exponential},
    ScoreKind{"bits_per_byte", "bits per byte", false, false, bits},
    ScoreKind{"exact_match", "exact match", true, true, as_it_is},
    ScoreKind{"f1", "F1", true, true, as_it_is},
    ScoreKind{"wer", "WER, mean of clips", false, true, as_it_is},
    ScoreKind{"cer", "CER, mean of clips", false, true, as_it_is},
    ScoreKind{"corpus_wer", "WER of the corpus", false, true, as_it_is},
    ScoreKind{"corpus_cer", "CER of the corpus", false, true, as_it_is},
};

}  // namespace

bool ScoreKind::better(double a, double b) const {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a);
  return up ? a > b : a < b;
}

std::string ScoreKind::text(double value) const {
  char number[330];  // a perplexity may be anything
  std::snprintf(number, sizeof(number), "%.2f", shown(value));
  return std::string(number) + (percent ? " %" : "");
}

std::span<const ScoreKind> score_kinds() { return kKinds; }

const ScoreKind& score_kind(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ScoreKind& kind : kKinds) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  fail_unknown("score", name, known);
}

}  // namespace sluice
