#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/text/basic_words.h"

namespace sluice {

// Questions about paragraphs, whose answers stand in them: SQuAD 1.1
// (Rajpurkar et al. 2016), train-v1.1.json and dev-v1.1.json.

struct SquadAnswer {
  std::string text;
  ByteRange place;  // in the context
};

struct SquadQuestion {
  std::string id;
  std::string question;
  std::size_t context = 0;           // of SquadData::contexts
  std::vector<SquadAnswer> answers;  // one at least
};

struct SquadData {
  std::vector<std::string> contexts;
  std::vector<SquadQuestion> questions;
  // Ids of questions left out because an answer does not stand where the file
  // says it does.
  std::vector<std::string> skipped;
};

// Throws std::runtime_error, naming the place in the file, for what is no SQuAD
// 1.1: other types, missing fields, ids that occur twice, a question without an
// answer (SQuAD 2.0 has those). A question with an answer that does not occur
// at its offset is left out and counted; that is an error if none remains.
SquadData read_squad(const std::string& path);
// The same from its text; `name` is for messages.
SquadData parse_squad(const std::string& name, std::string_view json);

// The official measures, in percent: both are maxima over a question's answers,
// and means over questions. Questions without a prediction count 0.
struct SquadScore {
  double exact = 0;
  double f1 = 0;
  std::size_t questions = 0;
};
// Of one question, as shares.
struct AnswerScore {
  double exact = 0;
  double f1 = 0;
};
AnswerScore score_answer(const SquadQuestion& question,
                         std::string_view prediction);
SquadScore score_squad(const SquadData& data,
                       const std::map<std::string, std::string>& predictions);

// Lower case, without the punctuation of ASCII, without a, an, the, one blank
// between words.
std::string normalize_answer(std::string_view text);
bool exact_match(std::string_view prediction, std::string_view truth);
double answer_f1(std::string_view prediction, std::string_view truth);

}  // namespace sluice
