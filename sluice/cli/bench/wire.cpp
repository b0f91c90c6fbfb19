#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <memory>

#include "sluice/backend/clock.h"
#include "sluice/cli/bench/bench.h"
#include "sluice/cli/bench/gradient_source.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
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
  std::string device = "cpu";
  std::int64_t row = 1024;
  std::int64_t steps = 9;
  OutputOptions output;
};

// Bits that k random positions of n cannot go below, per entry.
double entropy_bits(double n, double k) {
  const double d = k / n;
  return d >= 1 ? 0 : (-d * std::log2(d) - (1 - d) * std::log2(1 - d)) / d;
}

// What is timed, and where.
struct Device {
  explicit Device(const std::string& name)
      : backend(name == "cuda" ? make_cuda_backend()
                               : make_cpu_backend({1, ""})),
        stream(backend->make_stream()),
        clock(name == "cuda" ? make_cuda_clock() : nullptr) {}

  // Seconds of what f enqueues: without the host's share on a device, which
  // goes on meanwhile.
  double time(const std::function<void()>& f) {
    if (clock != nullptr) return clock->time(*stream, f);
    const Stopwatch watch;
    f();
    return watch.seconds();
  }
  void copy_out(std::span<std::byte> to, const void* from) {
    backend->copy_out(*stream, to, from);
    backend->wait(backend->record(*stream));
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Clock> clock;
};

WirePart first_part(Device& device, const Message& message) {
  WirePart part;
  if (message.size() >= sizeof(WireHeader) + sizeof(part)) {
    device.copy_out(std::as_writable_bytes(std::span(&part, 1)),
                    message.data() + sizeof(WireHeader));
  }
  return part;
}

struct Times {
  double select = 0;
  double encode = 0;
  double decode = 0;
};

// Encodes what was selected into `message`, and decodes it.
Times time_codec(Device& device, Codec& codec, Feedback& feedback,
                 std::int64_t steps, Message& message) {
  Backend& backend = *device.backend;
  SparseBlock& block = feedback.staged();
  SparseBlock received(backend, block.dense_size(), block.capacity(), 1);
  Decoded decoded;
  Buffer result = backend.allocate(sizeof(DecodeResult));
  std::vector<double> encodes;
  std::vector<double> decodes;
  for (std::int64_t s = 0; s < steps + 2; ++s) {
    // The first time makes room, and what is there is checked.
    backend.wait(
        codec.encode(*device.stream, block, feedback.forms(), message));
    const std::span<const std::byte> bytes = message.bytes();
    backend.wait(codec.decode(*device.stream, bytes, feedback.forms(), received,
                              decoded));
    decoded.check("itself");
    const double encode = device.time([&] {
      codec.encode(
          *device.stream,
          {block.indices(), block.values(), block.starts(), feedback.forms()},
          {message.data(), message.capacity()}, message.written());
    });
    const double decode = device.time([&] {
      codec.decode(*device.stream, bytes, feedback.forms(),
                   {received.indices(), received.values(), received.starts(),
                    received.capacity()},
                   result.data<DecodeResult>());
    });
    if (s < 2) continue;
    encodes.push_back(encode);
    decodes.push_back(decode);
  }
  return {0, median(encodes), median(decodes)};
}

Row bench_codec(Device& device, Feedback& feedback, const std::string& spec,
                double density, const Options& o, double select) {
  Codec codec(*device.backend, spec);
  Message message;
  Times times = time_codec(device, codec, feedback, o.steps, message);
  times.select = select;
  const SparseBlock& block = feedback.staged();
  const WirePart part = first_part(device, message);
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
          {"select_seconds", times.select},
          {"encode_seconds", times.encode},
          {"decode_seconds", times.decode},
          {"encode_ns", 1e9 * times.encode / k},
          {"decode_ns", 1e9 * times.decode / k},
          {"encode_share", times.encode / times.select},
          {"decode_share", times.decode / times.select},
          {"device", device.backend->name()}};
}

const Table kTable = {
    {{"codec", "codec", ""},
     {"form", "form", ""},
     {"values", "values", ""},
     {"density", "density", "{:g}"},
     {"entries", "entries", "{}", 1, true},
     {"bytes", "bytes", "{}"},
     {"index_bits", "bits/index", "{:.2f}"},
     {"entropy_bits", "entropy", "{:.2f}"},
     {"bits_per_entry", "bits/entry", "{:.2f}", 1, true},
     {"encode_seconds", "encode us", "{:.1f}", 1e6, true},
     {"decode_seconds", "decode us", "{:.1f}", 1e6, true},
     {"encode_ns", "encode ns", "{:.2f}"},
     {"decode_ns", "decode ns", "{:.2f}"},
     {"encode_share", "encode %", "{:.1f}", 100, true},
     {"decode_share", "decode %", "{:.1f}", 100, true}},
    "form, values: what the codec chose; bytes: of the message; bits/index: of "
    "positions alone; entropy: the least that random positions can take; "
    "encode ns, decode ns: per entry. --wide: bits/entry: positions, values "
    "and headers; encode %, decode %: of the time of the selection"};

// The codecs that can carry what was selected with these values.
std::vector<std::string> codecs_for(const Feedback& feedback,
                                    ValueForm values) {
  if (values != ValueForm::kFp32) return {"auto:values=bf16"};
  std::vector<std::string> out;
  for (const Description& d : codec_descriptions()) {
    const bool rows = feedback.forms()[0].rows.rows.k > 0;
    if (d.name == "dense" || (d.name == "rows" && !rows)) continue;
    out.emplace_back(d.name);
    if (d.name == "auto") out.emplace_back("auto:checksum=false");
  }
  return out;
}

// Leaves a selection staged; returns the median of the times of several.
double select_some(Device& device, Feedback& feedback,
                   const GradientSource& source,
                   const std::vector<std::size_t>& dims, double density) {
  const std::size_t n = shape3(dims).size();
  Backend& backend = *device.backend;
  std::vector<float> host(n);
  Buffer gradient = backend.allocate(n * sizeof(float));
  std::vector<double> times;
  for (std::uint64_t step = 0; step < 6; ++step) {
    source.fill(host, step, 1);
    backend.copy_in(*device.stream, gradient.data(),
                    std::as_bytes(std::span(host)));
    const TensorView view = contiguous_view(gradient.data(), dims);
    const double seconds = device.time([&] {
      feedback.select(*device.stream, {&view, 1}, {step, 0, density, 1});
    });
    if (step > 1) times.push_back(seconds);
    backend.wait(feedback.staged().fetch(backend, *device.stream));
    if (step < 5) feedback.commit(*device.stream);
  }
  return median(times);
}

void run(const Options& o) {
  const GradientSource source(o.data, parse_size(o.size));
  Device device(o.device);
  std::vector<std::size_t> dims = source.dims();
  const auto row = static_cast<std::size_t>(o.row);
  if (dims.size() == 1 && dims[0] >= row) dims = {dims[0] / row, row};
  std::vector<Row> rows;
  for (const double density : o.densities) {
    for (const ValueForm values : {ValueForm::kFp32, ValueForm::kBf16}) {
      Arena arena(*device.backend, shape3(dims).size());
      Bucket bucket;
      bucket.add(0, shape3(dims), 0);
      auto feedback =
          make_feedback("residual", {*device.backend, arena, bucket,
                                     make_sparsifier(o.sparsifier), values});
      const double select =
          select_some(device, *feedback, source, dims, density);
      for (const std::string& spec : codecs_for(*feedback, values)) {
        show_progress(fmt::format("{} density={}", spec, density));
        rows.push_back(
            bench_codec(device, *feedback, spec, density, o, select));
      }
    }
  }
  show_progress("");
  show_rows(rows, kTable, o.output);
}

}  // namespace

void add_bench_wire(CLI::App& bench) {
  auto o = std::make_shared<Options>();
  CLI::App* wire = bench.add_subcommand(
      "wire",
      "Bytes and time of every index form for one selection, beside the "
      "entropy "
      "of its positions and the time of the select (one thread, or a GPU)");
  wire->add_option("--n", o->size, "Elements");
  wire->add_option("--densities,--density", o->densities,
                   "Shares of entries to send")
      ->delimiter(',');
  wire->add_option("--data", o->data, "As for bench select");
  wire->add_option("--sparsifier", o->sparsifier, "What selects");
  wire->add_option("--device", o->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  wire->add_option("--row", o->row, "Row length for adtopk, columns for tile");
  wire->add_option("--steps", o->steps, "Timed repetitions");
  add_output_options(*wire, o->output, true);
  add_examples(*wire, {"sluice bench wire --n 25M --densities 0.01",
                       "sluice bench wire --n 1M --sparsifier adtopk --wide"});
  wire->callback([o] {
    for (const double d : o->densities) check_density(d);
    check_count("--row", o->row);
    check_count("--steps", o->steps);
    make_sparsifier(o->sparsifier);
    require(o->device != "cuda" || cuda_problem().empty(), cuda_problem());
    run(*o);
  });
}

}  // namespace sluice
