#include "sluice/run/rank_part.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "files.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/run/checkpoint.h"

namespace sluice {
namespace {

using testing::message_of;
using testing::TempFolder;

RankState state_of_rank(std::size_t rank) {
  const auto r = static_cast<float>(rank);
  RankState state;
  state.residual = {r, 2 * r, -3, 0.5F};
  state.momentum = {0.1F, r, r, r};
  state.rules = {std::vector(3, std::byte{7}), {}};
  state.collectives = {{1.5, 2.5}, {}};
  state.carried = {{{1, 2}, {r, 4}}, {{0}, {}}};
  return state;
}

constexpr char kRun[] = "00112233445566aa";

// Files of so many ranks, in a folder that is made; their manifest is written
// there, too.
Manifest write_all(const std::string& folder, std::size_t ranks,
                   std::uint64_t step = 20, const std::string& run = kRun) {
  std::filesystem::create_directories(folder);
  Manifest manifest({run, step, ranks});
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::string path = rank_part_path(folder, r);
    manifest.add(
        concat("rank-", r, ".ckpt"),
        write_rank_part(path, state_of_rank(r), {run, step, ranks, r}));
  }
  manifest.write(folder);
  return manifest;
}

TEST(RankPart, SurvivesAFile) {
  const TempFolder folder;
  const std::string path = rank_part_path(folder.path(), 3);
  const Manifest manifest = write_all(folder.path(), 4);
  const RankState again = read_rank_part(path, manifest, 3);
  EXPECT_EQ(again.residual, state_of_rank(3).residual);
  EXPECT_EQ(again.momentum, state_of_rank(3).momentum);
  EXPECT_EQ(again.rules, state_of_rank(3).rules);
  EXPECT_EQ(again.collectives, state_of_rank(3).collectives);
  ASSERT_EQ(again.carried.size(), 2U);
  EXPECT_EQ(again.carried[0].dims, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(again.carried[0].values, (std::vector<float>{3, 4}));
}

// Its checksums are right, and yet it is none of ours: bytes where floats are
// due would have been copied past the end of what was allocated.
TEST(RankPart, RefusesOtherTypesAndSizes) {
  const TempFolder folder;
  const std::string path = rank_part_path(folder.path(), 0);
  const std::vector<float> four(4);
  const auto bytes = std::as_bytes(std::span(four));
  const auto write = [&](const char* residual, std::int64_t elements,
                         std::size_t size, const char* rules) {
    const StoredTensor tensors[] = {
        {"residual", residual, {elements}, bytes.first(size)},
        {"momentum", "float32", {0}, {}},
        {"rules", "uint8", {4}, bytes.first(4)},
        {"collectives", "float64", {0}, {}}};
    Checkpoint::write(
        path, concat("{\"rules\": ", rules, ", \"collectives\": []}"), tensors);
  };
  write("float32", 4, 16, "[4]");
  EXPECT_EQ(read_rank_part(path, {}, 0).residual.size(), 4U);
  write("uint8", 15, 15, "[4]");
  EXPECT_CONTAINS(
      message_of<std::runtime_error>([&] { read_rank_part(path, {}, 0); }),
      "'residual' must be float32, is uint8");
  for (const char* rules :
       {"[5]", "[-1, 5]", "[1.5]", "[1e300]", "[\"x\"]", "7"}) {
    write("float32", 4, 16, rules);
    EXPECT_THROW(read_rank_part(path, {}, 0), std::runtime_error) << rules;
  }
}

TEST(RankPart, RefusesADeepHeader) {
  const TempFolder folder;
  const std::string path = rank_part_path(folder.path(), 0);
  Checkpoint::write(path,
                    concat("{\"rules\": ", std::string(1000, '['),
                           std::string(1000, ']'), "}"),
                    {});
  EXPECT_CONTAINS(
      message_of<std::runtime_error>([&] { read_rank_part(path, {}, 0); }),
      "at most 64 levels deep");
}

TEST(RankPart, KeepsWhatIsOwedWithOtherRanks) {
  constexpr std::size_t kOld = 4;
  const TempFolder folder;
  std::vector<double> owed(4, 0);
  const Manifest manifest = write_all(folder.path(), kOld);
  for (std::size_t r = 0; r < kOld; ++r) {
    const RankState state = state_of_rank(r);
    for (std::size_t i = 0; i < 4; ++i) {
      owed[i] += static_cast<double>(state.residual[i]) / kOld;
    }
  }
  for (const std::size_t now : {1, 2, 3, 4, 6}) {
    std::vector<double> sum(4, 0);
    for (std::size_t r = 0; r < now; ++r) {
      const auto state = read_rank_parts(folder.path(), manifest, kOld, r, now);
      ASSERT_EQ(state.momentum.size(), 4);
      EXPECT_EQ(state.momentum[0], 0.1F);  // as replicas must agree
      EXPECT_EQ(state.rules.empty(), now != kOld);
      for (std::size_t i = 0; i < 4; ++i) {
        sum[i] +=
            static_cast<double>(state.residual[i]) / static_cast<double>(now);
      }
    }
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(sum[i], owed[i], 1e-6);
  }
}

// What reading rank 1 of folder `a` says once its file is `other`.
std::string complaint_about(const TempFolder& folder,
                            const std::string& other) {
  const std::string path = rank_part_path(folder / "a", 1);
  std::filesystem::copy_file(other, path,
                             std::filesystem::copy_options::overwrite_existing);
  return message_of<std::runtime_error>(
      [&] { read_rank_part(path, Manifest::read(folder / "a"), 1); });
}

TEST(Manifest, RefusesFilesOfOtherRanksStepsAndRuns) {
  const TempFolder folder;
  const std::string path = rank_part_path(folder / "a", 1);
  write_all(folder / "a", 2);
  EXPECT_EQ(
      complaint_about(folder, rank_part_path(folder / "a", 0)),
      "[resume] '" + path +
          "' must be of rank 1 of 2 ranks after step 20 of run "
          "00112233445566aa, is of rank 0 of 2 ranks after step 20 of run "
          "00112233445566aa; put the files of one checkpoint back together, or "
          "go on from another one: --resume RUN/checkpoints/step-NUMBER");
  write_all(folder / "b", 2, 10);
  EXPECT_CONTAINS(complaint_about(folder, rank_part_path(folder / "b", 1)),
                  "is of rank 1 of 2 ranks after step 10 of run 0011");
  write_all(folder / "b", 3);
  EXPECT_CONTAINS(complaint_about(folder, rank_part_path(folder / "b", 1)),
                  "is of rank 1 of 3 ranks after step 20 of run 0011");
  write_all(folder / "b", 2, 20, "feedfeedfeedfeed");
  EXPECT_CONTAINS(complaint_about(folder, rank_part_path(folder / "b", 1)),
                  "after step 20 of run feedfeedfeedfeed; put");
}

// As of a second attempt at the same step.
TEST(Manifest, RefusesAnotherFileThatSaysTheSame) {
  const TempFolder folder;
  write_all(folder / "a", 2);
  RankState state = state_of_rank(1);
  state.residual[0] += 1;
  write_rank_part(folder / "other", state, {kRun, 20, 2, 1});
  EXPECT_CONTAINS(complaint_about(folder, folder / "other"),
                  "is not the file that was saved with the others: its digest "
                  "must be ");
}

TEST(Manifest, IsNeededByFilesThatNameARun) {
  const TempFolder folder;
  write_all(folder / "a", 2);
  std::filesystem::remove(folder / "a/manifest.json");
  EXPECT_CONTAINS(complaint_about(folder, rank_part_path(folder / "a", 0)),
                  "its folder has no manifest.json");
}

TEST(Manifest, KnowsItsOwnVersionOnly) {
  const TempFolder folder;
  write_all(folder / "a", 1);
  const auto complaint = [&](const std::string& text) {
    write_text(folder / "a/manifest.json", text);
    return message_of<std::runtime_error>(
        [&] { Manifest::read(folder / "a"); });
  };
  EXPECT_CONTAINS(complaint(R"({"version": 2})"),
                  "must be a manifest of version 1, but: it is of version 2");
  EXPECT_CONTAINS(complaint("{"), "must be JSON");
  EXPECT_CONTAINS(
      complaint(R"({"version": 1, "run": "x", "step": 1, "ranks": 1})"),
      "'x' must be 16 hexadecimal digits");
  EXPECT_CONTAINS(complaint(R"({"version": 1, "run": "00112233445566aa",
                               "step": 1, "ranks": 2147483648})"),
                  "'ranks' must be from 1 to 1000000, is 2147483648");
}

}  // namespace
}  // namespace sluice
