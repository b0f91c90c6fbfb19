#include "sluice/text/word_tokenizer.h"

#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/text/text_files.h"
#include "sluice/text/unicode.h"
#include "sluice/text/utf8.h"

namespace sluice {

void for_each_word(std::string_view text,
                   const std::function<void(std::string_view)>& take) {
  std::size_t begin = 0;  // of the word
  const auto end_word = [&](std::size_t end) {
    if (end > begin) take(text.substr(begin, end - begin));
  };
  bool line_open = false;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (c.bytes == 0) fail_utf8("word", i);
    const std::size_t next = i + c.bytes;
    if (is_blank(c.value)) {
      end_word(i);
      begin = next;
    }
    line_open = c.value != '\n';
    if (!line_open) take(kEndOfLine);
    i = next;
  }
  end_word(text.size());
  if (line_open) take(kEndOfLine);
}

WordTokenizer::WordTokenizer(const Params&, const TokenizerPlace& place)
    : WordTokenizer(read_vocabulary_lines(
          "tokenizer 'word'",
          text_file_in("tokenizer 'word'", place.folder, {"vocab.txt"},
                       "it holds one word per line"))) {}

WordTokenizer::WordTokenizer(Vocabulary words) : words_(std::move(words)) {
  ensure(words_.find(kEndOfLine).has_value(),
         "[tokenizer 'word'] the "
         "vocabulary must have <eos>, which ends a line; add a line with it");
  set_special({.unknown = words_.unknown(), .end = words_.find(kEndOfLine)});
}

void WordTokenizer::encode(std::string_view text,
                           std::vector<std::int32_t>& out) {
  for_each_word(text, [&](std::string_view word) {
    const auto id = words_.find(word);
    out.push_back(
        id ? *id
           : words_.need_unknown(concat("tokenizer 'word': '", word, "'")));
  });
}

std::string WordTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    const std::string_view word = words_.word(token);
    if (word == kEndOfLine) {
      text += '\n';
      continue;
    }
    if (!text.empty() && text.back() != '\n') text += ' ';
    text.append(word);
  }
  return text;
}

}  // namespace sluice
