// text_seeds FOLDER: writes FOLDER/NAME/* as seeds of the fuzzers of text.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "sluice/text/token_cache.h"

namespace {

bool add(const std::filesystem::path& folder, const char* name, int number,
         const std::string& seed) {
  std::filesystem::create_directories(folder / name);
  std::ofstream out(folder / name / std::to_string(number), std::ios::binary);
  out << seed;
  out.close();
  return out.good();
}

std::string cache_seed() {
  sluice::PreparedText text;
  text.splits = {std::vector<std::int32_t>{0, 1}, {1}, {0}};
  text.words = {"a", "<eos>"};
  text.vocabulary = 2;
  const std::string bytes = sluice::pack_text(text, 5);
  // The fuzzer puts the checksum on.
  return bytes.substr(0, bytes.size() - 8);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: text_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const std::string squad =
      R"({"data": [{"paragraphs": [{"context": "a b a\u00e9 b", "qas": [)"
      R"({"id": "1", "question": "a b", "answers": [)"
      R"({"text": "b", "answer_start": 2}]}]}]}]})";
  const bool ok =
      add(folder, "vocabulary", 0, std::string(1, '\0') + "a\n<unk>\nb\n") &&
      add(folder, "vocabulary", 1, "\1{\"a\": 0, \"b\": 1}") &&
      add(folder, "vocabulary", 2, "\2#version: 0.2\na b\na a\naa b\n") &&
      add(folder, "squad", 0, squad) &&
      add(folder, "token_cache", 0, cache_seed()) &&
      add(folder, "tokenizer", 0,
          "The aab's \xc3\x89 \xe4\xb8\xad 12 \n\n x.") &&
      add(folder, "tokenizer", 1, "\xce\xa3\xcc\x81 \xe2\x80\x8b\xc2\xa0");
  if (!ok) std::fprintf(stderr, "[text_seeds] a seed cannot be written\n");
  return ok ? 0 : 1;
}
