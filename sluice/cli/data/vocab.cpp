#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/text/utf8.h"
#include "sluice/text/vocabulary_trainer.h"

namespace sluice {
namespace {

struct VocabOptions {
  std::string kind = "bpe";
  std::int64_t size = 8192;
  std::string out;
  bool cased = false;
  std::vector<std::string> files;
};

PieceCounts count_files(const VocabOptions& o, std::size_t& bytes) {
  PieceCounts counts(
      o.kind == "bpe" ? PieceCounts::Kind::kBpe : PieceCounts::Kind::kWordPiece,
      !o.cased);
  for (const std::string& file : o.files) {
    show_progress(fmt::format("[vocab] counting the words of {}", file));
    const std::string text = read_utf8_file("vocab", file);
    bytes += text.size();
    counts.add(text);
  }
  ensure(counts.counts().size() > 0,
         "[vocab] the files must hold words, hold none; give text files");
  return counts;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  ensure(std::filesystem::is_directory(folder), "[vocab] --out '", folder,
         "' must be a folder that can be made: ", error.message());
}

void make_vocab(const VocabOptions& o) {
  require(!o.cased || o.kind == "wordpiece",
          "[vocab] --cased is for --kind wordpiece; bpe always keeps case");
  const Stopwatch watch;
  std::size_t bytes = 0;
  const PieceCounts counts = count_files(o, bytes);
  const auto progress = [](std::size_t done, std::size_t all) {
    show_progress(fmt::format("[vocab] {} of {} merges", done, all));
  };
  const auto size = static_cast<std::size_t>(o.size);
  std::size_t tokens = 0;
  std::string files;
  if (o.kind == "bpe") {
    const TrainedBpe model = train_bpe(counts, size, progress);
    make_folder(o.out);
    write_bpe(model, o.out);
    tokens = model.words.size();
    files = fmt::format("{0}/vocab.json and {0}/merges.txt", o.out);
  } else {
    const Vocabulary words = train_wordpiece(counts, size, progress);
    make_folder(o.out);
    write_vocabulary_lines(words, o.out + "/vocab.txt");
    tokens = words.size();
    files = fmt::format("{}/vocab.txt", o.out);
  }
  show_progress("");
  fmt::print(
      "[vocab] wrote {}: {} tokens from {} distinct words of {:.1f} MB "
      "in {:.1f} s\n",
      files, tokens, counts.counts().size(), static_cast<double>(bytes) / 1e6,
      watch.seconds());
  if (tokens < size) {
    fmt::print(
        "[vocab] the text has nothing more to merge: {} tokens of the "
        "{} asked for\n",
        tokens, size);
  }
}

}  // namespace

void add_data_vocab(CLI::App& data) {
  auto o = std::make_shared<VocabOptions>();
  CLI::App* vocab =
      data.add_subcommand("vocab", "Train a subword vocabulary on text files");
  vocab->add_option("--kind", o->kind, "bpe (GPT-2) or wordpiece (BERT)")
      ->check(CLI::IsMember({"bpe", "wordpiece"}));
  vocab->add_option("--size", o->size, "Tokens, with special ones")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 26));
  vocab->add_option("--out", o->out, "Folder for the files")->required();
  vocab->add_flag("--cased", o->cased, "Keep case and accents (wordpiece)");
  vocab->add_option("files", o->files, "Texts in UTF-8")->required();
  add_examples(*vocab,
               {"sluice data vocab --size 4096 --out vocab book.txt",
                "sluice data vocab --kind wordpiece --size 4096 --out pieces "
                "book.txt"});
  vocab->callback([o] { make_vocab(*o); });
}

}  // namespace sluice
