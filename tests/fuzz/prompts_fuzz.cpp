// Reads lists of prompts and transcripts as anyone may have made them; what is
// kept of a prompt has letters of the labels only.

#include "readers.h"
#include "sluice/audio/labels.h"
#include "sluice/audio/transcript.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  const std::string_view text = fuzz::as_text(data, size);
  const Labels labels;
  const std::string words = clean_an4_transcript(text);
  fuzz::expect_that(words == tidy_text(words), "a transcript is not tidy");
  try {
    for (const PromptLine& line : parse_prompt_list("fuzz", text)) {
      fuzz::expect_that(
          line.name.find("..") == std::string::npos && line.name[0] != '/',
          "a name leaves its folder");
      const PromptText prompt = clean_prompt(line.text);
      if (!prompt.problem.empty()) continue;
      fuzz::expect_that(
          labels.decode(labels.encode("fuzz", prompt.text)) == prompt.text,
          "a prompt is not as it is said");
    }
  } catch (const std::runtime_error& e) {
    fuzz::expect_that(std::string_view(e.what()).starts_with("[prompts]"),
                      "a prompt has letters outside the labels");
  }
  return 0;
}
