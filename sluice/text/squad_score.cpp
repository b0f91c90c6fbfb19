#include <algorithm>
#include <map>

#include "sluice/text/squad.h"
#include "sluice/text/unicode.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// \w of a Python pattern.
bool is_word_character(char32_t c) {
  if (c < 0x80) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_';
  }
  const CharKind kind = kind_of(c);
  return kind == CharKind::kLetter || kind == CharKind::kNumber;
}

bool is_article(std::string_view word) {
  return word == "a" || word == "an" || word == "the";
}

// As re.sub(r"\b(a|an|the)\b", " ", text): words of \w alone count.
std::string without_articles(std::string_view text) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size();) {
    const CodePoint c =
        i < text.size() ? code_point_at(text, i) : CodePoint{0, 1};
    if (i == text.size() || !is_word_character(c.value)) {
      const std::string_view word = text.substr(begin, i - begin);
      out.append(is_article(word) ? " " : word);
      if (i < text.size()) out.append(text.substr(i, c.bytes));
      begin = i + c.bytes;
    }
    i += c.bytes;
  }
  return out;
}

std::vector<std::string> split_blanks(std::string_view text) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (is_blank(c.value)) {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back().append(text.substr(i, c.bytes));
    }
    i += c.bytes;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

std::string normalize_answer(std::string_view text) {
  std::string lower = lower_case(text);
  std::erase_if(lower, is_ascii_punctuation);
  std::string out;
  for (const std::string& word : split_blanks(without_articles(lower))) {
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

bool exact_match(std::string_view prediction, std::string_view truth) {
  return normalize_answer(prediction) == normalize_answer(truth);
}

double answer_f1(std::string_view prediction, std::string_view truth) {
  const auto told = split_blanks(normalize_answer(prediction));
  const auto wanted = split_blanks(normalize_answer(truth));
  std::map<std::string, int> left;
  for (const std::string& word : wanted) ++left[word];
  int same = 0;
  for (const std::string& word : told) {
    if (left[word]-- > 0) ++same;
  }
  if (same == 0) return 0;
  const double precision = same / static_cast<double>(told.size());
  const double recall = same / static_cast<double>(wanted.size());
  return 2 * precision * recall / (precision + recall);
}

AnswerScore score_answer(const SquadQuestion& question,
                         std::string_view prediction) {
  AnswerScore best;
  for (const SquadAnswer& answer : question.answers) {
    best.exact =
        std::max(best.exact, exact_match(prediction, answer.text) ? 1. : 0.);
    best.f1 = std::max(best.f1, answer_f1(prediction, answer.text));
  }
  return best;
}

SquadScore score_squad(const SquadData& data,
                       const std::map<std::string, std::string>& predictions) {
  SquadScore score;
  score.questions = data.questions.size();
  for (const SquadQuestion& question : data.questions) {
    const auto found = predictions.find(question.id);
    if (found == predictions.end()) continue;
    const AnswerScore own = score_answer(question, found->second);
    score.exact += own.exact;
    score.f1 += own.f1;
  }
  const double all = std::max<double>(1, static_cast<double>(score.questions));
  score.exact *= 100 / all;
  score.f1 *= 100 / all;
  return score;
}

}  // namespace sluice
