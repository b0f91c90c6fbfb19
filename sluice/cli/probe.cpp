#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/launch.h"
#include "sluice/cli/shared/network_file.h"
#include "sluice/cli/shared/table.h"
#include "sluice/collective/dense.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/ensure.h"
#include "sluice/run/machine.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string out = "network.json";
  bool json = false;
  LaunchOptions launch;
};

// Seconds for so many bytes.
struct Point {
  double bytes = 0;
  double seconds = 0;
};

struct Line {
  double alpha = 0;
  double beta = 0;
};

struct Pair {
  std::size_t from = 0;
  std::size_t to = 0;
  Line line;
};

// Few enough repetitions for a slow network, enough for a median.
constexpr std::size_t kFewest = 3;
constexpr std::size_t kMost = 25;
constexpr double kSeconds = 0.1;  // after these, no more of a size
constexpr double kTooLong = 1;    // after these, no larger sizes
// From here on bytes matter more than messages, on any network of interest.
constexpr double kLarge = 64e3;

double seconds_since(const Communicator& comm,
                     Communicator::Clock::time_point start) {
  return std::chrono::duration<double>(comm.now() - start).count();
}

// Alpha is what the smallest message takes; beta the median of the slopes
// between the large ones, which one disturbed point does not move far.
Line fit(const std::vector<Point>& points) {
  std::vector<double> slopes;
  for (const Point& a : points) {
    for (const Point& b : points) {
      const bool both_large = a.bytes >= kLarge && b.bytes > a.bytes;
      if (!both_large) continue;
      slopes.push_back((b.seconds - a.seconds) / (b.bytes - a.bytes));
    }
  }
  return {points.front().seconds, std::max(0.0, median(slopes))};
}

class Probe {
 public:
  explicit Probe(Communicator& comm) : comm_(comm) {}

  // The content of network.json, on rank 0.
  Json run(const Options& o);

 private:
  std::vector<Pair> measure_pairs();
  Line ping(std::size_t peer);
  double round_trip(std::size_t peer, std::size_t bytes);
  void echo(std::size_t peer);
  template <class F>
  double time_together(F&& f);
  Json measure_ring();
  Json measure_allreduce();
  Json measure_allgather();
  std::vector<std::string> hosts();
  void say(const std::string& what) const {
    if (comm_.rank() == 0) show_progress("probe: " + what);
  }

  Communicator& comm_;
  std::uint64_t step_ = 0;
  Bytes payload_ = Bytes(8'000'000);
};

constexpr std::uint32_t kPing = 0;
constexpr std::uint32_t kPong = 1;
constexpr std::size_t kStop = 1;  // bytes of the last ping, which has no pong

// Median seconds until an empty message comes back for one of `bytes`.
double Probe::round_trip(std::size_t peer, std::size_t bytes) {
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < kFewest ||
         (seconds.size() < kMost && total < kSeconds)) {
    const auto start = comm_.now();
    comm_.send(peer, kPing, std::span(payload_).first(bytes));
    comm_.receive(peer, kPong);
    seconds.push_back(seconds_since(comm_, start));
    total += seconds.back();
  }
  return median(seconds);
}

Line Probe::ping(std::size_t peer) {
  round_trip(peer, 0);  // warms up
  const double back = 0.5 * round_trip(peer, 0);
  std::vector<Point> points = {{0, back}};
  for (const std::size_t bytes :
       {64'000, 256'000, 1'000'000, 2'000'000, 4'000'000}) {
    points.push_back(
        {static_cast<double>(bytes), round_trip(peer, bytes) - back});
    if (points.size() > 2 && points.back().seconds > kTooLong) break;
  }
  comm_.send(peer, kPing, std::span(payload_).first(kStop));
  return fit(points);
}

void Probe::echo(std::size_t peer) {
  while (comm_.receive(peer, kPing).size() != kStop) {
    comm_.send(peer, kPong, {});
  }
}

// One pair at a time, so that none disturbs another.
std::vector<Pair> Probe::measure_pairs() {
  constexpr std::size_t kAllPairs = 8;
  const std::size_t size = comm_.size();
  std::vector<Pair> mine;
  for (std::size_t from = 0; from < size; ++from) {
    const std::size_t most = size > kAllPairs ? 1 : size - 1;
    for (std::size_t d = 1; d <= most; ++d) {
      const std::size_t to = (from + d) % size;
      say(fmt::format("rank {} to rank {} of {}", from, to, size));
      comm_.barrier(step_);
      comm_.begin("probe", step_++);
      if (comm_.rank() == from) mine.push_back({from, to, ping(to)});
      if (comm_.rank() == to) echo(from);
    }
  }
  std::vector<Pair> all;
  for (const Bytes& bytes : gather_at_first(comm_, "gather", step_,
                                            std::as_bytes(std::span(mine)))) {
    const std::size_t count = bytes.size() / sizeof(Pair);
    all.resize(all.size() + count);
    std::memcpy(all.data() + all.size() - count, bytes.data(), bytes.size());
  }
  return all;
}

// Median over repetitions of the slowest rank's time; on rank 0, which decides
// when it is enough.
template <class F>
double Probe::time_together(F&& f) {
  std::vector<double> seconds;
  double total = 0;
  for (bool more = true; more;) {
    comm_.barrier(step_);
    const auto start = comm_.now();
    f(step_);
    const double own[] = {seconds_since(comm_, start)};
    double slowest = 0;
    for (const Bytes& bytes : gather_at_first(comm_, "gather", step_,
                                              std::as_bytes(std::span(own)))) {
      double theirs = 0;
      std::memcpy(&theirs, bytes.data(), sizeof(theirs));
      slowest = std::max(slowest, theirs);
    }
    seconds.push_back(slowest);
    total += slowest;
    more = seconds.size() < kFewest ||
           (seconds.size() < kMost && total < kSeconds);
    comm_.begin("probe", step_++);
    const std::byte mine{more};
    const Frame frame = broadcast(comm_, 0, 0, frame_of(comm_, {&mine, 1}));
    more = frame.payload()[0] == std::byte{1};
  }
  return median(seconds);
}

Json Probe::measure_ring() {
  const std::size_t size = comm_.size();
  Json ring = Json::array();
  for (const std::size_t bytes : {100'000, 400'000, 8'000'000}) {
    say(fmt::format("ring of {} bytes", bytes));
    const double seconds = time_together([&](std::uint64_t step) {
      comm_.begin("probe", step);
      comm_.send((comm_.rank() + 1) % size, 0,
                 std::span(payload_).first(bytes));
      comm_.receive((comm_.rank() + size - 1) % size, 0);
    });
    ring.push_back(
        {{"bytes", bytes},
         {"seconds", seconds},
         {"rate",
          seconds > 0 ? Json(static_cast<double>(bytes) / seconds) : Json()}});
  }
  return ring;
}

Json to_json(const std::vector<Point>& points) {
  const Line line = fit(points);
  Json times = Json::array();
  for (const Point& p : points) {
    times.push_back({{"bytes", static_cast<std::uint64_t>(p.bytes)},
                     {"seconds", p.seconds}});
  }
  return {{"alpha", line.alpha}, {"beta", line.beta}, {"times", times}};
}

Json Probe::measure_allreduce() {
  constexpr std::uint64_t kTrials = 5;  // in which it chooses its way
  Dense dense({"measured"});
  std::vector<float> values(1'000'000);
  for (std::uint64_t i = 0; i < kTrials; ++i) {
    dense.sum(comm_, step_++, values, values, {});
    dense.commit(0);
  }
  std::vector<Point> points;
  for (const std::size_t n :
       {1UL, 16'000UL, 64'000UL, 250'000UL, 1'000'000UL}) {
    say(fmt::format("all-reduce of {} elements", n));
    points.push_back(
        {4.0 * static_cast<double>(n), time_together([&](std::uint64_t step) {
           const auto part = std::span(values).first(n);
           dense.sum(comm_, step, part, part, {});
         })});
  }
  Json out = to_json(points);
  out["by"] = dense.by();
  return out;
}

Json Probe::measure_allgather() {
  std::vector<Point> points;
  for (const std::size_t bytes : {0, 64'000, 256'000, 1'000'000, 2'000'000}) {
    say(fmt::format("all-gather of {} bytes", bytes));
    points.push_back(
        {static_cast<double>(bytes), time_together([&](std::uint64_t step) {
           comm_.begin("probe", step);
           Frame frame = frame_of(comm_, std::span(payload_).first(bytes));
           send_to_others(comm_, 0, frame);
           for_others(comm_, [&](std::size_t peer) { comm_.receive(peer, 0); });
         })});
  }
  return to_json(points);
}

std::vector<std::string> Probe::hosts() {
  std::vector<std::string> all;
  for (const Bytes& bytes :
       gather_at_first(comm_, "gather", step_++, to_bytes(host_name()))) {
    all.push_back(to_string(bytes));
  }
  return all;
}

// How far apart the quartiles are.
double spread(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t quarter = values.size() / 4;
  return values[values.size() - 1 - quarter] - values[quarter];
}

Json Probe::run(const Options& o) {
  const std::vector<std::string> names = hosts();
  const std::vector<Pair> pairs = measure_pairs();
  const Json ring = measure_ring();
  const Json allreduce = measure_allreduce();
  const Json allgather = measure_allgather();
  say("");
  if (comm_.rank() != 0) return {};
  std::vector<double> alphas;
  std::vector<double> betas;
  Json rows = Json::array();
  for (const Pair& p : pairs) {
    alphas.push_back(p.line.alpha);
    betas.push_back(p.line.beta);
    rows.push_back({{"from", p.from},
                    {"to", p.to},
                    {"alpha", p.line.alpha},
                    {"beta", p.line.beta}});
  }
  return {{"format", 1},
          {"engine", o.launch.engine},
          {"network", o.launch.network()},
          {"date", today()},
          {"workers", comm_.size()},
          {"hosts", names},
          {"alpha", median(alphas)},
          {"beta", median(betas)},
          {"spread", {{"alpha", spread(alphas)}, {"beta", spread(betas)}}},
          {"pairs", rows},
          {"ring", ring},
          {"allreduce", allreduce},
          {"allgather", allgather}};
}

Json table_row(const std::string& what, const Json& alpha, const Json& beta) {
  const double b = beta.get<double>();
  return {{"what", what},
          {"alpha", alpha},
          {"beta", beta},
          {"rate", b > 0 ? Json(8e-9 / b) : Json()}};
}

void print_table(const Json& network) {
  std::vector<Json> rows;
  for (const Json& p : network["pairs"]) {
    rows.push_back(table_row(
        fmt::format("rank {} to rank {}", p["from"].get<std::size_t>(),
                    p["to"].get<std::size_t>()),
        p["alpha"], p["beta"]));
  }
  rows.push_back(table_row("pairs, median", network["alpha"], network["beta"]));
  for (const char* key : {"allreduce", "allgather"}) {
    rows.push_back(table_row(key, network[key]["alpha"], network[key]["beta"]));
  }
  for (const Json& r : network["ring"]) {
    const auto bytes = r["bytes"].get<std::size_t>();
    rows.push_back(
        {{"what", fmt::format("ring of all ranks, {} kB", bytes / 1000)},
         {"alpha", nullptr},
         {"beta", nullptr},
         {"rate", r["rate"].is_null() ? Json()
                                      : Json(8e-9 * r["rate"].get<double>())}});
  }
  show_rows(rows,
            {{{"what", "", ""},
              {"alpha", "alpha us", "{:.2f}", 1e6},
              {"beta", "beta ns/byte", "{:.4f}", 1e9},
              {"rate", "Gbit/s", "{:.3f}"}},
             "alpha: what the smallest message takes; beta: what another byte "
             "takes; Gbit/s: 8 / beta, of the ring payload over time while all "
             "ranks send"});
}

// Ready to type, here.
std::vector<std::string> lines_to_use(const Options& o, const Json& network) {
  std::string workers = fmt::format("--workers {}", o.launch.ranks());
  std::string how = workers;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) how += fmt::format(" {} {}", flag, value);
  };
  add("--hostfile", o.launch.hostfile);
  add("--net", o.launch.net);
  return {fmt::format("sluice train {} --network {:.3g},{:.3g} --out runs/a",
                      how, network["alpha"].get<double>(),
                      network["beta"].get<double>()),
          fmt::format("sluice advise --profile runs/a/profile.json --net {} {}",
                      o.out, workers)};
}

void run(const Options& o, Communicator& comm) {
  ensure(comm.size() >= 2,
         "[probe] needs at least 2 ranks, got 1; --workers 2 would do");
  const Json network = Probe(comm).run(o);
  if (comm.rank() != 0) return;
  write_text(o.out, network.dump(2) + "\n");
  if (o.json) {
    fmt::print("{}\n", network.dump(2));
    return;
  }
  fmt::print("{} ranks, engine {}, network {}\n", comm.size(), o.launch.engine,
             o.launch.network());
  print_table(network);
  fmt::print("wrote {}; use it with:\n", o.out);
  for (const std::string& line : lines_to_use(o, network)) {
    fmt::print("  {}\n", line);
  }
}

}  // namespace

void add_probe(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* probe = app.add_subcommand(
      "probe",
      "Measure alpha (seconds per message) and beta (seconds per byte) between "
      "the ranks: between pairs, around a ring, of all-reduce and all-gather");
  probe->option_defaults()->always_capture_default();
  probe->add_option("--out", o->out, "The file to write");
  add_launch_options(*probe, o->launch);
  probe->add_flag("--json", o->json, "Print what is written to the file");
  add_examples(*probe, {"sluice probe --workers 4",
                        "sluice probe --workers 8 --hostfile HOSTS --out "
                        "network.json"});
  probe->callback([o] {
    check_launch(o->launch);
    require(o->launch.ranks() >= 2,
            "[probe] --workers must be at least 2, got ", o->launch.ranks());
    if (is_first_process()) check_network_file(o->out);
    run_ranks(o->launch, [&](Communicator& comm) { run(*o, comm); });
  });
}

}  // namespace sluice
