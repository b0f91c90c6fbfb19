#include "refusal.h"
#include "sluice/core/error.h"
#include "sluice/plan/decisions.h"
#include "support.h"

namespace sluice::testing {
namespace {

PlanInput input() {
  PlanInput in;
  in.sizes = {100, 10, 200, 20};
  in.dense = {false, true, false, true};
  return in;
}

std::vector<std::vector<std::size_t>> tensors_of(const Plan& plan) {
  std::vector<std::vector<std::size_t>> out;
  for (const BucketPlan& b : plan.buckets) out.push_back(b.tensors);
  return out;
}

using TensorGroups = std::vector<std::vector<std::size_t>>;

TEST(Plan, GroupsInTheOrderOfBackward) {
  EXPECT_EQ(tensors_of(make_plan("layerwise", input())),
            (TensorGroups{{2}, {0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("single", input())),
            (TensorGroups{{2, 0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("size=1k", input())),
            (TensorGroups{{2}, {0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("size=1200", input())),
            (TensorGroups{{2, 0}, {3, 1}}));
  PlanInput dense = input();
  dense.sparse.sparsifier = "none";
  EXPECT_EQ(tensors_of(make_plan("layerwise", dense)),
            (TensorGroups{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(tensors_of(make_plan("size=100", dense)),
            (TensorGroups{{3, 2}, {1, 0}}));
  EXPECT_EQ(tensors_of(make_plan("size=80", dense)),
            (TensorGroups{{3}, {2}, {1, 0}}));
  EXPECT_EQ(make_plan("single", dense).buckets[0].collective, "dense");
}

const std::vector<std::string> kNames = {"a.weight", "a.bias", "b.weight",
                                         "b.bias"};

TEST(Plan, LeavesDensitiesToTheSchedule) {
  for (const BucketPlan& b : make_plan("layerwise", input()).buckets) {
    EXPECT_EQ(b.density, std::nullopt);
  }
}

TEST(Plan, ComesBackFromJson) {
  Plan plan = make_plan("single", input());
  EXPECT_EQ(plan_from_json(to_json(plan, kNames), kNames), plan);
  plan.buckets[0].density = 0.25;
  plan.buckets[0].turns = {"topk", "dgc"};
  plan.buckets[0].device = "cpu";
  EXPECT_EQ(plan_from_json(to_json(plan, kNames), kNames), plan);
  plan.buckets[0].device.clear();
  plan.hierarchical = true;
  EXPECT_EQ(plan_from_json(to_json(plan, kNames), kNames), plan);
  plan.buckets[0].piece = {0, 2};
  plan.buckets.push_back(plan.buckets[0]);
  plan.buckets[2].piece = {1, 2};
  EXPECT_EQ(plan_from_json(to_json(plan, kNames), kNames), plan);
  EXPECT_EQ(bucket_labels(plan, kNames)[2], "b.weight + 1 2/2");
  const std::vector<std::string> named = plan_tensors(to_json(plan, kNames));
  EXPECT_EQ(named.size(), kNames.size()) << "each once";
  EXPECT_EQ(plan_from_json(to_json(plan, kNames), named).buckets.size(), 3);
}

TEST(Plan, HasPiecesThatAreAlikeAndMeet) {
  for (const std::size_t rows : {1, 2, 7, 64}) {
    for (const std::size_t count : {1, 3, 4}) {
      EXPECT_EQ((Piece{0, count}.begin(rows)), 0U);
      EXPECT_EQ((Piece{count - 1, count}.end(rows)), rows);
      for (std::size_t i = 1; i < count; ++i) {
        EXPECT_EQ((Piece{i, count}.begin(rows)),
                  (Piece{i - 1, count}.end(rows)));
        EXPECT_LE((Piece{i, count}.end(rows)) - (Piece{i, count}.begin(rows)),
                  (rows + count - 1) / count);
      }
    }
  }
}

TEST(Plan, RefusesPiecesTurnsAndDevicesThatMakeNoSense) {
  const Plan plan = make_plan("layerwise", input());  // {2} {0} {3, 1}
  const auto refused = [&](auto&& change) {
    Plan p = plan;
    change(p);
    return refusal([&] { check_plan(p, kNames); });
  };
  EXPECT_EQ(refused([](Plan& p) {
              p.buckets[0].piece = {0, 2};
            }),
            "[plan] must have each tensor of the model once, but lacks piece 1 "
            "of 'b.weight'; put it into a bucket");
  EXPECT_EQ(refused([](Plan& p) {
              p.buckets[0].piece = {1, 2};
              p.buckets.push_back(p.buckets[0]);
            }),
            "[plan] must have each tensor once, but has piece 1 of 'b.weight' "
            "twice; take it out of one bucket");
  EXPECT_EQ(refused([](Plan& p) {
              p.buckets[0].piece = {0, 2};
              p.buckets.push_back(p.buckets[0]);
              p.buckets.back().piece = {1, 3};
            }),
            "[plan] all pieces of 'b.weight' must be of as many, but bucket 3 "
            "has one of 3 and another has one of 2");
  EXPECT_EQ(refused([](Plan& p) { p.buckets[0].device = "tpu"; }),
            "[plan] a device must be cpu, or missing where gradients are "
            "selected where they are made, but bucket 0 has 'tpu'");
  EXPECT_EQ(refused([](Plan& p) {
              p.hierarchical = true;
              p.buckets[0].device = "cpu";
            }),
            "[plan] machines select where their gradients are, but bucket 0 of "
            "a hierarchical plan has a device; take it out");
  EXPECT_EQ(refused([](Plan& p) { p.buckets[2].turns = {"topk"}; }),
            "[plan] a dense bucket is not selected, but bucket 2 has turns or "
            "a device for that; take them out");
  EXPECT_EQ(refused([](Plan& p) { p.buckets[0].turns = {"none"}; }),
            "[plan] turns must be of sparsifiers that select, but bucket 0 has "
            "none among them");
  std::string json = to_json(plan, kNames);
  json.insert(json.find("\"feedback\""), "\"piece\": [2, 2], ");
  EXPECT_EQ(refusal([&] { plan_from_json(json, kNames); }),
            "[plan] a piece must be [INDEX, COUNT] with an index below the "
            "count, which is at most 4096, but bucket 0 has [2,2]");
}

TEST(Plan, NamesTensors) {
  const Plan plan = make_plan("single", input());
  const std::string json = to_json(plan, kNames);
  EXPECT_NE(json.find("\"b.weight\",\n        \"a.weight\""), std::string::npos)
      << json;
  EXPECT_EQ(bucket_labels(plan, kNames),
            (std::vector<std::string>{"b.weight + 1", "b.bias + 1"}));
  EXPECT_EQ(bucket_labels(make_plan("layerwise", input()), kNames)[0],
            "b.weight");
  // The same in a model that has them in another order.
  const std::vector<std::string> other = {"b.bias", "b.weight", "a.bias",
                                          "a.weight"};
  EXPECT_EQ(tensors_of(plan_from_json(json, other)),
            (TensorGroups{{1, 3}, {0, 2}}));
}

TEST(Decisions, ComeBackFromJson) {
  const Plan first = make_plan("single", input());
  // A file without later ones is a plan, and the other way round.
  const Decisions alone = {{0, "", {}, first}};
  EXPECT_EQ(to_json(alone, kNames), to_json(first, kNames));
  EXPECT_EQ(decisions_from_json(to_json(first, kNames), kNames)[0].plan, first);

  Decisions all = alone;
  all.push_back(
      {20, "faster", Network{5e-5, 8e-9}, make_plan("layerwise", input())});
  all.push_back({90, "slower", {}, first});
  const Decisions back = decisions_from_json(to_json(all, kNames), kNames);
  ASSERT_EQ(back.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back[i].step, all[i].step);
    EXPECT_EQ(back[i].why, all[i].why);
    EXPECT_EQ(back[i].plan, all[i].plan);
    ASSERT_EQ(back[i].network.has_value(), all[i].network.has_value());
  }
  EXPECT_EQ(back[1].network->alpha, 5e-5);
  EXPECT_EQ(back[1].network->beta, 8e-9);
  const auto step_at = [&](std::uint64_t step) {
    return decision_at(back, step).step;
  };
  EXPECT_EQ(step_at(0), 0U);
  EXPECT_EQ(step_at(19), 0U);
  EXPECT_EQ(step_at(20), 20U);
  EXPECT_EQ(step_at(89), 20U);
  EXPECT_EQ(step_at(1000), 90U);
}

TEST(Decisions, AreRefusedUnlessTheirStepsRise) {
  const Plan plan = make_plan("single", input());
  const auto refused = [&](const Decisions& all) {
    return refusal([&] { decisions_from_json(to_json(all, kNames), kNames); });
  };
  EXPECT_EQ(refused({{0, "", {}, plan}, {7, "", {}, plan}, {7, "", {}, plan}}),
            "[plan] steps of decisions must rise, but decision 2 is of step 7 "
            "after 7");
  EXPECT_EQ(refused({{0, "", {}, plan}, {0, "", {}, plan}}),
            "[plan] 'step' of decision 1 must be a whole number, at least 1, "
            "got 0");
  Plan bad = plan;
  bad.buckets.pop_back();
  EXPECT_EQ(refused({{0, "", {}, plan}, {7, "", {}, bad}}),
            "[plan] must have each tensor of the model once, but lacks "
            "'a.bias'; put it into a bucket");
  EXPECT_EQ(refused({{0, "", {}, plan}, {7, "", Network{-1, 0}, plan}}),
            "[plan] 'alpha' of the network of decision 1 must be a number, 0 "
            "or more, got -1.0");
}

TEST(BucketDensity, FollowsTheScheduleOrScalesItsOwn) {
  BucketPlan bucket;
  EXPECT_EQ(bucket_density(bucket, {0.25, 0.01}), 0.25);
  bucket.density = 0.03;
  EXPECT_EQ(bucket_density(bucket, {0.01, 0.01}), 0.03);
  EXPECT_DOUBLE_EQ(bucket_density(bucket, {0.1, 0.01}), 0.3);
  EXPECT_DOUBLE_EQ(bucket_density(bucket, {0.005, 0.01}), 0.015);
  EXPECT_EQ(bucket_density(bucket, {1, 0.01}), 1);
}

std::string refusal_of(const std::string& json) {
  return refusal([&] { plan_from_json(json, kNames); });
}

TEST(Plan, SaysWhatIsWrongWithAFile) {
  const std::string good = to_json(make_plan("single", input()), kNames);
  const auto with = [&](const std::string& part, const std::string& by) {
    std::string json = good;
    return json.replace(json.find(part), part.size(), by);
  };
  EXPECT_EQ(refusal_of(good), "nothing");
  EXPECT_EQ(refusal_of(with("a.weight", "a.wight")),
            "[plan] tensors must be of the model, but bucket 0 has 'a.wight'; "
            "did you mean 'a.weight'?");
  EXPECT_EQ(refusal_of(with("a.weight", "b.weight")),
            "[plan] must have each tensor once, but has 'b.weight' twice; take "
            "it out of one bucket");
  EXPECT_EQ(refusal_of(with(",\n        \"a.weight\"", "")),
            "[plan] must have each tensor of the model once, but lacks "
            "'a.weight'; put it into a bucket");
  EXPECT_EQ(refusal_of(with("\"version\": 2", "\"version\": 1")),
            "[plan] version must be 2, got 1; version 1 had numbers for "
            "tensors: put their names there, as in plan.json of a new run");
  EXPECT_EQ(refusal_of(with("\"version\": 2", "\"version\": 3")),
            "[plan] version must be 2, got 3");
  for (const char* density : {"0", "-0.5", "1.5"}) {
    EXPECT_EQ(
        refusal_of(with("\"feedback\"",
                        concat("\"density\": ", density, ", \"feedback\""))),
        concat("[plan] a density must be above 0 and at most 1, but "
               "bucket 0 has ",
               density, "; without one it follows the density of the job"));
  }
}

TEST(Plan, RefusesJsonThatIsUnsound) {
  const std::string good = to_json(make_plan("single", input()), kNames);
  const auto with = [&](const std::string& part, const std::string& by) {
    std::string json = good;
    return json.replace(json.find(part), part.size(), by);
  };
  EXPECT_EQ(refusal_of(with("\"feedback\"", "\"denstiy\": 1, \"feedback\"")),
            "[plan] bucket 0 has no key 'denstiy'; did you mean 'density'?");
  EXPECT_EQ(refusal_of(with("\"name\"", "\"nme\": 1, \"name\"")),
            "[plan] a plan has no key 'nme'; did you mean 'name'?");
  EXPECT_EQ(refusal_of(with("\"name\"", "\"name\": \"x\", \"name\"")),
            "[plan] key 'name' must be there once per object, is there twice");
  EXPECT_NE(refusal_of(with("single", "\xff")).find("UTF-8"),
            std::string::npos);
  const std::string deep(200'000, '[');
  EXPECT_EQ(refusal_of(with("\"single\"", deep)),
            "[plan] must be at most 64 levels deep, is deeper");
  EXPECT_NE(refusal_of("{\n \"version\": 2,\n x}").find("line 3, column 2"),
            std::string::npos);
}

TEST(Plan, RefusesGarbage) {
  for (const char* text : {"", "layer", "size=", "size=x", "size=0", "size=-1",
                           "size=5T", "size=1e99", "SINGLE"}) {
    EXPECT_THROW(make_plan(text, input()), std::invalid_argument) << text;
  }
  for (const char* json :
       {"", "{", "[]", R"({"version": 2, "name": "x"})",
        R"({"version": 2, "name": "x", "buckets": [{"tensors": []}]})",
        R"({"version": 2, "name": "x", "buckets": [{"tensors": [0]}]})"}) {
    EXPECT_NE(refusal_of(json), "nothing") << json;
  }
}

}  // namespace
}  // namespace sluice::testing
