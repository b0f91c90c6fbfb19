#include "sluice/study/study.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "files.h"
#include "ranks.h"
#include "refusal.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/study/gradient_study.h"
#include "sluice/study/npy.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using testing::refusal;
using testing::run_ranks;
using testing::TempFolder;

const std::vector<TensorInfo> kFour = {{"layer", {4}}};

SelectedPart part_of(std::span<const float> x,
                     std::span<const std::uint32_t> indices,
                     std::span<const float> values) {
  SelectedPart part;
  part.size = x.size();
  part.rule = "topk";
  part.density = 0.25;
  part.budget = 1;
  part.indices = indices;
  part.values = values;
  part.gradient = part.input = x;
  return part;
}

// Two workers with four entries, of which each sends its largest.
std::vector<Json> rows_of_two(const std::string& folder,
                              const std::vector<float>& applied,
                              std::uint64_t steps) {
  auto ranks = make_thread_ranks(2);
  run_ranks(ranks, [&](std::size_t r) {
    const auto study = make_study("convergence:every=2,least=1", {kFour, r});
    study->open(folder, 0);
    const std::vector<float> x = r == 0 ? std::vector<float>{4, 0, 0, 1}
                                        : std::vector<float>{0, 3, 0, 1};
    const std::vector<std::uint32_t> index = {static_cast<std::uint32_t>(r)};
    const std::vector<float> value = {x[r]};
    for (std::uint64_t step = 1; step <= steps; ++step) {
      EXPECT_EQ(study->look(step - 1),
                study->is_due(step) ? Look::kEverything : Look::kEntries);
      study->selected(step - 1, part_of(x, index, value));
      study->finish(*ranks[r], step, step != 3, {{applied}});
    }
  });
  return read_study_rows(folder + "/" + Study::kRows);
}

TEST(ConvergenceStudy, WritesTheEvidenceOfAllRanks) {
  const TempFolder folder;
  const auto rows = rows_of_two(folder.path(), {2, 1.5, 0, 0}, 5);
  ASSERT_EQ(rows.size(), 3U) << "steps 1, 2 and 4";
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("layer"), "layer");
    EXPECT_NEAR(row.at("delta").get<double>(), 0.1839, 1e-4);
    EXPECT_NEAR(row.at("xi").get<double>(), 0.5571, 1e-4);
    EXPECT_NEAR(row.at("relative_error").get<double>(), 0.3714, 1e-4);
    EXPECT_NEAR(row.at("contraction").get<double>(), (1.0 / 17 + 1.0 / 10) / 2,
                1e-9);
    EXPECT_EQ(row.at("bound"), 0.75);
    EXPECT_EQ(row.at("k_hat"), 1.0);
    EXPECT_EQ(row.at("residual"), 0.0);
  }
  // Three of four have never been sent; step 3 was skipped.
  EXPECT_EQ(rows[2].at("step"), 4);
  EXPECT_EQ(rows[2].at("age_mean"), 3.0);
  EXPECT_EQ(rows[2].at("age_max"), 4.0);
}

TEST(ConvergenceStudy, SeesWhatACollectiveDrops) {
  const TempFolder folder;
  const auto rows = rows_of_two(folder.path(), {2, 0, 0, 0}, 1);
  EXPECT_NEAR(rows.at(0).at("delta").get<double>(), 0.5977, 1e-4);
}

TEST(StudyRows, GoOnBehindTheStepThatARunGoesOnFrom) {
  const TempFolder folder;
  const std::string path = folder.path() + "/rows";
  StudyRows rows;
  rows.open(path, 0);
  for (const int step : {1, 2, 3}) rows.add({{"step", step}});
  rows.open(path, 2);
  rows.add({{"step", 4}});
  const auto all = read_study_rows(path);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].at("step"), 2);
  EXPECT_EQ(all[2].at("step"), 4);
  rows.open(path, 0);
  EXPECT_TRUE(read_study_rows(path).empty());
}

TEST(StudyRows, RefuseWhatIsNone) {
  const TempFolder folder;
  const std::string path = folder.path() + "/rows";
  std::ofstream(path) << "{\"step\": 1}\n{\"step\": \n";
  EXPECT_CONTAINS(refusal([&] { read_study_rows(path); }), "in line 2");
}

TEST(Study, SaysWhatIsWrong) {
  const StudySetup setup = {{{"a.weight", {40, 10}}, {"a.bias", {40}}}};
  EXPECT_CONTAINS(refusal([&] { make_study("gradient", setup); }),
                  "no study 'gradient'; known: gradients convergence");
  EXPECT_CONTAINS(refusal([&] { make_study("gradients:every=0", setup); }),
                  "every");
  EXPECT_CONTAINS(refusal([&] { make_study("gradients:layers=conv*", setup); }),
                  "none fits 'conv*'; known: a.weight");
  EXPECT_CONTAINS(
      refusal([&] { make_study("gradients:layers=a.bias", setup); }),
      "at least 256 elements");
  EXPECT_CONTAINS(refusal([&] { make_study("gradients:densities=2", setup); }),
                  "got '2'");
  EXPECT_CONTAINS(refusal([&] { make_study("gradients:densities= ", setup); }),
                  "got none");
  EXPECT_CONTAINS(refusal([&] { make_study("gradients:rules=topkk", setup); }),
                  "topkk");
  EXPECT_CONTAINS(refusal([&] { make_study("convergence:dump=true", setup); }),
                  "dump");
  EXPECT_NO_THROW(make_study("gradients:layers=nothing*", {}));
}

TEST(GradientStudy, TriesAllThatEstimate) {
  const TrialPlan plan = make_trial_plan("", "0.1 0.01");
  const std::vector<std::string> rules = {
      "adtopk-threshold", "dgc",      "gaussiank", "redsync",
      "sidco-e",          "sidco-gp", "sidco-p"};
  EXPECT_EQ(plan.rules, rules);
  EXPECT_EQ(plan.densities, (std::vector<double>{0.1, 0.01}));
}

std::vector<float> gaussian(std::size_t n) {
  std::mt19937_64 rng(11);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& v : out) v = normal(rng);
  return out;
}

TEST(LayerStudy, FindsTheLawAndHowRulesDo) {
  const auto values = gaussian(50'000);
  TrialSpace space(values.size());
  LayerStudy study(space, {"fc", {50, 1000}},
                   make_trial_plan("topk sidco-p", "0.01"));
  const Json row = study.look("input", values, {9, 0, 0, 1}, true);
  EXPECT_EQ(row.at("step"), 10);
  EXPECT_EQ(row.at("best"), "normal");
  EXPECT_EQ(row.at("n"), 50'000);
  EXPECT_EQ(row.at("rules").at(0).at("k_hat"), 500);
  const double k_hat = row.at("rules").at(1).at("k_hat").get<double>();
  EXPECT_NEAR(k_hat / 500, 1, 0.2);
  EXPECT_FALSE(
      study.look("gradient", values, {9, 0, 0, 1}, false).contains("rules"));
}

TEST(LayerStudy, AnswersWhateverTheData) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float most = std::numeric_limits<float>::max();
  for (const auto& values :
       std::vector<std::vector<float>>{{0, 0, 0, 0},
                                       {nan, nan, nan, nan},
                                       {1, 1, 1, 1},
                                       {0, 0, 0, 5},
                                       {most, -most, most, 1e-45F}}) {
    TrialSpace space(values.size());
    LayerStudy study(space, {"x", {4}}, make_trial_plan("", "0.5"));
    const Json row = study.look("input", values, {}, true);
    EXPECT_EQ(Json::parse(row.dump()).at("n"), 4);
    for (const Json& rule : row.at("rules")) {
      EXPECT_LE(rule.at("k_hat").get<int>(), 4);
    }
  }
}

TEST(Dump, NamesSayTensorAndStep) {
  const DumpName name = {"fc1.weight", 20, "input"};
  EXPECT_EQ(name.file(), "fc1.weight.step00000020.input.npy");
  DumpName read;
  ASSERT_TRUE(parse_dump_name(name.file(), read));
  EXPECT_EQ(read.layer, "fc1.weight");
  EXPECT_EQ(read.step, 20U);
  EXPECT_EQ(read.what, "input");
  EXPECT_FALSE(parse_dump_name("gradient.npy", read));
  EXPECT_EQ((DumpName{"a/b", 1, "gradient"}).file(),
            "a_b.step00000001.gradient.npy");
}

TEST(Dump, IsReadAsItWasWritten) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x.npy";
  for (const std::vector<std::size_t>& dims :
       std::vector<std::vector<std::size_t>>{
           {6}, {2, 3}, {1, 2, 3}, {6, 1, 1}}) {
    const std::vector<float> values = {0, -1, 2.5F, 1e-40F, 3e38F, -0.0F};
    write_npy(path, dims, values);
    EXPECT_EQ((std::filesystem::file_size(path) - 24) % 64, 0U);
    const NpyArray read = read_npy(path);
    EXPECT_EQ(read.dims, dims);
    EXPECT_EQ(read.values, values);
  }
  write_npy(path, {}, std::vector<float>{7});
  EXPECT_EQ(read_npy(path).values, std::vector<float>{7});
}

}  // namespace
}  // namespace sluice
