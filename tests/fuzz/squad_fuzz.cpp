// Reads questions as anyone may have made them, and makes windows of those it
// takes.

#include "readers.h"
#include "sluice/text/squad_windows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  SquadData squad;
  try {
    squad = parse_squad("fuzz", fuzz::as_text(data, size));
  } catch (const std::runtime_error&) {
    return 0;
  }
  Vocabulary words;
  for (const char* word : {"[UNK]", "[CLS]", "[SEP]", "a", "##a", "b"}) {
    words.add(word);
  }
  WordPieceTokenizer tokenizer({}, std::move(words));
  for (const SquadWindow& window :
       make_squad_windows(squad, tokenizer, {12, 3, 4})) {
    fuzz::expect_that(window.tokens.size() <= 12, "a window is too long");
    fuzz::expect_that(window.start <= window.end, "an answer ends too soon");
    for (const ByteRange& place : window.places) {
      const auto& context =
          squad.contexts[squad.questions[window.question].context];
      fuzz::expect_that(place.begin < place.end && place.end <= context.size(),
                        "a token lies outside its context");
    }
  }
  for (const SquadQuestion& question : squad.questions) {
    const std::string& answer = question.answers[0].text;
    fuzz::expect_that(exact_match(answer, answer), "a text is not itself");
  }
  return 0;
}
