#include <fmt/format.h>
#include <time.h>

#include <functional>
#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/core/ensure.h"
#include "sluice/text/bpe_tokenizer.h"
#include "sluice/text/byte_tokenizer.h"
#include "sluice/text/kjv.h"
#include "sluice/text/prepare.h"
#include "sluice/text/utf8.h"
#include "sluice/text/vocabulary_trainer.h"
#include "sluice/text/word_tokenizer.h"
#include "sluice/text/wordpiece_tokenizer.h"

namespace sluice {
namespace {

using TextRow = nlohmann::ordered_json;

struct TextOptions {
  std::string file;
  std::int64_t size = 8192;
  std::int64_t rounds = 5;
  OutputOptions output;
};

// Seconds of this thread's processor time: what others do does not count.
double thread_seconds() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct TextLane {
  std::string what;
  std::function<std::size_t()> run;  // how many tokens
  std::vector<double> seconds{};
  std::size_t tokens = 0;
};

std::size_t sum_bytes(std::string_view text) {
  std::size_t sum = 0;
  for (const char c : text) sum += static_cast<unsigned char>(c);
  return sum;
}

std::unique_ptr<Tokenizer> trained(PieceCounts::Kind kind,
                                   const std::string& text, std::size_t size) {
  PieceCounts counts(kind);
  counts.add(text);
  if (kind == PieceCounts::Kind::kWordPiece) {
    return std::make_unique<WordPieceTokenizer>(WordPieceTokenizer::Params{},
                                                train_wordpiece(counts, size));
  }
  TrainedBpe trained = train_bpe(counts, size);
  BpeTokenizer::Model model;
  model.words = std::move(trained.words);
  for (const auto& [left, right] : trained.merges) {
    model.merges.add(*model.words.find(left), *model.words.find(right),
                     *model.words.find(left + right));
  }
  return std::make_unique<BpeTokenizer>(std::move(model));
}

std::unique_ptr<Tokenizer> words_of(const std::string& text) {
  const PreparedText prepared = prepare_by_frequency({text, "", ""}, true);
  Vocabulary words;
  for (const std::string& word : prepared.words) words.add(word);
  return std::make_unique<WordTokenizer>(std::move(words));
}

std::string text_to_bench(const TextOptions& o) {
  if (!o.file.empty()) return read_utf8_file("bench", o.file);
  std::string text;
  for (const std::string& part : split_verses(read_kjv(""), false)) {
    text += part;
  }
  return text;
}

std::vector<TextRow> rows_of(const std::vector<TextLane>& lanes,
                             double megabytes) {
  std::vector<TextRow> rows;
  const double floor = median(lanes[0].seconds);
  for (const TextLane& lane : lanes) {
    const double seconds = median(lane.seconds);
    rows.push_back({{"what", lane.what},
                    {"megabytes", megabytes},
                    {"tokens", lane.tokens},
                    {"seconds", seconds},
                    {"mb_per_second", megabytes / seconds},
                    {"ratio", seconds / floor}});
  }
  return rows;
}

void bench_text(const TextOptions& o) {
  check_count("--rounds", o.rounds);
  const std::string text = text_to_bench(o);
  ensure(text.size() >= 1000,
         "[bench] the text must have 1000 bytes or more, "
         "has ",
         text.size(), "; give a longer one");
  const auto size = static_cast<std::size_t>(o.size);
  std::vector<std::unique_ptr<Tokenizer>> all;
  std::vector<TextLane> lanes = {
      {"floor: sum of bytes", [&] { return sum_bytes(text); }},
      {"utf-8 check", [&] { return first_invalid_utf8(text); }}};
  const auto add = [&](const char* what, std::unique_ptr<Tokenizer> made) {
    all.push_back(std::move(made));
    Tokenizer* tokenizer = all.back().get();
    lanes.push_back(
        {what, [tokenizer, &text] { return tokenizer->encode(text).size(); }});
  };
  add("byte", std::make_unique<ByteTokenizer>());
  add("word", words_of(text));
  show_progress("[bench] training vocabularies");
  add("bpe", trained(PieceCounts::Kind::kBpe, text, size));
  add("wordpiece", trained(PieceCounts::Kind::kWordPiece, text, size));
  auto* pieces = dynamic_cast<WordPieceTokenizer*>(all.back().get());
  lanes.push_back({"wordpiece with places", [pieces, &text] {
                     return pieces->encode_placed(text).size();
                   }});
  // One after the other, round by round: what slows the machine slows all.
  volatile std::size_t sink = 0;
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    show_progress(fmt::format("[bench] round {} of {}", round + 1, o.rounds));
    for (TextLane& lane : lanes) {
      const double begin = thread_seconds();
      lane.tokens = lane.run();
      lane.seconds.push_back(thread_seconds() - begin);
      sink = lane.tokens;
    }
  }
  (void)sink;
  lanes[0].tokens = lanes[1].tokens = 0;
  show_progress("");
  show_rows(rows_of(lanes, static_cast<double>(text.size()) / 1e6),
            {{{"what", "what", ""},
              {"mb_per_second", "MB/s", "{:.1f}"},
              {"tokens", "tokens", "{}"},
              {"ratio", "x floor", "{:.1f}"}},
             "MB/s: of text, per second of one core; tokens: that came out; "
             "x floor: time over that of adding up the bytes"},
            o.output);
}

}  // namespace

void add_bench_text(CLI::App& bench) {
  auto o = std::make_shared<TextOptions>();
  CLI::App* text = bench.add_subcommand(
      "text", "Megabytes per second of the tokenisers, on one core");
  text->add_option("--file", o->file,
                   "Text in UTF-8; without one, the King James text");
  text->add_option("--size", o->size,
                   "Tokens of the vocabularies trained on it")
      ->check(CLI::Range(std::int64_t{300}, std::int64_t{1} << 20));
  text->add_option("--rounds", o->rounds, "Timed rounds; the median counts");
  add_output_options(*text, o->output);
  add_examples(*text, {"sluice bench text",
                       "sluice bench text --file book.txt --size 4096"});
  text->callback([o] { bench_text(*o); });
}

}  // namespace sluice
