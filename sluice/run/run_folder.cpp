#include "sluice/run/run_folder.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <thread>

#include "sluice/core/ensure.h"
#include "sluice/run/checkpoint_store.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string default_folder(const TrainConfig& config) {
  const std::string name = parse_spec(config.model).name;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char time[32];
  std::strftime(time, sizeof(time), "%Y%m%d-%H%M%S", &local);
  return free_folder(concat("runs/", name, "-", time));
}

// Only what a run makes; whatever else is in there is not ours.
void remove_run(const std::string& path) {
  for (const char* name :
       {"config.json", "classes.json", "plan.json", "metrics.jsonl",
        "trace.json", "profile.json", "network.json", "summary.json",
        "about.json", "report.html", "checkpoints"}) {
    fs::remove_all(path + "/" + name);
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("events.out.tfevents.")) fs::remove(entry.path());
  }
}

bool has_run(const std::string& path) {
  return fs::exists(path + "/config.json") ||
         !CheckpointStore::find(path).empty();
}

void make_folder(const std::string& path, OldRun old) {
  ensure(!has_run(path) || old != OldRun::kRefuse,
         "[train] --out must be a new folder, got '", path,
         "', which has a run in it; --resume goes on with it, --overwrite "
         "replaces it");
  std::error_code error;
  fs::create_directories(path, error);
  ensure(!error, "[train] --out must be a folder that can be made, got '", path,
         "': ", error.message());
}

RunLock::Options lock_options() {
  RunLock::Options options;
  options.say = [](const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
  };
  return options;
}

// Every rank must see what rank 0 has made.
void expect_shared(Communicator& comm, const std::string& path,
                   const RunLock& lock) {
  constexpr auto kPatience = std::chrono::seconds(5);
  constexpr auto kPause = std::chrono::milliseconds(50);
  const auto seen = [&] { return lock.look() == RunLock::State::kOurs; };
  bool found = seen();
  if (!found) {
    comm.work_alone(concat("looking for '", path, "'"), 10 * kPatience, [&] {
      for (auto waited = kPause; !found && waited < kPatience;
           waited += kPause) {
        std::this_thread::sleep_for(kPause);
        found = seen();
      }
    });
  }
  agree(comm, "start", 0,
        found
            ? ""
            : concat("[train] --out must be a folder that all hosts share, "
                     "but rank ",
                     comm.rank(), " on ", host_name(), " does not see '", path,
                     "', which rank 0 made; give a folder of a file "
                     "system that all of them have"));
}

}  // namespace

std::string free_folder(const std::string& base) {
  std::string path = base;
  for (int i = 2; fs::exists(path); ++i) path = concat(base, "-", i);
  return path;
}

void compare_configs(Communicator& comm, const TrainConfig& config) {
  const auto all = gather_at_first(comm, "start", 0, to_bytes(to_json(config)));
  std::string differing;
  std::string first;
  for (std::size_t r = 1; r < all.size(); ++r) {
    TrainConfig theirs;
    change_by_json(theirs, "start", to_string(all[r]));
    const std::string what = difference(config, theirs);
    if (what.empty()) continue;
    differing += concat(differing.empty() ? "rank " : ", rank ", r);
    if (first.empty()) first = what;
  }
  if (!differing.empty()) {
    differing =
        concat("[train] all ranks must have the same configuration, but ",
               differing, " differ from rank 0 (", first,
               "); start all of them with the same command and files");
  }
  agree(comm, "start", 0, differing);
}

std::unique_ptr<RunLock> lock_old_folder(Communicator& comm,
                                         const TrainConfig& config) {
  std::error_code none;
  // Rank 0 alone: a network file system may remember for a while that a folder
  // was not there.
  const bool there = comm.rank() == 0 && !config.out.empty() &&
                     fs::is_directory(config.out, none);
  if (broadcast_first(comm, "start", 0, std::string(there ? "y" : "n")) ==
      "n") {
    return nullptr;
  }
  return RunLock::take(comm, config.out, lock_options());
}

std::string open_run_folder(Communicator& comm, const TrainConfig& config,
                            OldRun old, std::unique_ptr<RunLock>& lock) {
  std::string path = config.out;
  const auto on_first = [&](auto&& part) {
    agree(comm, "start", 0, comm.rank() == 0 ? problem_of(part) : "");
  };
  on_first([&] {
    if (path.empty()) path = default_folder(config);
    make_folder(path, old);
  });
  path = broadcast_first(comm, "start", 0, path);
  if (lock == nullptr) lock = RunLock::take(comm, path, lock_options());
  expect_shared(comm, path, *lock);
  on_first([&] {
    if (old == OldRun::kReplace && has_run(path)) remove_run(path);
  });
  return path;
}

}  // namespace sluice
