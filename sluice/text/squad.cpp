#include "sluice/text/squad.h"

#include <nlohmann/json.hpp>
#include <set>

#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

using SquadJson = nlohmann::json;

class SquadReader {
 public:
  explicit SquadReader(const std::string& name) : name_(name) {}

  SquadData read(const SquadJson& file) {
    for (const SquadJson& article : list(file, "data", "the file")) {
      for (const SquadJson& paragraph :
           list(article, "paragraphs", "an article")) {
        read_paragraph(paragraph);
      }
    }
    ensure(!data_.questions.empty(), "[squad] '", name_,
           "' must hold questions with answers, holds none; ",
           data_.skipped.size(), " had answers that are not in their context");
    return std::move(data_);
  }

 private:
  const SquadJson& field(const SquadJson& object, const char* key,
                         const std::string& where) {
    ensure(object.is_object() && object.contains(key), "[squad] '", name_,
           "': ", where, " must be an object with '", key,
           "'; is this SQuAD 1.1?");
    return object.at(key);
  }

  const SquadJson& list(const SquadJson& object, const char* key,
                        const std::string& where) {
    const SquadJson& value = field(object, key, where);
    ensure(value.is_array(), "[squad] '", name_, "': '", key, "' of ", where,
           " must be a list; is this SQuAD 1.1?");
    return value;
  }

  std::string text(const SquadJson& object, const char* key,
                   const std::string& where) {
    const SquadJson& value = field(object, key, where);
    ensure(value.is_string(), "[squad] '", name_, "': '", key, "' of ", where,
           " must be a string; is this SQuAD 1.1?");
    return value.get<std::string>();
  }

  void read_paragraph(const SquadJson& paragraph) {
    const std::size_t index = data_.contexts.size();
    data_.contexts.push_back(text(paragraph, "context", "a paragraph"));
    find_characters(data_.contexts.back());
    for (const SquadJson& qa : list(paragraph, "qas", "a paragraph")) {
      read_question(qa, index);
    }
  }

  // Offsets count code points, and questions of one context share them.
  void find_characters(const std::string& context) {
    starts_.clear();
    for (std::size_t i = 0; i < context.size(); ++i) {
      if ((static_cast<unsigned char>(context[i]) & 0xc0U) != 0x80) {
        starts_.push_back(i);
      }
    }
  }

  void read_question(const SquadJson& qa, std::size_t context) {
    SquadQuestion question;
    question.id = text(qa, "id", "a question");
    const std::string where = concat("question '", question.id, "'");
    ensure(ids_.insert(question.id).second, "[squad] '", name_, "': ", where,
           " must be there once, is there twice");
    question.question = text(qa, "question", where);
    question.context = context;
    const SquadJson& answers = list(qa, "answers", where);
    ensure(!answers.empty(), "[squad] '", name_, "': ", where,
           " must have an answer, has none; take SQuAD 1.1 (version 2.0 has "
           "such questions)");
    for (const SquadJson& answer : answers) {
      if (!add_answer(answer, where, question)) {
        data_.skipped.push_back(question.id);
        return;
      }
    }
    data_.questions.push_back(std::move(question));
  }

  // Whether it stands where it says.
  bool add_answer(const SquadJson& json, const std::string& where,
                  SquadQuestion& question) {
    SquadAnswer answer;
    answer.text = text(json, "text", "an answer of " + where);
    const SquadJson& start =
        field(json, "answer_start", "an answer of " + where);
    ensure(start.is_number_unsigned(), "[squad] '", name_,
           "': 'answer_start' "
           "of ",
           where, " must be a whole number from 0");
    const auto at = start.get<std::uint64_t>();
    const std::string& context = data_.contexts[question.context];
    if (at >= starts_.size() || answer.text.empty()) return false;
    if (!std::string_view(context)
             .substr(starts_[at])
             .starts_with(answer.text)) {
      return false;
    }
    answer.place = {starts_[at], starts_[at] + answer.text.size()};
    question.answers.push_back(std::move(answer));
    return true;
  }

  const std::string& name_;
  SquadData data_;
  std::set<std::string> ids_;
  std::vector<std::size_t> starts_;  // of code points of the context, in bytes
};

}  // namespace

SquadData parse_squad(const std::string& name, std::string_view json) {
  try {
    check_json("squad", json);
  } catch (const std::invalid_argument& e) {
    ensure(false, "[squad] '", name, "' cannot be read: ", e.what());
  }
  return SquadReader(name).read(SquadJson::parse(json));
}

SquadData read_squad(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{512} << 20;
  const std::string problem = why_no_file(path);
  ensure(problem.empty(), "[squad] '", path,
         "' must be a file that can be read: ", problem,
         "; train-v1.1.json and dev-v1.1.json of SQuAD 1.1 are such, and "
         "tools/make_questions makes one of a plain text");
  return parse_squad(path, read_text_file("squad", path, kMost));
}

}  // namespace sluice
