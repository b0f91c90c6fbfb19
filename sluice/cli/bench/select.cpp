#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sluice/backend/clock.h"
#include "sluice/cli/bench/bench.h"
#include "sluice/cli/bench/gradient_source.h"
#include "sluice/cli/bench/model_shapes.h"
#include "sluice/cli/bench/select_plot.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/codec/codec.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/core/hash.h"
#include "sluice/feedback/feedback.h"

namespace sluice {
namespace {

using Row = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> sizes = {"25M"};
  std::vector<std::string> models;  // instead of sizes
  std::vector<double> densities = {0.001, 0.01};
  std::vector<std::string> data = {"randn"};
  std::vector<std::string> sparsifiers = {"topk",    "adtopk",    "tile",
                                          "dgc",     "gaussiank", "redsync",
                                          "sidco-e", "sidco-gp",  "sidco-p"};
  std::vector<std::int64_t> threads = {1};
  std::vector<std::string> devices = {"cpu"};
  std::string plot;
  std::string feedback = "residual";
  std::string codec = "auto";
  std::int64_t row = 1024;
  std::int64_t stride = 1;
  std::int64_t steps = 12;
  OutputOptions output;
};

// Times of one phase.
struct Samples {
  std::vector<double> seconds;
  std::vector<double> floors;
  std::vector<double> ratios;
  std::vector<double> encodes;
  std::vector<double> decodes;
  StepReport total;
  std::size_t bytes = 0;
  std::size_t entries = 0;
};

// What is selected from: one tensor of n elements, or those of a model.
struct Subject {
  std::string model;
  std::size_t n = 0;
};

// Buffers of one subject, shared by all cases on it.
class Bench {
 public:
  Bench(const Options& options, const std::string& device, std::size_t threads,
        const std::string& data, const Subject& subject)
      : options_(options),
        threads_(threads),
        model_(subject.model),
        source_(data, subject.n),
        backend_(device == "cuda" ? make_cuda_backend()
                                  : make_cpu_backend({threads, ""})),
        stream_(backend_->make_stream()),
        clock_(device == "cuda" ? make_cuda_clock() : make_cpu_clock(threads)),
        data_(data) {
    if (model_.empty()) {
      tensors_.push_back(one_tensor());
    } else {
      tensors_ = model_shapes(model_);
    }
    for (const Dims& dims : tensors_) n_ += shape3(dims).size();
    gradient_ = backend_->allocate(n_ * sizeof(float));
    floor_memory_ = backend_->allocate(n_ * sizeof(float));
    arena_ = std::make_unique<Arena>(*backend_, n_);
    backend_->fill(*stream_, arena_->residual(), n_, 0);
    std::size_t at = 0;
    for (const Dims& dims : tensors_) {
      views_.push_back(contiguous_view(gradient_.data<float>() + at, dims));
      at += shape3(dims).size();
    }
    if (!backend_->is_host()) fill_base();
  }

  std::vector<Row> run(double density, const std::string& spec);

 private:
  // Rows of the asked-for length; a remainder that fills no row is left out. A
  // file keeps its own dimensions.
  Dims one_tensor() const {
    const Dims& dims = source_.dims();
    const auto row = static_cast<std::size_t>(options_.row);
    const auto stride = static_cast<std::size_t>(options_.stride);
    const std::size_t slab = row * stride;
    if (dims.size() != 1 || source_.size() < slab ||
        data_.find(".npy") != std::string::npos) {
      return dims;
    }
    return {source_.size() / slab, row, stride};
  }
  std::unique_ptr<Feedback> make(const std::string& spec, const Codec& codec) {
    Bucket bucket;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      bucket.add(i, shape3(tensors_[i]), bucket.size());
    }
    return make_feedback(
        options_.feedback,
        {*backend_, *arena_, bucket, make_sparsifier(spec), codec.values()});
  }
  void fill_base();
  void make_gradient();
  void step(Feedback& feedback, Codec& codec, double density, Samples& samples);
  void code(Feedback& feedback, Codec& codec, Samples& samples);
  Row row(const std::string& spec, double density, std::string_view phase,
          const Samples& samples) const;

  static constexpr std::size_t kBaseShift = std::size_t{1} << 20;

  const Options& options_;
  std::size_t threads_;
  std::string model_;
  GradientSource source_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Clock> clock_;
  std::string data_;
  std::vector<Dims> tensors_;
  std::vector<TensorView> views_;
  std::size_t n_ = 0;
  Buffer base_;  // of a device: what gradients are made from
  Buffer gradient_;
  Buffer floor_memory_;
  std::unique_ptr<Arena> arena_;
  Message message_;
  Decoded decoded_;
  Buffer result_;
  SparseBlock received_;
  std::uint64_t step_ = 0;
  double scale_ = 1;
};

// More values than a gradient has, of which every step takes other ones: a
// device is not to wait for the host to make them.
void Bench::fill_base() {
  constexpr std::size_t kPart = std::size_t{1} << 24;
  std::vector<float> part(std::min(n_, kPart));
  source_.fill(part, 0, 1);
  base_ = backend_->allocate((n_ + kBaseShift) * sizeof(float));
  for (std::size_t at = 0; at < n_ + kBaseShift; at += part.size()) {
    const std::size_t count = std::min(part.size(), n_ + kBaseShift - at);
    // Another scale each time, or all values would come several times.
    for (float& x : part) x *= 1.001F;
    backend_->copy_in(*stream_, base_.data<float>() + at,
                      std::as_bytes(std::span(part).first(count)));
  }
}

void Bench::make_gradient() {
  float* g = gradient_.data<float>();
  // The scale drifts by 0.8 to 1.25 from step to step, back and forth.
  const double drift =
      0.8 + 0.45 * static_cast<double>(mix64(step_) % 1000) / 1000;
  scale_ *= scale_ * drift > 4 || scale_ * drift < 0.25 ? 1 / drift : drift;
  if (backend_->is_host()) {
    source_.fill({g, n_}, step_, static_cast<float>(scale_));
    return;
  }
  const std::size_t dims[] = {n_};
  const TensorView target = contiguous_view(g, dims);
  ApplyPass pass;
  pass.dense = base_.data<float>() + mix64(step_, 1) % kBaseShift;
  pass.targets = {&target, 1};
  pass.scale = static_cast<float>(scale_);
  backend_->apply(*stream_, pass);
}

void Bench::step(Feedback& feedback, Codec& codec, double density,
                 Samples& samples) {
  make_gradient();
  const float* g = gradient_.data<float>();
  const double floor =
      clock_->floor(*stream_, floor_memory_.data<float>(), g, n_);

  const double seconds = clock_->time(*stream_, [&] {
    feedback.select(*stream_, views_, {step_, 0, density, 1});
  });
  ++step_;

  backend_->wait(feedback.staged().fetch(*backend_, *stream_));
  code(feedback, codec, samples);

  backend_->wait(feedback.fetch_report(*stream_));
  const StepReport report = feedback.report();
  feedback.commit(*stream_);
  samples.seconds.push_back(seconds);
  samples.floors.push_back(floor);
  samples.ratios.push_back(seconds / floor);
  samples.total.budget += report.budget;
  samples.total.selected += report.selected;
  samples.total.failed_brackets += report.failed_brackets;
  samples.total.exact_searches += report.exact_searches;
  samples.total.nonfinite += report.nonfinite;
  samples.bytes = message_.size();
  samples.entries = feedback.staged().count();
}

// Encodes what was selected, and decodes it.
void Bench::code(Feedback& feedback, Codec& codec, Samples& samples) {
  const SparseBlock& block = feedback.staged();
  const Stopwatch encode;
  backend_->wait(codec.encode(*stream_, block, feedback.forms(), message_));
  const std::span<const std::byte> bytes = message_.bytes();
  samples.encodes.push_back(encode.seconds());
  received_.reserve(*backend_, block.capacity());
  const Stopwatch decode;
  backend_->wait(
      codec.decode(*stream_, bytes, feedback.forms(), received_, decoded_));
  decoded_.check("itself");
  samples.decodes.push_back(decode.seconds());
  if (backend_->is_host()) return;
  // What a device takes, without the host that waits for sizes.
  samples.encodes.back() = clock_->time(*stream_, [&] {
    codec.encode(
        *stream_,
        {block.indices(), block.values(), block.starts(), feedback.forms()},
        {message_.data(), message_.capacity()}, message_.written());
  });
  if (result_.data() == nullptr) {
    result_ = backend_->allocate(sizeof(DecodeResult));
  }
  samples.decodes.back() = clock_->time(*stream_, [&] {
    codec.decode(*stream_, bytes, feedback.forms(),
                 {received_.indices(), received_.values(), received_.starts(),
                  received_.capacity()},
                 result_.data<DecodeResult>());
  });
}

Row Bench::row(const std::string& spec, double density, std::string_view phase,
               const Samples& s) const {
  const double seconds = median(s.seconds);
  const double floor = median(s.floors);
  const auto steps = static_cast<double>(s.seconds.size());
  const double k = static_cast<double>(s.total.budget) / steps;
  const double k_hat = static_cast<double>(s.total.selected) / steps;
  const Dims& first = tensors_.front();
  return {
      {"sparsifier", spec},
      {"model", model_},
      {"n", n_},
      {"row", !model_.empty()    ? 0
              : first.size() > 1 ? first[1]
                                 : n_},
      {"stride", !model_.empty() ? 0 : shape3(first).r},
      {"density", density},
      {"data", data_},
      {"threads", threads_},
      {"phase", phase},
      {"seconds", seconds},
      {"floor_seconds", floor},
      {"ratio", median(s.ratios)},
      {"gb_per_s", 12e-9 * static_cast<double>(n_) / seconds},
      {"floor_gb_per_s", 12e-9 * static_cast<double>(n_) / floor},
      {"k", k},
      {"k_hat", k_hat},
      {"k_hat_over_k", k > 0 ? k_hat / k : 0},
      {"failed_brackets", s.total.failed_brackets},
      {"exact_searches", s.total.exact_searches},
      {"bytes", s.bytes},
      {"bits_per_entry", s.entries > 0 ? 8.0 * static_cast<double>(s.bytes) /
                                             static_cast<double>(s.entries)
                                       : 0},
      {"encode_seconds", median(s.encodes)},
      {"decode_seconds", median(s.decodes)},
      {"encode_share", median(s.encodes) / seconds},
      {"decode_share", median(s.decodes) / seconds},
      {"device", backend_->name()}};
}

std::vector<Row> Bench::run(double density, const std::string& spec) {
  Codec codec(*backend_, options_.codec);
  received_ = SparseBlock(*backend_, n_, 0, tensors_.size());
  std::vector<Row> rows;
  Samples cold;
  {
    // Pages are touched and buffers grown before anything is timed.
    Samples ignored;
    auto feedback = make(spec, codec);
    step(*feedback, codec, density, ignored);
    step(*feedback, codec, density, ignored);
  }
  for (int round = 0; round < 3; ++round) {
    auto fresh = make(spec, codec);
    backend_->fill(*stream_, arena_->residual(), n_, 0);
    show_progress(fmt::format("{} n={} density={} cold {}/3", spec, n_, density,
                              round + 1));
    step(*fresh, codec, density, cold);
    if (round < 2) continue;
    rows.push_back(row(spec, density, "cold", cold));
    Samples steady;
    Samples settling;
    const auto steps = static_cast<std::size_t>(options_.steps);
    for (std::size_t s = 0; s < steps + 3; ++s) {
      show_progress(fmt::format("{} n={} density={} step {}/{}", spec, n_,
                                density, s + 1, steps + 3));
      step(*fresh, codec, density, s < 3 ? settling : steady);
    }
    rows.push_back(row(spec, density, "steady", steady));
  }
  show_progress("");
  return rows;
}

const Table kTable = {
    {{"sparsifier", "sparsifier", ""},
     {"model", "model", "", 1, true},
     {"n", "n", "{}"},
     {"row", "row", "{}", 1, true},
     {"stride", "stride", "{}", 1, true},
     {"density", "density", "{:g}"},
     {"data", "data", ""},
     {"threads", "threads", "{}"},
     {"phase", "phase", ""},
     {"seconds", "ms", "{:.3f}", 1e3},
     {"floor_seconds", "floor ms", "{:.3f}", 1e3, true},
     {"ratio", "ratio", "{:.2f}"},
     {"gb_per_s", "GB/s", "{:.1f}", 1, true},
     {"floor_gb_per_s", "floor GB/s", "{:.1f}", 1, true},
     {"k_hat_over_k", "k^/k", "{:.3f}"},
     {"failed_brackets", "failed", "{}", 1, true},
     {"bytes", "bytes", "{}"},
     {"bits_per_entry", "bits/entry", "{:.2f}", 1, true},
     {"encode_share", "encode %", "{:.1f}", 100, true},
     {"decode_share", "decode %", "{:.1f}", 100, true}},
    "phase: cold is a first step, steady all later ones; ratio: time over the "
    "floor, the fastest r += g, in the same step; k^/k: entries selected over "
    "those asked for; bytes: of the message. --wide: row, stride: shape, for "
    "rules by rows; failed: guessed thresholds that cost a second round; "
    "encode %, decode %: of ms"};

// Everything that can be wrong, before anything runs for minutes.
void check(const Options& o) {
  for (const double d : o.densities) check_density(d);
  check_count("--row", o.row);
  check_count("--stride", o.stride);
  check_count("--steps", o.steps);
  for (const std::int64_t t : o.threads) check_threads(t);
  for (const std::string& size : o.sizes) parse_size(size);
  for (const std::string& model : o.models) model_shapes(model);
  for (const std::string& data : o.data) {
    GradientSource::check(data);
    require(o.models.empty() || data.find(".npy") == std::string::npos,
            "[bench] --model has tensors of its own; leave out --data ", data);
  }
  for (const std::string& device : o.devices) {
    require(device != "cuda" || cuda_problem().empty(), cuda_problem());
  }
  auto backend = make_cpu_backend({1, ""});
  Codec(*backend, o.codec);
  Arena arena(*backend, 0);
  for (const std::string& spec : o.sparsifiers) {
    make_feedback(o.feedback, {*backend, arena, {}, make_sparsifier(spec)});
  }
}

std::vector<Subject> subjects(const Options& options) {
  std::vector<Subject> out;
  for (const std::string& model : options.models) {
    std::size_t n = 0;
    for (const Dims& dims : model_shapes(model)) n += shape3(dims).size();
    out.push_back({model, n});
  }
  if (!out.empty()) return out;
  for (const std::string& size : options.sizes) {
    out.push_back({"", parse_size(size)});
  }
  return out;
}

// Where it is run: threads mean nothing to a GPU.
std::vector<std::pair<std::string, std::int64_t>> places(const Options& o) {
  std::vector<std::pair<std::string, std::int64_t>> out;
  for (const std::string& device : o.devices) {
    for (const std::int64_t threads : o.threads) {
      if (device != "cuda" || threads == o.threads[0]) {
        out.emplace_back(device, threads);
      }
    }
  }
  return out;
}

void run_all(const Options& options) {
  check(options);
  std::vector<Row> rows;
  for (const auto& [device, threads] : places(options)) {
    for (const Subject& subject : subjects(options)) {
      for (const std::string& data : options.data) {
        Bench bench(options, device, static_cast<std::size_t>(threads), data,
                    subject);
        for (const double density : options.densities) {
          for (const std::string& spec : options.sparsifiers) {
            const auto some = bench.run(density, spec);
            rows.insert(rows.end(), some.begin(), some.end());
          }
        }
      }
    }
  }
  if (!options.plot.empty()) write_text(options.plot, draw_selects(rows));
  show_rows(rows, kTable, options.output);
}

}  // namespace

void add_bench_select(CLI::App& bench) {
  auto o = std::make_shared<Options>();
  CLI::App* select = bench.add_subcommand(
      "select",
      "Error feedback + selection, against the floor r += g. Ratios are "
      "medians "
      "over steps of time / floor in the same step; data is new and its scale "
      "drifts at every step.");
  CLI::Option* n =
      select->add_option("--n", o->sizes, "Elements (25M, 1e6, ...)")
          ->delimiter(',');
  select
      ->add_option("--model", o->models,
                   "All tensors of a model at once instead: resnet50, "
                   "resnet152 or bert-large")
      ->type_name(fmt::format("{{{}}}", fmt::join(known_models(), ",")))
      ->delimiter(',')
      ->excludes(n);
  select
      ->add_option("--densities,--density", o->densities,
                   "Shares of entries to send")
      ->delimiter(',');
  select
      ->add_option("--data", o->data,
                   "randn, laplace, t3, equal, zeros (99.95 %), ramp or a "
                   "float32 FILE.npy")
      ->delimiter(',');
  select->add_option(
      "--sparsifier", o->sparsifiers,
      "name or name:key=value,key=value (several with commas between "
      "them or by repeating the option)");
  select->add_option("--threads", o->threads, "Threads of the pool")
      ->delimiter(',');
  select->add_option("--device", o->devices, "cpu, cuda or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"cpu", "cuda"}));
  select->add_option("--feedback", o->feedback, "Feedback around it");
  select->add_option("--codec", o->codec, "Codec for the bytes");
  select->add_option("--row", o->row,
                     "Row length for adtopk, columns for tile");
  select->add_option("--stride", o->stride,
                     "Stride of a row (9: a 3 x 3 convolution)");
  select->add_option("--steps", o->steps, "Timed steps in steady state");
  select->add_option("--plot", o->plot,
                     "Also draw it: an SVG file, ms by density or elements");
  add_output_options(*select, o->output, true);
  add_examples(*select, {"sluice bench select --n 25M --densities 0.001,0.01 "
                         "--sparsifier topk,adtopk",
                         "sluice bench select --model resnet50 --threads 2",
                         "sluice bench select --n 1M --data laplace "
                         "--sparsifier dgc:upper=1.5 --csv"});
  select->callback([o] {
    o->sparsifiers = split_specs(o->sparsifiers);
    run_all(*o);
  });
}

}  // namespace sluice
