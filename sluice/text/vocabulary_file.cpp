#include <nlohmann/json.hpp>

#include "sluice/core/atomic_file.h"
#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/text/utf8.h"
#include "sluice/text/vocabulary.h"

namespace sluice {
namespace {

void check_id(std::string_view owner, const std::string& path,
              const std::string& word, const nlohmann::json& value,
              std::vector<std::string_view>& by_id) {
  const auto wrong = [&](const std::string& got) {
    ensure(false, "[", owner, "] '", path, "' must number its ", by_id.size(),
           " words from 0 to ", by_id.size() - 1, ", each once; '", word,
           "' has ", got);
  };
  if (!value.is_number_unsigned()) wrong(value.dump());
  const auto id = value.get<std::uint64_t>();
  if (id >= by_id.size()) wrong(std::to_string(id));
  std::string_view& place = by_id[id];
  if (place.data() != nullptr) {
    wrong(concat(id, ", as has '", place, "'"));
  }
  place = word;
}

std::string parse_text(std::string_view owner, const std::string& path) {
  std::string text = read_text_file(owner, path);
  try {
    check_json(owner, text);
  } catch (const std::invalid_argument& e) {
    ensure(false, "[", owner, "] '", path, "' is no vocabulary: ", e.what());
  }
  return text;
}

}  // namespace

Vocabulary read_vocabulary_lines(std::string_view owner,
                                 const std::string& path) {
  const std::string text = read_utf8_file(owner, path, kMostText);
  Vocabulary words;
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view word = std::string_view(text).substr(at, end - at);
    if (word.ends_with('\r')) word.remove_suffix(1);
    ++line;
    at = end + 1;
    ensure(!word.empty(), "[", owner, "] '", path, "' line ", line,
           " must hold a word, is empty; remove it");
    const std::size_t before = words.size();
    const std::int32_t id = words.add(word);
    ensure(words.size() > before, "[", owner, "] '", path, "' line ", line,
           " must hold a word of its own, '", word, "' is in line ", id + 1,
           " already");
  }
  ensure(words.size() > 0, "[", owner, "] '", path,
         "' must hold a word per line, is empty");
  return words;
}

Vocabulary read_vocabulary_json(std::string_view owner,
                                const std::string& path) {
  const auto json = nlohmann::json::parse(parse_text(owner, path));
  ensure(json.is_object() && !json.empty(), "[", owner, "] '", path,
         "' must be a JSON object of words and their numbers, as in "
         "{\"a\": 0, \"b\": 1}");
  std::vector<std::string_view> by_id(json.size());
  for (const auto& [word, value] : json.items()) {
    // items() hands out its key by reference to the object's own.
    check_id(owner, path, word, value, by_id);
  }
  Vocabulary words;
  for (const std::string_view word : by_id) words.add(word);
  return words;
}

void write_vocabulary_lines(const Vocabulary& words, const std::string& path) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words.word(static_cast<std::int64_t>(i));
    require(!word.empty() && word.find_first_of("\r\n") == word.npos,
            "[vocabulary] word ", i,
            " must not be empty nor hold a line break to be written as a "
            "line; write JSON");
    text.append(word) += '\n';
  }
  write_text(path, text);
}

void write_vocabulary_json(const Vocabulary& words, const std::string& path) {
  std::string text = "{";
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += nlohmann::json(words.word(static_cast<std::int64_t>(i))).dump();
    text += ": " + std::to_string(i);
  }
  write_text(path, text + "}\n");
}

}  // namespace sluice
