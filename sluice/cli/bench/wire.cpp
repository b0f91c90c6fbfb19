#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/bench/gradient_source.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/table.h"
#include "sluice/codec/codec.h"
#include "sluice/core/error.h"
#include "sluice/feedback/feedback.h"

namespace sluice {
namespace {

using Row = nlohmann::ordered_json;

struct Options {
  std::string size = "25M";
  std::vector<double> densities = {0.001, 0.01, 0.1};
  std::string data = "randn";
  std::string sparsifier = "topk";
  std::int64_t row = 1024;
  std::int64_t steps = 9;
  OutputOptions output;
};

// Bits that k random positions of n cannot go below, per entry.
double entropy_bits(double n, double k) {
  const double d = k / n;
  return d >= 1 ? 0 : (-d * std::log2(d) - (1 - d) * std::log2(1 - d)) / d;
}

// The first part of a message on the CPU.
WirePart first_part(const Message& message) {
  WirePart part;
  if (message.size() >= sizeof(WireHeader) + sizeof(part)) {
    std::memcpy(&part, message.data() + sizeof(WireHeader), sizeof(part));
  }
  return part;
}

Row time_codec(Backend& backend, Stream& stream, Feedback& feedback,
               const std::string& spec, double density, const Options& o,
               double select_seconds) {
  Codec codec(backend, spec);
  Message message;
  Decoded decoded;
  SparseBlock& block = feedback.staged();
  SparseBlock received(backend, block.dense_size(), block.capacity(), 1);
  std::vector<double> encodes;
  std::vector<double> decodes;
  for (std::int64_t s = 0; s < o.steps + 2; ++s) {
    const Stopwatch encode;
    backend.wait(codec.encode(stream, block, feedback.forms(), message));
    if (s >= 2) encodes.push_back(encode.seconds());
    const std::span<const std::byte> bytes = message.bytes();
    const Stopwatch decode;
    backend.wait(
        codec.decode(stream, bytes, feedback.forms(), received, decoded));
    if (s >= 2) decodes.push_back(decode.seconds());
    decoded.check("itself");
  }
  const WirePart part = first_part(message);
  const auto values = static_cast<ValueForm>(part.value_form);
  const std::size_t index_bytes = message.size() - sizeof(WireHeader) -
                                  sizeof(WirePart) -
                                  value_bytes(part.count, 1, values);
  const auto k = static_cast<double>(block.count());
  const auto n = static_cast<double>(block.dense_size());
  return {{"codec", spec},
          {"form", name_of(static_cast<IndexForm>(part.index_form))},
          {"values", name_of(values)},
          {"n", block.dense_size()},
          {"density", density},
          {"entries", block.count()},
          {"bytes", message.size()},
          {"index_bits", 8 * static_cast<double>(index_bytes) / k},
          {"entropy_bits", entropy_bits(n, k)},
          {"bits_per_entry", 8 * static_cast<double>(message.size()) / k},
          {"encode_ns", 1e9 * median(encodes) / k},
          {"decode_ns", 1e9 * median(decodes) / k},
          {"encode_share", median(encodes) / select_seconds},
          {"decode_share", median(decodes) / select_seconds}};
}

const std::vector<Column> kColumns = {
    {"codec", "codec", ""},
    {"form", "form", ""},
    {"values", "values", ""},
    {"density", "density", "{:g}"},
    {"entries", "entries", "{}"},
    {"bytes", "bytes", "{}"},
    {"index_bits", "bits/index", "{:.2f}"},
    {"entropy_bits", "entropy", "{:.2f}"},
    {"bits_per_entry", "bits/entry", "{:.2f}"},
    {"encode_ns", "encode ns", "{:.2f}"},
    {"decode_ns", "decode ns", "{:.2f}"},
    {"encode_share", "encode %", "{:.1f}", 100},
    {"decode_share", "decode %", "{:.1f}", 100},
};

void run(const Options& o) {
  const GradientSource source(o.data, parse_size(o.size));
  auto backend = make_cpu_backend({1, ""});
  auto stream = backend->make_stream();
  std::vector<std::size_t> dims = source.dims();
  const auto row = static_cast<std::size_t>(o.row);
  if (dims.size() == 1 && dims[0] >= row) dims = {dims[0] / row, row};
  const std::size_t n = shape3(dims).size();
  Buffer gradient = backend->allocate(n * sizeof(float));
  std::vector<Row> rows;
  for (const double density : o.densities) {
    for (const ValueForm values : {ValueForm::kFp32, ValueForm::kBf16}) {
      Arena arena(*backend, n);
      Bucket bucket;
      bucket.add(0, shape3(dims), 0);
      auto feedback = make_feedback(
          "residual",
          {*backend, arena, bucket, make_sparsifier(o.sparsifier), values});
      std::vector<double> selects;
      for (std::uint64_t step = 0; step < 6; ++step) {
        source.fill({gradient.data<float>(), n}, step, 1);
        const TensorView view = contiguous_view(gradient.data(), dims);
        const Stopwatch watch;
        feedback->select(*stream, {&view, 1}, {step, 0, density, 1});
        if (step > 1) selects.push_back(watch.seconds());
        backend->wait(feedback->staged().fetch(*backend, *stream));
        if (step < 5) feedback->commit(*stream);
      }
      for (const Description& d : codec_descriptions()) {
        const bool rounded = values != ValueForm::kFp32;
        if (d.name == "dense" ||
            (d.name == "rows" && feedback->forms()[0].rows.rows.k == 0)) {
          continue;
        }
        if (rounded && d.name != "auto") continue;
        show_progress(fmt::format("{} density={}", d.name, density));
        rows.push_back(
            time_codec(*backend, *stream, *feedback,
                       std::string(d.name) + (rounded ? ":values=bf16" : ""),
                       density, o, median(selects)));
      }
    }
  }
  show_progress("");
  fmt::print("{}", print_rows(rows, kColumns, o.output.format()));
}

}  // namespace

void add_bench_wire(CLI::App& bench) {
  auto o = std::make_shared<Options>();
  CLI::App* wire = bench.add_subcommand(
      "wire",
      "Bytes and time of every index form for one selection, beside the "
      "entropy "
      "of its positions and the time of the select (one thread)");
  wire->add_option("--n", o->size, "Elements");
  wire->add_option("--density", o->densities, "Share of entries to send")
      ->delimiter(',');
  wire->add_option("--data", o->data, "As for bench select");
  wire->add_option("--sparsifier", o->sparsifier, "What selects");
  wire->add_option("--row", o->row, "Row length for adtopk, columns for tile");
  wire->add_option("--steps", o->steps, "Timed repetitions");
  wire->add_flag("--json", o->output.json, "Print a JSON array");
  wire->add_flag("--csv", o->output.csv, "Print CSV")->excludes("--json");
  wire->callback([o] {
    for (const double d : o->densities) check_density(d);
    check_count("--row", o->row);
    check_count("--steps", o->steps);
    make_sparsifier(o->sparsifier);
    run(*o);
  });
}

}  // namespace sluice
