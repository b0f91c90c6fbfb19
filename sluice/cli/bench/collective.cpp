#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/bench/race.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/launch.h"
#include "sluice/cli/shared/network_file.h"
#include "sluice/cli/shared/table.h"
#include "sluice/core/error.h"
#include "sluice/cost/model.h"

namespace sluice {
namespace {

using Row = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> algorithms;
  std::vector<std::string> sizes = {"25M"};
  std::vector<double> densities = {0.01};
  double overlap = 0;
  std::string support = "uniform";
  std::string values = "fp32";
  std::int64_t steps = 7;
  std::int64_t warmup = 2;
  std::int64_t seed = 1;
  std::string network;
  LaunchOptions launch;
  OutputOptions output;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(1, values.size()));
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(share * last))];
}

// What machines read as null and people as a dash: nothing to compare with.
Row ratio(double value, double floor) {
  return floor > 0 ? Row(value / floor) : Row();
}

// Steps [begin, end) of what all ranks did.
class Window {
 public:
  Window(const Finish& f, std::size_t begin, std::size_t end)
      : samples_(f.samples), begin_(begin), end_(end) {}

  // By step, the most of any rank.
  template <class F>
  std::vector<double> most(F&& f) const {
    return by_step([&](std::size_t step) {
      double out = 0;
      for (const auto& rank : samples_) out = std::max(out, f(rank[step]));
      return out;
    });
  }
  // By step, the average of the ranks.
  template <class F>
  std::vector<double> average(F&& f) const {
    return by_step([&](std::size_t step) {
      double out = 0;
      for (const auto& rank : samples_) out += f(rank[step]);
      return out / static_cast<double>(samples_.size());
    });
  }

 private:
  template <class F>
  std::vector<double> by_step(F&& f) const {
    std::vector<double> out;
    for (std::size_t step = begin_; step < end_; ++step) out.push_back(f(step));
    return out;
  }

  const std::vector<std::vector<Sample>>& samples_;
  std::size_t begin_;
  std::size_t end_;
};

std::vector<double> step_seconds(const Finish& f) {
  return Window(f, f.first_timed, f.end_timed).most([](const Sample& s) {
    return s.seconds;
  });
}

std::vector<double> ratios(const std::vector<double>& a,
                           const std::vector<double>& b) {
  std::vector<double> out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (b[i] > 0) out.push_back(a[i] / b[i]);
  }
  return out;
}

struct Case {
  const Options& options;
  double density;
  Workload load;  // u: on average
  double beta;    // seconds per byte, 0 if nobody knows
};

// Fewest bytes that a rank receives on average; 0 where there is no bound: for
// algorithms that do not deliver all of the sum, and for rounded values.
double bound_of(const Case& c, const Finish& f) {
  const Workload& x = c.load;
  if (f.dense_word > 0) {
    return 2 * (x.ranks - 1) / x.ranks * x.n * f.dense_word;
  }
  return f.exact && c.options.values == "fp32" ? bound_bytes(x) : 0;
}

void add_times(Row& row, const Finish& f, const Finish* dense) {
  const Window timed(f, f.first_timed, f.end_timed);
  const std::vector<double> seconds = step_seconds(f);
  row["steps"] = seconds.size();
  row["seconds"] = median(seconds);
  row["seconds_min"] = quantile(seconds, 0);
  row["seconds_p25"] = quantile(seconds, 0.25);
  row["seconds_p75"] = quantile(seconds, 0.75);
  const auto over = dense != nullptr ? ratios(seconds, step_seconds(*dense))
                                     : std::vector<double>();
  row["over_dense"] = over.empty() ? Row() : Row(median(over));
  row["apply_seconds"] =
      median(timed.most([](const Sample& s) { return s.apply; }));
  row["cpu_seconds"] =
      median(timed.most([](const Sample& s) { return s.cpu; }));
}

void add_traffic(Row& row, const Case& c, const Finish& f) {
  const Window counted(f, f.cycles ? 0 : f.first_timed,
                       f.cycles ? f.samples[0].size() : f.end_timed);
  const auto received = [](const Sample& s) { return s.received; };
  const double received_max = mean(counted.most(received));
  const std::vector<double> means = counted.average(received);
  const auto port = [](const Sample& s) {
    return std::max(s.sent, s.received);
  };
  const auto imbalances = ratios(counted.most(port), means);
  row["bytes_sent_max"] =
      mean(counted.most([](const Sample& s) { return s.sent; }));
  row["bytes_received_max"] = received_max;
  row["bytes_received_mean"] = mean(means);
  row["messages"] =
      mean(counted.most([](const Sample& s) { return s.messages; }));
  row["traffic_steps"] = means.size();
  row["union"] = c.load.u;
  row["delivered"] =
      mean(counted.most([](const Sample& s) { return s.delivered; }));
  const double bound = bound_of(c, f);
  row["bound_bytes"] = bound > 0 ? Row(bound) : Row();
  row["bound_ratio"] = ratio(mean(means), bound);
  row["imbalance"] = imbalances.empty() ? Row() : Row(mean(imbalances));
  const double ideal = bound * c.beta;
  row["ideal_seconds"] = ideal > 0 ? Row(ideal) : Row();
  row["ideal_ratio"] = ratio(row["seconds"].get<double>(), ideal);
  constexpr double kGbit = 1e9 / 8;  // bytes per second
  const double cpu = row["cpu_seconds"].get<double>();
  row["wire_seconds"] = received_max / kGbit;
  row["cpu_over_wire"] = ratio(cpu, received_max / kGbit);
  row["merge_equals_wire_gbit"] = ratio(received_max / kGbit, cpu);
}

Row make_row(const Case& c, const Finish& f, const Finish* dense) {
  const Options& o = c.options;
  Row row = {{"collective", f.spec},
             {"by", f.by},
             {"workers", c.load.ranks},
             {"engine", o.launch.engine},
             {"network", o.launch.network()},
             {"n", c.load.n},
             {"density", c.density},
             {"overlap", o.overlap},
             {"support", o.support},
             {"values", o.values},
             {"k", c.load.k}};
  for (const char* whole : {"workers", "n", "k"}) {
    row[whole] = static_cast<std::uint64_t>(row[whole].get<double>());
  }
  add_times(row, f, dense);
  add_traffic(row, c, f);
  return row;
}

std::vector<Row> run_case(const Options& o, Communicator& comm, std::size_t n,
                          double density) {
  const auto k = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(density * static_cast<double>(n)));
  Race race(
      {.algorithms = o.algorithms,
       .selections = {n, k, o.overlap, o.support, value_form("bench", o.values),
                      static_cast<std::uint64_t>(o.seed)},
       .warmup = static_cast<std::uint64_t>(o.warmup),
       .steps = static_cast<std::uint64_t>(o.steps)},
      comm);
  const std::vector<Finish> all = race.run();
  if (all.empty()) return {};
  const auto link = o.launch.link();
  const double beta = link                ? link->beta
                      : o.network.empty() ? 0
                                          : read_beta(o.network);
  const auto first = race.unions().begin() + o.warmup;
  const Case c = {o,
                  density,
                  {static_cast<double>(n), static_cast<double>(k),
                   mean(std::vector<double>(first, first + o.steps)),
                   static_cast<double>(comm.size())},
                  beta};
  const auto dense = std::find_if(all.begin(), all.end(), [](const Finish& f) {
    return f.dense_word == 4;
  });
  std::vector<Row> rows;
  for (const Finish& f : all) {
    rows.push_back(make_row(c, f, dense == all.end() ? nullptr : &*dense));
  }
  return rows;
}

const Table kTable = {
    {{"collective", "collective", ""},
     {"by", "by", ""},
     {"n", "n", "{}"},
     {"density", "density", "{:g}"},
     {"seconds", "ms", "{:.3f}", 1e3},
     {"seconds_p25", "p25", "{:.3f}", 1e3, true},
     {"seconds_p75", "p75", "{:.3f}", 1e3, true},
     {"over_dense", "/dense", "{:.3f}"},
     {"apply_seconds", "apply ms", "{:.3f}", 1e3, true},
     {"bytes_sent_max", "sent max", "{:.0f}", 1, true},
     {"bytes_received_max", "recv max", "{:.0f}"},
     {"bytes_received_mean", "recv mean", "{:.0f}", 1, true},
     {"messages", "messages", "{:.1f}", 1, true},
     {"union", "u", "{:.0f}", 1, true},
     {"bound_bytes", "bound", "{:.0f}", 1, true},
     {"bound_ratio", "/bound", "{:.3f}"},
     {"imbalance", "imbalance", "{:.3f}"},
     {"ideal_ratio", "/ideal", "{:.3f}", 1, true},
     {"cpu_seconds", "cpu ms", "{:.3f}", 1e3},
     {"cpu_over_wire", "cpu % of 1 Gbit", "{:.1f}", 100, true},
     {"merge_equals_wire_gbit", "cpu = wire Gbit", "{:.2f}", 1, true}},
    "by: the way it took; ms: median of the slowest rank; /dense: of dense's "
    "time; recv max: bytes that the busiest rank receives per step; /bound: "
    "mean bytes received over the fewest that an exact sum can take; "
    "imbalance: the busiest port over the mean; cpu ms: of a rank's thread; "
    "-: there is none. --wide: p25, p75: quartiles of ms; apply ms: adding the "
    "result to the gradient; u: indices that any rank had; /ideal: ms over "
    "what the bound takes at the network's rate; cpu % of 1 Gbit: cpu ms over "
    "recv max at that rate; cpu = wire: the rate above which a core is the "
    "limit"};

void run(const Options& o, Communicator& comm) {
  std::vector<Row> rows;
  for (const std::string& size : o.sizes) {
    for (const double density : o.densities) {
      const auto some = run_case(o, comm, parse_size(size), density);
      rows.insert(rows.end(), some.begin(), some.end());
    }
  }
  if (comm.rank() != 0) return;
  if (o.output.format() == Format::kTable) {
    fmt::print("{} ranks, engine {}, network {}; overlap {}, {} support, {}\n",
               comm.size(), o.launch.engine, o.launch.network(), o.overlap,
               o.support, o.values);
  }
  show_rows(rows, kTable, o.output);
}

void check(const Options& o) {
  for (const std::string& size : o.sizes) {
    require(parse_size(size) >> 32 == 0, "[bench] n must be below 2^32, got ",
            size);
  }
  for (const double d : o.densities) check_density(d);
  for (const std::string& spec : o.algorithms) make_collective(spec);
  require(o.overlap >= 0 && o.overlap <= 1,
          "[bench] overlap must be from 0 to 1, got ", o.overlap);
  const auto& known = Selections::supports();
  std::string names;
  for (const std::string& name : known) names += " " + name;
  require(std::find(known.begin(), known.end(), o.support) != known.end(),
          "[bench] no support '", o.support, "'; known:", names);
  value_form("bench", o.values);
  check_count("--steps", o.steps);
  require(o.warmup >= 0 && o.warmup <= 1 << 30,
          "[bench] --warmup must be from 0 to ", 1 << 30, ", got ", o.warmup);
  require(o.seed >= 0, "[bench] --seed must be at least 0, got ", o.seed);
  if (!o.network.empty()) read_beta(o.network);
  check_launch(o.launch);
}

void add_options(CLI::App& command, Options& o) {
  command
      .add_option("--collective,--algorithm", o.algorithms,
                  "name or name:key=value,key=value (several with commas "
                  "between them or by repeating the option); all if left out")
      ->type_name("TEXT ...")
      ->default_str("");
  command.add_option("--n", o.sizes, "Elements (25M, 1e6, ...)")
      ->delimiter(',');
  command
      .add_option("--densities,--density", o.densities,
                  "Shares of entries of a rank")
      ->delimiter(',');
  command.add_option("--overlap", o.overlap,
                     "Share of a rank's entries that all ranks have in common");
  command.add_option("--support", o.support,
                     "Where entries are: uniform, skewed, clustered or "
                     "hot-columns");
  command.add_option("--values", o.values,
                     "How selected values travel: fp32, bf16 or fp16");
  command.add_option("--steps", o.steps, "Timed steps");
  command.add_option(
      "--warmup", o.warmup,
      "Steps before them (dense takes 5 more to choose its way)");
  command.add_option("--seed", o.seed, "Of the data");
  command.add_option("--network", o.network,
                     "A file of sluice probe, for the ideal times without "
                     "--net");
  add_launch_options(command, o.launch);
  add_output_options(command, o.output, true);
}

}  // namespace

void add_bench_collective(CLI::App& bench) {
  auto o = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "collective",
      "Exchanges between ranks, in turns: medians of the slowest rank's time, "
      "bytes with headers against the fewest possible, and how evenly they "
      "are spread");
  add_options(*command, *o);
  add_examples(
      *command,
      {"sluice bench collective --n 25M --workers 4 --net 50us,1Gbit",
       "sluice bench collective --n 1M --densities 0.001,0.01 --workers 8 "
       "--engine simulated --net 50us,1Gbit",
       "sluice bench collective --n 1M --collective dense,balanced,oktopk "
       "--workers 2 --wide"});
  command->callback([o] {
    o->algorithms = split_specs(o->algorithms);
    if (o->algorithms.empty()) {
      for (const auto& entry : collectives()) {
        o->algorithms.emplace_back(entry.name);
      }
    }
    check(*o);
    run_ranks(o->launch, [&](Communicator& comm) { run(*o, comm); });
  });
}

}  // namespace sluice
