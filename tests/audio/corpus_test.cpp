#include "sluice/audio/corpus.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "audio_support.h"
#include "sluice/audio/prompts.h"
#include "sluice/audio/resample.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

// A small AN4: two utterances to train with, one to test with.
class Corpus : public ::testing::Test {
 protected:
  Corpus() {
    write_bytes(folder_ / "a.wav", wav(tone(300, 16000, 0.5), 16000));
    write_bytes(folder_ / "b.raw", raw(tone(500, 16000, 0.25)));
    write_bytes(folder_ / "c.wav", wav(tone(200, 8000, 0.5), 8000));
    write_text_to(folder_ / "a.txt", "<s> HELLO YOU </s> (a)\n");
    write_text_to(folder_ / "b.txt", "yes\n");
    write_text_to(folder_ / "c.txt", "NO\n");
    write_text_to(folder_ / "an4_train_manifest.csv",
                  "a.wav,a.txt\nb.raw,b.txt");
    write_text_to(folder_ / "an4_val_manifest.csv", "c.wav,c.txt\n");
  }

  std::unique_ptr<SpeechCorpus> make(Split split = Split::kTrain,
                                     const std::string& more = "") {
    return make_speech_corpus("an4:cache=" + cache_ + more,
                              {split, folder_.path()});
  }
  std::string refusal(const std::string& more = "") {
    return message_of<std::runtime_error>([&] { make(Split::kTrain, more); });
  }
  std::vector<std::string> cached() const {
    std::vector<std::string> paths;
    if (!fs::exists(cache_)) return paths;
    for (const auto& entry : fs::directory_iterator(cache_)) {
      paths.push_back(entry.path().string());
    }
    return paths;
  }

  TempFolder folder_;
  std::string cache_ = folder_ / "cache";
};

std::vector<float> samples_of(const SpeechCorpus& corpus, std::size_t clip) {
  std::vector<float> samples;
  corpus.samples(clip, samples);
  return samples;
}

TEST_F(Corpus, HasClipsTranscriptsAndLabels) {
  const auto corpus = make();
  ASSERT_EQ(corpus->size(), 2U);
  EXPECT_EQ(corpus->transcript(0), "HELLO YOU");
  EXPECT_EQ(corpus->transcript(1), "YES");
  EXPECT_EQ(corpus->length(0), 8000U);
  EXPECT_DOUBLE_EQ(corpus->seconds(1), 0.25);
  EXPECT_DOUBLE_EQ(corpus->total_seconds(), 0.75);
  EXPECT_EQ(corpus->targets(1), (std::vector<std::int32_t>{26, 6, 20}));
  EXPECT_TRUE(corpus->notes().empty());
  const auto expected = tone(300, 16000, 0.5);
  const auto samples = samples_of(*corpus, 0);
  ASSERT_EQ(samples.size(), expected.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ(samples[i], static_cast<float>(expected[i]) / 32768);
  }
}

TEST_F(Corpus, IsResampled) {
  const auto corpus = make(Split::kTest);
  EXPECT_EQ(corpus->length(0), 8000U);
  const auto samples = samples_of(*corpus, 0);
  const auto expected = sine(200, 16000, 8000);
  for (std::size_t i = 1000; i < 7000; ++i) {
    ASSERT_NEAR(samples[i], expected[i], 2e-4);
  }
}

TEST_F(Corpus, IsPreparedOnce) {
  const auto first = make();
  ASSERT_EQ(cached().size(), 1U);
  const auto written = fs::last_write_time(cached()[0]);
  const auto second = make();
  EXPECT_EQ(cached().size(), 1U);
  EXPECT_EQ(fs::last_write_time(cached()[0]), written);
  EXPECT_EQ(samples_of(*first, 1), samples_of(*second, 1));
  EXPECT_EQ(first->fingerprint(), second->fingerprint());
}

// As ranks of a job do.
TEST_F(Corpus, IsPreparedByManyAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::size_t> notes(8);
  for (std::size_t& count : notes) {
    threads.emplace_back([&] { count = make()->notes().size(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(notes, std::vector<std::size_t>(8));
  EXPECT_EQ(cached().size(), 1U) << "something was left";
}

TEST_F(Corpus, IsPreparedAgainWhenItsContentsChange) {
  const auto before = make()->fingerprint();
  write_bytes(folder_ / "b.raw", raw(tone(501, 16000, 0.25)));
  EXPECT_NE(make()->fingerprint(), before);
  EXPECT_EQ(cached().size(), 2U);
}

TEST_F(Corpus, IsAnotherWithOtherTranscripts) {
  const auto before = make()->fingerprint();
  write_text_to(folder_ / "b.txt", "no");
  EXPECT_NE(make()->fingerprint(), before);
  EXPECT_EQ(cached().size(), 1U);
}

TEST_F(Corpus, IsPreparedAgainWhenTheCacheIsCutOrOverwritten) {
  const auto expected = samples_of(*make(), 1);
  const std::string path = cached()[0];
  const Bytes whole = read_bytes(path);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{31}, std::size_t{60}, whole.size() - 1}) {
    write_bytes(path,
                Bytes(whole.begin(), whole.begin() + std::ptrdiff_t(size)));
    const auto corpus = make();
    ASSERT_EQ(corpus->notes().size(), 1U);
    EXPECT_CONTAINS(corpus->notes()[0],
                    "prepared audio is made again: [audio cache] '" + path);
    EXPECT_EQ(samples_of(*corpus, 1), expected);
    EXPECT_EQ(read_bytes(path), whole);
  }
  Bytes other = whole;
  other[40] ^= 1;  // the checksum of a clip
  write_bytes(path, other);
  EXPECT_EQ(make()->notes().size(), 1U);
}

TEST_F(Corpus, NoticesSamplesThatHaveChanged) {
  make();
  const std::string path = cached()[0];
  Bytes bytes = read_bytes(path);
  bytes.back() ^= 1;
  write_bytes(path, bytes);
  const auto corpus = make();
  samples_of(*corpus, 0);
  EXPECT_EQ(message_of<std::runtime_error>([&] { samples_of(*corpus, 1); }),
            "[audio cache] '" + path +
                "' must be undamaged, is not; remove it, and it is made again");
}

TEST_F(Corpus, StaysInMemoryIfItCannotBeWritten) {
  write_text_to(folder_ / "file", "x");
  cache_ = folder_ / "file/below";
  const auto corpus = make();
  ASSERT_EQ(corpus->notes().size(), 1U);
  EXPECT_CONTAINS(corpus->notes()[0],
                  "prepared audio stays in memory, for this run only: ");
  EXPECT_EQ(samples_of(*corpus, 0).size(), 8000U);
  cache_ = "none";
  EXPECT_TRUE(make()->notes().empty());
}

TEST_F(Corpus, NamesClipsThatCannotBeUsed) {
  write_bytes(folder_ / "b.raw", {});
  EXPECT_EQ(refusal(), "[audio] '" + (folder_ / "b.raw") +
                           "' must hold audio, has no samples; record it again "
                           "or leave it out");
  write_bytes(folder_ / "b.raw", {1, 2});
  write_bytes(folder_ / "a.wav", wav({1, 2, 3}, 44101));
  EXPECT_EQ(refusal(),
            "[audio] '" + (folder_ / "a.wav") +
                "' [resample] 44101 Hz to 16000 Hz must be a ratio of at most "
                "1000 in lowest terms, is 44101 : 16000; convert the audio to "
                "16000 Hz first");
}

TEST_F(Corpus, NamesTranscriptsThatCannotBeUsed) {
  write_text_to(folder_ / "b.txt", "ROUTE 66");
  EXPECT_EQ(refusal(), "[labels] the transcript of '" + (folder_ / "b.txt") +
                           "' must have letters of the labels only, has '6'; "
                           "write it out, or leave such letters out: "
                           "unknown=drop");
  const auto corpus = make(Split::kTrain, ",unknown=drop");
  EXPECT_EQ(corpus->transcript(1), "ROUTE");
  EXPECT_EQ(corpus->notes(),
            std::vector<std::string>{"left 2 letters out of transcripts that "
                                     "are not among the labels"});
  write_text_to(folder_ / "b.txt", "66");
  EXPECT_CONTAINS(refusal(",unknown=drop"),
                  "must have words, has none; leave the line out");
}

TEST_F(Corpus, UsesTheLabelsOfItsFolder) {
  write_text_to(folder_ / "labels.json",
                R"(["_", "E", "H", "L", "O", "S", "U", "Y", " "])");
  EXPECT_EQ(make()->labels().size(), 9U);
}

TEST_F(Corpus, SaysWhatItWants) {
  EXPECT_CONTAINS(message_of<std::runtime_error>([&] {
                    make_speech_corpus("an4", {Split::kTrain, cache_});
                  }),
                  "must hold an4_train_manifest.csv; get AN4 from");
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { make_speech_corpus("librispeech"); }),
            "[make_speech_corpus] no speech_corpus 'librispeech'; known: an4 "
            "prompts");
}

TEST_F(Corpus, FindsTargetsLongerThanCtcCanFit) {
  const auto corpus = make();
  const auto frames = [](std::size_t samples) { return samples / 800; };
  EXPECT_TRUE(ctc_misfits(*corpus, frames).empty());
  require_ctc_fits(*corpus, frames);
  // HELLO YOU takes 10 frames, and so much is left of 8000 samples.
  EXPECT_EQ(ctc_misfits(*corpus, frames, 1.15), std::vector<std::size_t>{0});
  EXPECT_EQ(message_of<std::runtime_error>(
                [&] { require_ctc_fits(*corpus, frames, 1.15); }),
            "[ctc] clip '" + (folder_ / "a.wav") +
                "' must have at least 10 frames for its 9 letters (repeats "
                "need a blank between), has 8; is it the right transcript? "
                "else leave the clip out, use a model with a smaller stride, "
                "or less tempo (1 of 2 clips)");
}

// What the Debian packages hold, in small.
class PromptFolder : public ::testing::Test {
 protected:
  PromptFolder() {
    fs::create_directories(folder_ / "digits");
    std::string list = "; Prompts\n\nbeep: [a tone]\nlost: Not there.\n";
    for (int i = 0; i < 60; ++i) {
      const std::string name = "digits/" + std::to_string(i);
      // Two names for each text.
      list +=
          name + ": Text " + std::string(1 + std::size_t(i / 2), 'a') + ".\n";
      write_bytes(folder_ / (name + ".wav"),
                  wav(tone(200 + i, 8000, 0.1), 8000));
    }
    write_text_to(folder_ / "core-sounds-en.txt", list);
  }
  std::unique_ptr<SpeechCorpus> make(Split split) {
    return make_speech_corpus("prompts:cache=none", {split, folder_.path()});
  }

  TempFolder folder_;
};

TEST_F(PromptFolder, IsSplitByText) {
  const auto train = make(Split::kTrain);
  const auto test = make(Split::kTest);
  EXPECT_EQ(train->size() + test->size(), 60U);
  EXPECT_GT(test->size(), 0U);
  std::set<std::string> texts;
  for (std::size_t i = 0; i < train->size(); ++i) {
    texts.insert(train->transcript(i));
  }
  for (std::size_t i = 0; i < test->size(); ++i) {
    EXPECT_FALSE(texts.contains(test->transcript(i)));
  }
  EXPECT_NE(train->fingerprint(), test->fingerprint());
}

TEST_F(PromptFolder, SaysWhatWasLeftOut) {
  EXPECT_EQ(make(Split::kTrain)->notes(),
            (std::vector<std::string>{
                "left out 1 of 62 prompts: their texts have tones, symbols or "
                "numbers",
                "left out 1 of 62 prompts: they have a text and no sound"}));
}

TEST(Prompts, NeverChangeSides) {
  // If these change, no result of before can be compared.
  EXPECT_EQ(split_of_prompt("HELLO WORLD"), Split::kTrain);
  std::size_t test = 0;
  for (int i = 0; i < 1000; ++i) {
    test += split_of_prompt(std::to_string(i)) == Split::kTest ? 1 : 0;
  }
  EXPECT_EQ(test, 102U);
}

TEST(Prompts, SayWhatToInstall) {
  EXPECT_EQ(message_of<std::runtime_error>([] {
              make_speech_corpus("prompts", {Split::kTrain, "/nowhere"});
            }),
            "[speech_corpus 'prompts'] '/nowhere' must be a folder of prompts; "
            "install them: apt-get install asterisk-core-sounds-en-wav "
            "asterisk-core-sounds-en");
}

}  // namespace
}  // namespace sluice::testing
