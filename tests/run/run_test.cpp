#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "files.h"
#include "ranks.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/config/config.h"
#include "sluice/run/checkpoint_store.h"
#include "sluice/run/metrics.h"
#include "sluice/run/rank_part.h"
#include "sluice/run/ranks.h"
#include "sluice/run/run_folder.h"
#include "sluice/run/timeline.h"

namespace sluice {
namespace {

using testing::message_of;
using testing::run_ranks;
using testing::TempFolder;

TEST(Inherit, KeepsTheMeanOverRanks) {
  for (std::size_t old = 1; old <= 7; ++old) {
    for (std::size_t now = 1; now <= 7; ++now) {
      // What each old rank's residual comes to in the new mean.
      std::vector<double> share(old, 0);
      for (std::size_t r = 0; r < now; ++r) {
        for (const Inherited& part : inherit(old, r, now)) {
          share[part.rank] += part.factor / static_cast<double>(now);
        }
      }
      for (const double s : share) {
        EXPECT_NEAR(s, 1.0 / static_cast<double>(old), 1e-15)
            << old << " ranks to " << now;
      }
    }
  }
}

void put(const CheckpointStore& store, std::uint64_t step,
         const std::string& text) {
  store.begin(step);
  std::ofstream(store.partial(step) + "/model.ckpt") << text;
  store.publish(step);
}

std::string content(const std::string& folder) {
  std::ifstream file(folder + "/model.ckpt");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(CheckpointStore, KeepsTheLastOnes) {
  const TempFolder run;
  const CheckpointStore store(run.path(), 2);
  EXPECT_EQ(CheckpointStore::find(run.path()), "");
  for (const std::uint64_t step : {10, 20, 30}) put(store, step, "x");
  EXPECT_EQ(CheckpointStore::find(run.path()),
            run / "checkpoints/step-00000030");
  EXPECT_FALSE(std::filesystem::exists(run / "checkpoints/step-00000010"));
  EXPECT_TRUE(std::filesystem::exists(run / "checkpoints/step-00000020"));
  EXPECT_EQ(CheckpointStore::find(run / "checkpoints/step-00000020"),
            run / "checkpoints/step-00000020");
}

TEST(CheckpointStore, KnowsOnlyWhatWasPublished) {
  const TempFolder run;
  const CheckpointStore store(run.path(), 2);
  put(store, 10, "good");
  store.begin(20);
  std::ofstream(store.partial(20) + "/model.ckpt") << "half";
  EXPECT_EQ(content(CheckpointStore::find(run.path())), "good");
  // A run that starts over does not find the rest of the one before.
  store.begin(20);
  EXPECT_TRUE(std::filesystem::is_empty(store.partial(20)));
  store.discard(20);
  EXPECT_FALSE(std::filesystem::exists(store.partial(20)));
}

TEST(CheckpointStore, ReplacesAStepThatIsThere) {
  const TempFolder run;
  const CheckpointStore store(run.path(), 2);
  put(store, 10, "old");
  put(store, 10, "new");
  EXPECT_EQ(content(CheckpointStore::find(run.path())), "new");
  EXPECT_FALSE(std::filesystem::exists(store.partial(10)));
}

TEST(CheckpointStore, FindsTheNewestWithoutHelp) {
  const TempFolder run;
  const CheckpointStore store(run.path(), 9);
  for (const std::uint64_t step : {9, 10, 100'000'000}) put(store, step, "x");
  const std::string latest = run / "checkpoints/latest";
  const std::string newest = run / "checkpoints/step-100000000";
  const auto note = [&] {
    const auto found = CheckpointStore::find_all(run.path());
    EXPECT_EQ(found.folders,
              (std::vector{newest, run / "checkpoints/step-00000010",
                           run / "checkpoints/step-00000009"}));
    return found.note;
  };
  EXPECT_EQ(note(), "");
  write_text(latest, "");
  EXPECT_EQ(note(), "'" + latest + "' is empty");
  write_text(latest, "step-00000011\n");
  EXPECT_CONTAINS(note(), "names 'step-00000011', which is no checkpoint here");
  write_text(latest, "step-../../../elsewhere\n");
  EXPECT_CONTAINS(note(), "which is no checkpoint here");
  std::filesystem::remove(latest);
  EXPECT_CONTAINS(note(), "cannot be read: No such file or directory");
  write_text(latest, "step-00000010\n");
  EXPECT_EQ(CheckpointStore::find(run.path()),
            run / "checkpoints/step-00000010");
}

TEST(CheckpointStore, SetsAsideWhatARunDoesNotGoOnFrom) {
  const TempFolder run;
  const CheckpointStore store(run.path(), 2);
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry :
         std::filesystem::directory_iterator(run / "checkpoints")) {
      all.insert(entry.path().filename());
    }
    return all;
  };
  put(store, 10, "first");
  put(store, 20, "lost");
  EXPECT_EQ(store.go_on_from(run / "checkpoints/step-00000010/"),
            std::vector{run / "checkpoints/step-00000020.abandoned"});
  EXPECT_EQ(content(CheckpointStore::find(run.path())), "first");
  put(store, 15, "x");
  put(store, 20, "lost as well");
  EXPECT_EQ(store.go_on_from(run / "checkpoints/step-00000015"),
            std::vector{run / "checkpoints/step-00000020.abandoned-2"});
  put(store, 18, "x");
  EXPECT_EQ(names(),
            (std::set<std::string>{"latest", "step-00000015", "step-00000018",
                                   "step-00000020.abandoned",
                                   "step-00000020.abandoned-2"}));
  // From another run folder: nothing here is what it goes on from.
  const TempFolder other;
  put(CheckpointStore(other.path(), 1), 15, "x");
  EXPECT_EQ(store.go_on_from(other / "checkpoints/step-00000015").size(), 2U);
  EXPECT_EQ(CheckpointStore::find(run.path()), "");
}

TEST(Agree, ThrowsOnAllRanksWhatOneSays) {
  auto ranks = make_thread_ranks(3);
  run_ranks(ranks, [&](std::size_t r) {
    agree(*ranks[r], "test", 1, "");
    try {
      agree(*ranks[r], "test", 2, r == 2 ? "no space" : "");
      ADD_FAILURE() << "rank " << r << " agreed";
    } catch (const AgreedError& e) {
      EXPECT_STREQ(e.what(), "no space");
      EXPECT_EQ(e.speaker(), 2);
    }
  });
}

TEST(CompareConfigs, NamesRanksAndTheDifference) {
  auto ranks = make_thread_ranks(3);
  run_ranks(ranks, [&](std::size_t r) {
    TrainConfig config;
    compare_configs(*ranks[r], config);
    if (r == 1) config.density = 0.5;
    const std::string says =
        message_of<AgreedError>([&] { compare_configs(*ranks[r], config); });
    EXPECT_CONTAINS(says, "rank 1 differ from rank 0 (density: '0.01', '0.5')");
  });
}

TEST(Timeline, HasAllRanksInOneFile) {
  const TempFolder folder;
  auto ranks = make_thread_ranks(2);
  const auto now = std::chrono::steady_clock::now();
  const auto ms = [](int n) { return std::chrono::milliseconds(n); };
  run_ranks(ranks, [&](std::size_t r) {
    Trace trace;
    trace.turn(true);
    trace.add({"backward", 0, 4, now, now + ms(2)});
    trace.add({"backward", 1, 4, now, now + ms(5)});
    trace.add({"select", 0, 4, now + ms(2), now + ms(3)});
    // Of a plan before this one, which had more buckets.
    trace.add({"select", 2, 4, now + ms(3), now + ms(4)});
    const std::vector<std::string> labels = {"b.weight + 1", "a.weight"};
    write_timeline(*ranks[r], 0, trace, labels, folder / "trace.json");
  });
  std::ifstream file(folder / "trace.json");
  const auto events = nlohmann::json::parse(file).at("traceEvents");
  std::vector<double> backward;
  std::set<int> pids;
  for (const auto& e : events) {
    if (e.at("ph") != "X") continue;
    pids.insert(e.at("pid").get<int>());
    EXPECT_EQ(e.at("args").at("step"), 5);
    const int bucket = e.at("args").at("bucket");
    EXPECT_EQ(e.at("args").value("tensors", "none"), bucket == 0
                                                         ? "b.weight + 1"
                                                     : bucket == 1 ? "a.weight"
                                                                   : "none");
    if (e.at("name") == "backward") backward.push_back(e.at("dur"));
  }
  EXPECT_EQ(pids, (std::set{0, 1}));
  ASSERT_EQ(backward.size(), 4);
  EXPECT_NEAR(backward[0], 2000, 1e-3);
  EXPECT_NEAR(backward[1], 3000, 1e-3);  // only what came after the first
}

TEST(Metrics, ForgetsStepsThatWereNotSaved) {
  const TempFolder folder;
  StepTotals window;
  window.steps = 1;
  window.samples = 2;
  window.seconds = 1;
  {
    Metrics metrics({folder.path(), 0, 10, true});
    for (const std::uint64_t step : {1, 2, 3}) {
      metrics.trained({step, 0, 0, 0}, window);
    }
  }
  Metrics metrics({folder.path(), 2, 10, true});
  metrics.trained({4, 0, 0, 0}, window);
  std::vector<int> steps;
  for (const MetricsLine& line : read_metrics(folder / "metrics.jsonl")) {
    steps.push_back(static_cast<int>(line.step));
  }
  EXPECT_EQ(steps, (std::vector{1, 2, 4}));
}

TEST(MetricsFile, ReadsWhatWasWritten) {
  for (const auto kind : {MetricsLine::kTrain, MetricsLine::kEval}) {
    MetricsLine line;
    line.kind = kind;
    line.step = 7;
    line.epoch = 0.5;
    line.time_s = 2;
    double value = 0.125;
    for (const MetricsField& field : metrics_fields(kind)) {
      line.*field.value = value;
      value += 1;
    }
    line.scores = {{&score_kind("wer"), 0.25}, {&score_kind("cer"), 0.5}};
    const auto again = metrics_line_from_json(to_json(line));
    ASSERT_TRUE(again);
    EXPECT_EQ(to_json(*again), to_json(line));
  }
}

TEST(MetricsFile, LeavesOutWhatIsNoLine) {
  const TempFolder folder;
  EXPECT_TRUE(read_metrics(folder / "metrics.jsonl").empty());
  std::ofstream(folder / "metrics.jsonl")
      << R"({"kind": "train", "step": 3, "loss": null, "accuracy": 0.5})"
      << "\n[]\n\n"
      << R"({"kind": "other", "step": 4})"
      << "\n"
      << R"({"kind": "eval", "step": -1})"
      << "\n"
      << R"({"kind": "eval", "st)";
  const auto lines = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0].step, 3);
  ASSERT_EQ(lines[0].scores.size(), 1U);
  EXPECT_EQ(lines[0].scores[0].kind, &score_kind("accuracy"));
  EXPECT_EQ(lines[0].scores[0].value, 0.5);
  EXPECT_TRUE(std::isnan(lines[0].loss));
}

TEST(Scores, AreBetterUpOrDown) {
  const ScoreKind& accuracy = score_kind("accuracy");
  const ScoreKind& perplexity = score_kind("perplexity");
  EXPECT_TRUE(accuracy.better(0.9, 0.8));
  EXPECT_TRUE(perplexity.better(80, 90));
  EXPECT_FALSE(perplexity.better(90, 80));
  for (const ScoreKind& kind : score_kinds()) {
    EXPECT_TRUE(kind.better(1, std::nan(""))) << kind.name;
    EXPECT_FALSE(kind.better(std::nan(""), 1)) << kind.name;
    EXPECT_FALSE(kind.better(1, 1)) << kind.name;
  }
}

TEST(Scores, ComeFromMeansAndReadAsPeopleDo) {
  const Score loss = {&score_kind("perplexity"), 2 * std::log(8.0), 2};
  EXPECT_DOUBLE_EQ(loss.value(), 8);
  const Score bits = {&score_kind("bits_per_byte"), std::log(8.0), 1};
  EXPECT_DOUBLE_EQ(bits.value(), 3);
  EXPECT_EQ(score_kind("accuracy").text(0.87314), "87.31 %");
  EXPECT_EQ(score_kind("perplexity").text(112.404), "112.40");
}

TEST(Scores, NameWhatThereIs) {
  EXPECT_THROW(score_kind("acuracy"), std::invalid_argument);
}

}  // namespace
}  // namespace sluice
