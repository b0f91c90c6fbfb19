#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "sluice/cli/commands.h"
#include "sluice/cli/plan/job_options.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string before;
  std::string after;
  bool json = false;
};

// As the schedule's, where a bucket has no density of its own.
std::string way_of(const BucketPlan& b) {
  if (b.sparsifier == "none" || b.density) return describe_way(b, 0);
  return fmt::format("{} by {}", describe_rules(b), b.collective);
}

// Finds a plan's buckets by their first tensor.
class Buckets {
 public:
  explicit Buckets(const Plan& plan) {
    for (const BucketPlan& b : plan.buckets) {
      buckets_.emplace(b.tensors.front(), &b);
    }
  }

  bool has(const BucketPlan& bucket) const {
    const auto [begin, end] = buckets_.equal_range(bucket.tensors.front());
    return std::any_of(begin, end,
                       [&](const auto& b) { return *b.second == bucket; });
  }

 private:
  std::unordered_multimap<std::size_t, const BucketPlan*> buckets_;
};

// Buckets of `plan` that `other` does not have.
void add_rows(std::vector<Json>& rows, const Plan& plan, const Buckets& other,
              std::span<const std::string> names, const std::string& sign) {
  const std::vector<std::string> labels = bucket_labels(plan, names);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const BucketPlan& b = plan.buckets[i];
    if (other.has(b)) continue;
    Json tensors = Json::array();
    for (const std::size_t t : b.tensors) tensors.push_back(names[t]);
    rows.push_back({{"in", sign},
                    {"bucket", i},
                    {"label", labels[i]},
                    {"way", way_of(b)},
                    {"feedback", b.feedback},
                    {"values", b.values},
                    {"tensors", tensors}});
  }
}

void run(const Options& o) {
  const std::vector<std::string> names =
      plan_tensors(read_text_file("plan", o.before));
  const Plan before = read_plan(o.before, names);
  const Plan after = read_plan(o.after, names);
  std::vector<Json> rows;
  const Buckets in_after(after);
  add_rows(rows, before, in_after, names, "-");
  add_rows(rows, after, Buckets(before), names, "+");
  const auto same =
      std::count_if(before.buckets.begin(), before.buckets.end(),
                    [&](const BucketPlan& b) { return in_after.has(b); });
  if (o.json) {
    fmt::print("{}\n", Json{{"same", same}, {"changes", rows}}.dump(2));
    return;
  }
  show_rows(rows, {{{"in", "", ""},
                    {"bucket", "bucket", "{}"},
                    {"label", "tensors", ""},
                    {"way", "travels as", ""},
                    {"feedback", "feedback", ""},
                    {"values", "values", ""}},
                   concat("-: only in ", o.before, "; +: only in ", o.after)});
  fmt::print("{} buckets are the same\n", same);
}

}  // namespace

void add_plan_diff(CLI::App& plan) {
  auto o = std::make_shared<Options>();
  CLI::App* diff = plan.add_subcommand(
      "diff", "Buckets that only one of two plans of a model has");
  diff->add_option("before", o->before, "A plan.json")->required();
  diff->add_option("after", o->after, "Another")->required();
  diff->add_flag("--json", o->json, "Print JSON");
  add_examples(*diff, {"sluice plan diff runs/a/plan.json runs/b/plan.json"});
  diff->callback([o] { run(*o); });
}

}  // namespace sluice
