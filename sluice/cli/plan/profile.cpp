
#include <fmt/format.h>

#include <memory>

#include "sluice/cli/bench/model_shapes.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/plan/hand_profile.h"
#include "sluice/cli/shared/help.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/sparsify/sparsifier.h"

namespace sluice {
namespace {

struct Options {
  std::string model;
  double forward = 0;
  double backward = 0;
  double update = 0;
  std::string sparsifier = "topk";
  std::string device = "cpu";
  // Seconds at least, and per element.
  double select_floor = 2e-5;
  double select_rate = 1e-9;
  double apply_rate = 1e-9;
  std::string out = "profile.json";
};

void check(const Options& o) {
  const auto is_time = [](double v) { return v >= 0 && v <= kMostSeconds; };
  const bool sound = is_time(o.forward) && is_time(o.update) &&
                     is_time(o.select_floor) && is_time(o.select_rate) &&
                     is_time(o.apply_rate) && is_time(o.backward) &&
                     o.backward > 0;
  require(sound, "[profile] seconds must be 0 or more and at most 1e9, those ",
          "of backward above 0, got --forward ", o.forward, " --backward ",
          o.backward, " --update ", o.update, " --select-floor ",
          o.select_floor, " --select-rate ", o.select_rate, " --apply-rate ",
          o.apply_rate);
  constexpr double kFar = 1e9;  // elements
  require(is_time(o.select_floor + kFar * o.select_rate) &&
              is_time(kFar * o.apply_rate),
          "[profile] selecting or applying 1e9 elements must take at most 1e9 "
          "seconds, got --select-floor ",
          o.select_floor, " --select-rate ", o.select_rate, " --apply-rate ",
          o.apply_rate);
  make_sparsifier(o.sparsifier);
}

Profile profile_of(const Options& o) {
  Profile profile = hand_profile(o.model, o.forward, o.backward);
  profile.update = o.update;
  profile.costs = {{"select", parse_spec(o.sparsifier).name, o.device,
                    cost_line(o.select_floor, o.select_rate)},
                   {"apply", "*", o.device, cost_line(0, o.apply_rate)}};
  check_profile(profile);
  return profile;
}

void run(const Options& o) {
  check(o);
  const Profile profile = profile_of(o);
  write_text(o.out, to_json(profile));
  fmt::print("wrote {}: {} tensors of {}\n", o.out, profile.tensors.size(),
             o.model);
}

}  // namespace

void add_plan_profile(CLI::App& plan) {
  auto o = std::make_shared<Options>();
  CLI::App* profile = plan.add_subcommand(
      "profile",
      "Write a profile of a model for a machine that is not at hand, to be "
      "edited: backward in proportion to elements, tensors by number, so that "
      "its plans can be simulated but not run");
  profile->option_defaults()->always_capture_default();
  profile->add_option("--model", o->model, "The model")
      ->required()
      ->check(CLI::IsMember(known_models()));
  profile->add_option("--forward", o->forward, "Seconds of the forward pass");
  profile->add_option("--backward", o->backward, "Seconds of the backward pass")
      ->required();
  profile->add_option("--update", o->update, "Seconds of the optimizer");
  profile->add_option("--sparsifier", o->sparsifier, "What selects");
  profile->add_option("--device", o->device, "Where")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  profile->add_option("--select-floor", o->select_floor,
                      "Seconds that selecting takes at least");
  profile->add_option("--select-rate", o->select_rate,
                      "Seconds per element on top");
  profile->add_option("--apply-rate", o->apply_rate,
                      "Seconds per entry that is applied");
  profile->add_option("--out", o->out, "The file to write");
  add_examples(
      *profile,
      {"sluice plan profile --model resnet50 --forward 0.09 --backward 0.12",
       "sluice advise --net 50us,1Gbit --workers 16"});
  profile->callback([o] { run(*o); });
}

}  // namespace sluice
