#include "sluice/python/functions.h"

#include <nlohmann/json.hpp>

#include "sluice/codec/codec.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/core/error.h"
#include "sluice/core/number_text.h"
#include "sluice/feedback/feedback.h"
#include "sluice/plan/planner.h"
#include "sluice/sparsify/exceptions.h"
#include "sluice/sparsify/schedule.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

Backend& host() {
  static const std::unique_ptr<Backend> backend = make_cpu_backend({1, ""});
  return *backend;
}

// Once it is fetched; waits for the device.
HostEntries entries_of(Backend& backend, Stream& stream,
                       const SparseBlock& block) {
  const std::size_t n = block.count();
  HostEntries out{std::vector<std::uint32_t>(n), std::vector<float>(n)};
  backend.copy_out(stream, std::as_writable_bytes(std::span(out.indices)),
                   block.indices());
  backend.copy_out(stream, std::as_writable_bytes(std::span(out.values)),
                   block.values());
  backend.wait(backend.record(stream));
  return out;
}

template <class Rows>
Json described(const Rows& rows) {
  Json out = Json::array();
  for (const Description& d : rows) {
    Json parameters = Json::array();
    for (const auto& p : d.parameters) {
      parameters.push_back(
          {{"name", p.name}, {"default", p.value}, {"doc", p.doc}});
    }
    out.push_back(
        {{"name", d.name}, {"summary", d.summary}, {"parameters", parameters}});
  }
  return out;
}

template <class Entry>
Json described_entries(std::span<const Entry> entries) {
  std::vector<Description> rows;
  for (const Entry& entry : entries) rows.push_back(entry.describe());
  return described(rows);
}

}  // namespace

HostEntries select_entries(const SelectRequest& request) {
  require(request.step.density > 0 && request.step.density <= 1,
          "[select] density must be above 0 and at most 1, got ",
          shortest(request.step.density));
  const std::unique_ptr<Backend> device =
      request.gpu ? make_cuda_backend({*request.gpu}) : nullptr;
  Backend& backend = device != nullptr ? *device : host();
  const auto stream = backend.make_stream();
  const TensorView& residual = request.residual;
  Arena arena(backend, residual.size());
  Bucket bucket;
  bucket.add(0, shape3(std::span(residual.dims).first(residual.rank)), 0);
  const auto feedback = make_feedback(
      "residual",
      {backend, arena, bucket, make_sparsifier(request.sparsifier)});
  backend.wait(*stream, request.ready);
  backend.pack(*stream, {{&residual, 1}, {}, arena.residual()});
  feedback->select(*stream, {&request.gradient, 1}, request.step);
  backend.wait(feedback->staged().fetch(backend, *stream));
  HostEntries out = entries_of(backend, *stream, feedback->staged());
  feedback->commit(*stream);
  backend.apply(*stream, {{}, arena.residual(), {&residual, 1}, 1});
  backend.wait(backend.record(*stream));
  return out;
}

std::vector<std::byte> encode_entries(std::span<const std::uint32_t> indices,
                                      std::span<const float> values,
                                      std::size_t elements,
                                      const std::string& codec) {
  Backend& backend = host();
  const auto stream = backend.make_stream();
  Codec coder(backend, codec);
  SparseBlock block(backend, elements, indices.size(), 1);
  block.assign(backend, *stream, indices, values);
  backend.wait(block.fetch(backend, *stream));
  SegmentForm form;
  form.size = elements;
  form.values = coder.values();
  Message message;
  backend.wait(coder.encode(*stream, block, std::span(&form, 1), message));
  const auto bytes = message.bytes();
  return {bytes.begin(), bytes.end()};
}

HostEntries decode_entries(std::span<const std::byte> message,
                           std::size_t elements) {
  Backend& backend = host();
  const auto stream = backend.make_stream();
  Codec coder(backend);
  const std::uint64_t claimed = Codec::claimed_count(message);
  SparseBlock block(backend, elements,
                    std::min<std::uint64_t>(claimed, elements), 1);
  SegmentForm form;
  form.size = elements;
  Decoded decoded;
  backend.wait(
      coder.decode(*stream, message, std::span(&form, 1), block, decoded));
  decoded.check("the message");
  return entries_of(backend, *stream, block);
}

std::string list_methods() {
  const Json all = {{"sparsifiers", described_entries(sparsifiers())},
                    {"feedback", described_entries(feedbacks())},
                    {"codecs", described(codec_descriptions())},
                    {"collectives", described_entries(collectives())},
                    {"planners", described_entries(planners())},
                    {"schedules", described(schedule_descriptions())},
                    {"exceptions", described(exception_descriptions())}};
  return all.dump();
}

}  // namespace sluice
