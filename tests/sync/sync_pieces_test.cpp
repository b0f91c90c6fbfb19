// Buckets that hold pieces of tensors, and rules that take turns.

#include "sync/sync_runs.h"

namespace sluice::testing::pieces_test {
namespace {

struct Case {
  std::string plan;
  std::string sparsifier;
  std::string collective;
  std::size_t pieces = 1;
  std::vector<std::string> turns{};
};

class Parts : public ::testing::TestWithParam<std::tuple<Case, std::string>> {};

TEST_P(Parts, LoseNothing) {
  const Case& c = std::get<0>(GetParam());
  for (const std::size_t size : {1, 2, 3, 4, 5, 6, 7, 8}) {
    Scenario job;
    job.backend = std::get<1>(GetParam());
    job.plan = c.plan;
    job.sparsifier = c.sparsifier;
    job.collective = c.collective;
    job.pieces = c.pieces;
    job.turns = c.turns;
    job.ranks = size;
    const auto ranks = run(job);
    expect_law(ranks);
    const SyncReport& first = ranks[0][0].report;
    EXPECT_TRUE(first.committed);
    EXPECT_EQ(first.sparse_elements + first.dense_elements, total_size());
  }
}

std::string case_name(const ::testing::TestParamInfo<Parts::ParamType>& p) {
  const Case& c = std::get<0>(p.param);
  std::string name = concat(c.plan, "_", c.sparsifier);
  for (const std::string& turn : c.turns) name += "_" + turn;
  return safe_name(concat(name, "_", c.collective, "_", c.pieces, "_",
                          std::get<1>(p.param)));
}

// Of 12 pieces some have no rows.
const std::vector<Case> kCases = {
    {"layerwise", "topk", "auto", 3},
    {"single", "topk", "balanced", 4},
    {"layerwise", "adtopk", "allgather", 12},
    {"single", "topk", "oktopk", 2},
    {"single", "none", "dense", 12},
    {"layerwise", "none", "dense-bf16", 3},
    {"single", "adtopk", "balanced", 1, {"topk"}},
    {"layerwise", "topk", "oktopk", 1, {"sidco-p", "randomk"}},
    {"layerwise", "tile:two_bit=true", "allgather", 2, {"adtopk"}}};
const std::vector<Case> kLinkedCases = {
    {"layerwise", "topk", "allgather", 3},
    {"single", "none", "dense-bf16", 4},
    {"single", "tile:two_bit=true", "balanced", 2, {"topk"}}};

INSTANTIATE_TEST_SUITE_P(
    Plans, Parts,
    ::testing::Combine(::testing::ValuesIn(kCases),
                       ::testing::ValuesIn(device_names())),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    Linked, Parts,
    ::testing::Combine(::testing::ValuesIn(kLinkedCases),
                       ::testing::ValuesIn(linked_names())),
    case_name);

// Two runs have the same means and residuals; of the tensors that are selected
// from, where dense sums may be added in another order.
void expect_equal(const Scenario& one, const Scenario& other) {
  const auto a = run(one);
  const auto b = run(other);
  for (std::size_t step = 0; step < one.steps; ++step) {
    EXPECT_EQ(a[0][step].residual, b[0][step].residual) << step;
    EXPECT_EQ(a[0][step].report.selected, b[0][step].report.selected) << step;
    std::size_t j = 0;
    for (const TensorInfo& t : kTensors) {
      for (std::size_t i = 0; i < size_of(t); ++i, ++j) {
        if (t.dims.size() < 2) continue;
        ASSERT_EQ(a[0][step].mean[j], b[0][step].mean[j]) << step << " " << j;
      }
    }
  }
}

// A row of adtopk lies in one piece.
TEST(Pieces, OfRowsChangeNoBits) {
  for (const std::string collective : {"allgather", "balanced"}) {
    for (const std::string& backend : device_and_linked_names()) {
      for (const std::size_t pieces : {2, 3, 16}) {
        Scenario whole;
        whole.sparsifier = "adtopk";
        whole.collective = collective;
        whole.backend = backend;
        Scenario cut = whole;
        cut.pieces = pieces;
        expect_equal(whole, cut);
      }
    }
  }
}

// Tensors without dimensions or rows, and one stored with its first dimension
// last, as channels-last weights have their second: all that is announced comes
// back as the mean.
TEST(Pieces, MayBeOfAnyTensor) {
  const std::vector<TensorInfo> tensors = {{"scalar", {}},
                                           {"vector", {3}},
                                           {"empty", {0, 4}},
                                           {"weight", {4, 6, 2}}};
  constexpr std::size_t kAll = 1 + 3 + 48;
  for (const std::string& name : device_names()) {
    for (const std::size_t pieces : {2, 5}) {
      for (const bool dense : {true, false}) {
        auto ranks = make_thread_ranks(2);
        run_ranks(ranks, [&](std::size_t r) {
          auto backend = make_backend(name);
          BucketPlan bucket;
          bucket.tensors = {3, 2, 1, 0};
          bucket.sparsifier = dense ? "none" : "topk";
          bucket.collective = dense ? "dense" : "allgather";
          bucket.density = 1;
          SyncOptions options;
          options.plan = in_pieces({"", false, {bucket}}, pieces);
          GradientSync sync(*ranks[r], *backend, tensors, options);
          const Buffer data = backend->allocate(kAll * sizeof(float));
          auto stream = backend->make_stream();
          std::vector<float> g(kAll);
          for (std::size_t i = 0; i < kAll; ++i) {
            g[i] = static_cast<float>(i + 1 + 2 * r);
          }
          backend->copy_in(*stream, data.data(), std::as_bytes(std::span(g)));
          const Event event = backend->record(*stream);
          TensorView weight =
              contiguous_view(data.data<float>() + 4, tensors[3].dims);
          weight.strides = {1, 4, 24};
          sync.begin(0);
          sync.ready(0, contiguous_view(data.data(), tensors[0].dims), event);
          sync.ready(1,
                     contiguous_view(data.data<float>() + 1, tensors[1].dims),
                     event);
          sync.ready(2, contiguous_view(nullptr, tensors[2].dims), event);
          sync.ready(3, weight, event);
          EXPECT_TRUE(sync.finish().committed);
          backend->copy_out(*stream, std::as_writable_bytes(std::span(g)),
                            data.data());
          backend->wait(backend->record(*stream));
          for (std::size_t i = 0; i < kAll; ++i) {
            ASSERT_EQ(g[i], static_cast<float>(i + 2)) << name << " " << i;
          }
        });
      }
    }
  }
}

TEST(Pieces, FindWhatIsAnnouncedWrongly) {
  auto ranks = make_thread_ranks(1);
  auto backend = make_backend("cpu/portable");
  SyncOptions options;
  options.plan = plan_of({.pieces = 3});
  Trace trace;
  trace.turn(true);
  options.trace = &trace;
  DeviceGradients device(*backend);
  device.set(gradients_of(0, 0));
  GradientSync sync(*ranks[0], *backend, kTensors, options);
  sync.begin(0);
  EXPECT_THROW(sync.ready(0, TensorView{}), std::invalid_argument);
  EXPECT_THROW(sync.ready(0, flat_view(std::vector<float>(599))),
               std::invalid_argument);
  // Neither rows nor contiguous.
  std::vector<float> other(600);
  const std::vector<std::size_t> dims = {30, 20};
  TensorView turned = contiguous_view(other.data(), dims);
  std::swap(turned.strides[0], turned.strides[1]);
  EXPECT_THROW(sync.ready(0, turned), std::invalid_argument);
  device.announce(sync, 0);
  EXPECT_THROW(device.announce(sync, 0), std::logic_error);
  EXPECT_THROW(sync.finish(), std::logic_error);
  // Flat, it has rows all the same.
  std::vector<float> flat_weight = gradients_of(0, 0)[5];
  sync.ready(5, flat_view(flat_weight));
  for (std::size_t t = 1; t < 5; ++t) device.announce(sync, t);
  EXPECT_TRUE(sync.finish().committed);
  for (std::size_t b = 0; b < options.plan.buckets.size(); ++b) {
    const auto of = [&](std::string_view what) {
      return std::count_if(
          trace.spans().begin(), trace.spans().end(),
          [&](const Span& s) { return s.what == what && s.bucket == b; });
    };
    EXPECT_EQ(of("backward"), 1) << b;
    EXPECT_EQ(of("select"), 1) << b;
    EXPECT_EQ(of("apply"), 1) << b;
  }
}

// Another random selection in each piece.
TEST(Pieces, DrawNumbersOfTheirOwn) {
  auto ranks = make_thread_ranks(1);
  auto backend = make_backend("cpu/portable");
  const std::vector<TensorInfo> tensors = {{"w", {20, 50}}};
  BucketPlan bucket;
  bucket.tensors = {0};
  bucket.sparsifier = "randomk";
  bucket.density = 0.1;
  SyncOptions options;
  options.plan = in_pieces({"", false, {bucket}}, 2);
  GradientSync sync(*ranks[0], *backend, tensors, options);
  std::vector<float> g(1000, 1.0F);
  sync.begin(0);
  sync.ready(0, contiguous_view(g.data(), tensors[0].dims));
  sync.finish();
  EXPECT_EQ(std::count(g.begin(), g.end(), 1.0F), 100);
  EXPECT_FALSE(std::equal(g.begin(), g.begin() + 500, g.begin() + 500));
}

TEST(Turns, AreWhatAnInterleavedRuleIs) {
  for (const std::string& backend : device_names()) {
    for (const std::string feedback : {"residual", "dgc"}) {
      Scenario rule;
      rule.sparsifier = "adtopk-interleaved";
      rule.feedback = feedback;
      rule.collective = "balanced";
      rule.backend = backend;
      rule.steps = 7;
      Scenario turns = rule;
      turns.sparsifier = "adtopk";
      turns.turns = {"topk"};
      expect_equal(rule, turns);
    }
  }
}

// Steps 0 to `steps` - 1 of two ranks, saved and loaded before step `at`.
std::vector<float> resumed_at(std::uint64_t at, const std::string& feedback) {
  constexpr std::uint64_t kSteps = 9;
  auto ranks = make_thread_ranks(2);
  std::vector<float> last;
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("fake");
    DeviceGradients device(*backend);
    SyncOptions options;
    options.plan = plan_of({.sparsifier = "adtopk",
                            .feedback = feedback,
                            .collective = "oktopk",
                            .pieces = 2,
                            .turns = {"sidco-p", "dgc"}});
    const auto make = [&] {
      return std::make_unique<GradientSync>(*ranks[r], *backend, kTensors,
                                            options);
    };
    auto sync = make();
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      if (step == at) {
        const GradientSync::State state = sync->save();
        sync = make();
        sync->load(state);
      }
      device.run(*sync, step, gradients_of(r, step));
    }
    if (r == 0) last = device.get();
  });
  return last;
}

TEST(Turns, GoOnFromASavedState) {
  for (const std::string feedback : {"residual", "dgc"}) {
    const std::vector<float> whole = resumed_at(99, feedback);
    for (const std::uint64_t at : {3, 4, 5}) {
      EXPECT_EQ(resumed_at(at, feedback), whole) << feedback << " " << at;
    }
  }
}

TEST(Turns, RefuseTheStateOfAnotherPlan) {
  auto ranks = make_thread_ranks(1);
  auto backend = make_backend("cpu/portable");
  SyncOptions options;
  options.plan = plan_of({});
  const GradientSync::State of_one =
      GradientSync(*ranks[0], *backend, kTensors, options).save();
  options.plan = plan_of({.turns = {"adtopk"}});
  GradientSync sync(*ranks[0], *backend, kTensors, options);
  EXPECT_THROW(sync.load(of_one), std::invalid_argument);
  GradientSync::State own = sync.save();
  own.rules[0].push_back(std::byte{7});
  EXPECT_THROW(sync.load(own), std::invalid_argument);
  own.rules[0].pop_back();
  EXPECT_NO_THROW(sync.load(own));
  options.plan = plan_of({.turns = {"adtopkk"}});
  EXPECT_THROW(GradientSync(*ranks[0], *backend, kTensors, options),
               std::invalid_argument);
}

}  // namespace
}  // namespace sluice::testing::pieces_test
