// What the rules ask for before they propose a bracket, and the exact search
// that needs no bracket at all.

#include <algorithm>
#include <cstring>
#include <functional>

#include "sluice/backend/cpu/selector.h"
#include "sluice/backend/exact.h"
#include "sluice/backend/sample.h"
#include "sluice/core/key.h"

namespace sluice::cpu {
namespace {

constexpr std::size_t kLine = Sample::kLine;
constexpr std::size_t kSampleChunk = 1U << 14;  // elements per sampling task
constexpr std::size_t kScanChunk = 1U << 16;    // the same for a full scan

// Chunks depend on n and the sample alone: sums over them keep one order
// whatever the number of threads.
std::size_t scan_chunk(std::size_t n) {
  return std::max(kScanChunk, (n / 256 + kLine) / kLine * kLine);
}

void prefetch(const Source& source) {
  if (source.gradient != nullptr) __builtin_prefetch(source.gradient);
  if (source.memory != nullptr) __builtin_prefetch(source.memory);
}

void add_moments(Moments& to, const Moments& from) {
  to.count += from.count;
  to.nonfinite += from.nonfinite;
  to.sum += from.sum;
  to.sum_abs += from.sum_abs;
  to.sum_sq += from.sum_sq;
  to.max_abs = std::max(to.max_abs, from.max_abs);
}

// Runs of `run` elements at position(j), gathered into batches so that the
// statistics see long vectors and the cache misses overlap.
template <class Position>
void sample_runs(const Kernels& kernels, const Source& source, bool sums,
                 std::size_t run, std::size_t begin, std::size_t end,
                 Position&& position, std::uint32_t* keys,
                 std::uint32_t* histogram, Moments& moments) {
  constexpr std::size_t kBatch = 256;
  alignas(64) float gradient[kBatch];
  alignas(64) float memory[kBatch];
  const std::size_t per_batch = kBatch / run;
  for (std::size_t j = begin; j < std::min(end, begin + per_batch); ++j) {
    prefetch(source.at(position(j)));
  }
  for (std::size_t at = begin; at < end; at += per_batch) {
    const std::size_t count = std::min(per_batch, end - at);
    for (std::size_t i = 0; i < count; ++i) {
      const Source here = source.at(position(at + i));
      if (at + i + per_batch < end) {
        prefetch(source.at(position(at + i + per_batch)));
      }
      if (here.gradient != nullptr) {
        std::memcpy(gradient + i * run, here.gradient, run * sizeof(float));
      }
      if (here.memory != nullptr) {
        std::memcpy(memory + i * run, here.memory, run * sizeof(float));
      }
    }
    Source batch = source;
    if (batch.gradient != nullptr) batch.gradient = gradient;
    if (batch.memory != nullptr) batch.memory = memory;
    kernels.statistics(batch, count * run, sums, keys + (at - begin) * run,
                       histogram, moments);
  }
}

struct BinRank {
  std::size_t bin = 0;
  std::uint64_t above = 0;  // entries in higher bins
  bool found = false;
};

BinRank bin_of_rank(const std::uint32_t* histogram, std::size_t bins,
                    std::uint64_t rank) {
  std::uint64_t above = 0;
  for (std::size_t b = bins; b-- > 0;) {
    if (above + histogram[b] >= rank) return {b, above, true};
    above += histogram[b];
  }
  return {};
}

}  // namespace

std::uint32_t nth_largest_key(std::uint32_t* keys, std::size_t m,
                              std::uint64_t rank) {
  constexpr std::size_t kBins = 2048;
  if (m > 4 * kBins) {
    std::uint32_t base = keys[0];
    std::uint32_t high = keys[0];
    for (std::size_t i = 1; i < m; ++i) {
      base = std::min(base, keys[i]);
      high = std::max(high, keys[i]);
    }
    unsigned shift = 0;
    while (((high - base) >> shift) >= kBins) ++shift;
    std::uint32_t histogram[kBins] = {};
    for (std::size_t i = 0; i < m; ++i) ++histogram[(keys[i] - base) >> shift];
    const BinRank at = bin_of_rank(histogram, kBins, rank);
    std::size_t inside = 0;
    for (std::size_t i = 0; i < m; ++i) {
      const std::uint32_t key = keys[i];
      keys[inside] = key;
      inside += ((key - base) >> shift) == at.bin ? 1U : 0U;
    }
    m = inside;
    rank -= at.above;
  }
  const auto nth = static_cast<std::ptrdiff_t>(rank) - 1;
  std::nth_element(keys, keys + nth, keys + m, std::greater<>());
  return keys[nth];
}

void Selector::plan_sample(Work& work) {
  const SegmentFacts& facts = work.task->facts;
  const Sample sample(work.query, facts);
  work.first_chunk = chunks_.size();
  work.chunks = 0;
  work.answer = {};
  const std::size_t elements = sample.count;
  const bool lines = sample.kind == Sample::kLines;
  const std::size_t units = lines ? elements / kLine : elements;
  const std::size_t per_chunk = sample.kind == Sample::kScan
                                    ? scan_chunk(facts.n)
                                    : kSampleChunk / (lines ? kLine : 1);
  work.answer.sampled = elements;
  const std::size_t scale = units == 0 ? 1 : elements / units;
  for (std::size_t begin = 0; begin < units; begin += per_chunk) {
    Chunk chunk;
    chunk.work = static_cast<std::size_t>(&work - works_.data());
    chunk.begin = begin;
    chunk.end = std::min(units, begin + per_chunk);
    chunk.key_offset = begin * scale;
    chunks_.push_back(chunk);
    ++work.chunks;
  }
}

void Selector::sample() {
  for (Work& work : works_) work.asking = work.open && !work.searched;
  const auto asking = [](const Work& work) { return work.asking; };
  // A rule may answer its statistics with "select exactly", which asks anew.
  while (std::any_of(works_.begin(), works_.end(), asking)) ask_and_propose();
  for (Work& work : works_) {
    if (work.open && work.searched) search_threshold(work);
  }
}

void Selector::ask_and_propose() {
  chunks_.clear();
  std::size_t keys = 0;
  std::size_t histograms = 0;
  for (Work& work : works_) {
    if (!work.asking) continue;
    if (work.exact) {
      work.query = exact_query(work.task->facts.n, work.wanted);
    } else if (work.round > 0) {
      work.query = work.task->rule.ask(call(work));
    }
    plan_sample(work);
    work.key_offset = keys;
    const bool wants_histogram =
        work.query.histogram ||
        work.query.ranks != decltype(work.query.ranks){};
    for (std::size_t c = 0; c < work.chunks; ++c) {
      Chunk& chunk = chunks_[work.first_chunk + c];
      chunk.key_offset += keys;
      chunk.histogram = wants_histogram ? ++histograms : 0;
    }
    keys += work.answer.sampled;
  }
  // Exact selection may follow: make room for its sample now, so that a step
  // in which it does finds everything in place.
  std::size_t most_keys = 0;
  std::size_t most_chunks = 0;
  for (const Work& work : works_) {
    if (work.task->kind != SelectKind::kThreshold) continue;
    const SegmentFacts& facts = work.task->facts;
    const std::size_t sample = std::min<std::size_t>(
        facts.n,
        2 * exact_query(std::max<std::uint64_t>(facts.n, 1), facts.k).sample);
    most_keys += std::max<std::size_t>(sample, work.answer.sampled);
    most_chunks += std::max(sample / kSampleChunk + 1, work.chunks);
  }
  keys_.grow(std::max(keys, most_keys) + kSlack);
  sorting_.grow(std::max(keys, most_keys) + kSlack);
  histograms_.grow(std::max(histograms, most_chunks) * kHistogramBins);
  chunks_.reserve(most_chunks);
  pool_.run(chunks_.size(), [&](std::size_t c) { sample_chunk(chunks_[c]); });
  pool_.run(works_.size(), [&](std::size_t w) {
    Work& work = works_[w];
    if (!work.asking) return;
    work.asking = false;
    propose(work, finish_sample(work));
  });
}

void Selector::propose(Work& work, const std::uint32_t* histogram) {
  if (work.exact) {
    work.bracket = exact_bracket(work.query, work.answer);
    return;
  }
  TailSums room[kHistogramBins + 1];
  if (work.query.histogram && histogram != nullptr) {
    work.answer.tails = sum_tails(histogram, room);
  }
  work.bracket = work.task->rule.propose(call(work), work.answer);
  work.answer.tails = {};
  if (!work.bracket.exact) return;
  select_exactly(work, work.task->facts.k);
  work.asking = true;
}

void Selector::sample_chunk(Chunk& chunk) {
  const Work& work = works_[chunk.work];
  const SegmentFacts& facts = work.task->facts;
  std::uint32_t* keys = keys_.data() + chunk.key_offset;
  std::uint32_t* histogram = nullptr;
  if (chunk.histogram > 0) {
    histogram = histograms_.data() + (chunk.histogram - 1) * kHistogramBins;
    std::memset(histogram, 0, kHistogramBins * sizeof(std::uint32_t));
  }
  const Sample sample(work.query, facts);
  if (sample.kind == Sample::kScan) {
    kernels_.statistics(work.source.at(chunk.begin), chunk.end - chunk.begin,
                        work.query.sums, keys, histogram, chunk.moments);
    return;
  }
  const auto run = [&](std::size_t length, const auto& position) {
    sample_runs(kernels_, work.source, work.query.sums, length, chunk.begin,
                chunk.end, position, keys, histogram, chunk.moments);
  };
  if (sample.kind == Sample::kStrided) {
    run(1, [&](std::size_t j) { return sample.at(j); });
  } else {
    run(kLine, [&](std::size_t j) { return sample.line(j); });
  }
}

const std::uint32_t* Selector::finish_sample(Work& work) {
  if (work.chunks == 0) return nullptr;
  Chunk* chunks = chunks_.data() + work.first_chunk;
  for (std::size_t c = 0; c < work.chunks; ++c) {
    add_moments(work.answer.moments, chunks[c].moments);
  }
  if (chunks[0].histogram == 0) return nullptr;
  std::uint32_t* merged =
      histograms_.data() + (chunks[0].histogram - 1) * kHistogramBins;
  for (std::size_t c = 1; c < work.chunks; ++c) {
    const std::uint32_t* part =
        histograms_.data() + (chunks[c].histogram - 1) * kHistogramBins;
    for (std::size_t b = 0; b < kHistogramBins; ++b) merged[b] += part[b];
  }
  for (std::size_t i = 0; i < work.query.ranks.size(); ++i) {
    const BinRank at =
        work.query.ranks[i] == 0
            ? BinRank{}
            : bin_of_rank(merged, kHistogramBins, work.query.ranks[i]);
    if (!at.found) continue;
    const std::uint32_t* keys = keys_.data() + work.key_offset;
    std::uint32_t* inside = sorting_.data() + work.key_offset;
    std::size_t m = 0;
    for (std::size_t j = 0; j < work.answer.sampled; ++j) {
      inside[m] = keys[j];
      m += (keys[j] >> kHistogramShift) == at.bin ? 1U : 0U;
    }
    work.answer.keys[i] =
        nth_largest_key(inside, m, work.query.ranks[i] - at.above);
  }
  return merged;
}

// Radix search on the key, 13 + 13 + 5 bits from the top. It reads everything
// three times, so it is only for what no bracket could hold.
void Selector::search_threshold(Work& work) {
  constexpr unsigned kShifts[] = {18, 5, 0};
  constexpr std::size_t kBatch = 4096;
  const std::size_t n = work.task->facts.n;
  const std::size_t chunk = scan_chunk(n);
  const std::size_t chunks = (n + chunk - 1) / chunk;
  histograms_.grow(chunks * kHistogramBins);
  partial_.resize(chunks);

  std::uint64_t rank = work.wanted;
  std::uint32_t prefix = 0;
  unsigned previous = 31;
  for (const unsigned shift : kShifts) {
    const std::uint32_t mask = (1U << (previous - shift)) - 1;
    pool_.run(chunks, [&](std::size_t c) {
      std::uint32_t* histogram = histograms_.data() + c * kHistogramBins;
      std::memset(histogram, 0, kHistogramBins * sizeof(std::uint32_t));
      partial_[c] = {};
      alignas(64) std::uint32_t keys[kBatch];
      const std::size_t end = std::min(n, (c + 1) * chunk);
      for (std::size_t at = c * chunk; at < end; at += kBatch) {
        const std::size_t len = std::min(kBatch, end - at);
        kernels_.statistics(work.source.at(at), len, false, keys, nullptr,
                            partial_[c]);
        for (std::size_t i = 0; i < len; ++i) {
          if ((keys[i] >> previous) != prefix) continue;
          ++histogram[(keys[i] >> shift) & mask];
        }
      }
    });
    std::uint32_t* merged = histograms_.data();
    Moments all = partial_[0];
    for (std::size_t c = 1; c < chunks; ++c) {
      const std::uint32_t* part = merged + c * kHistogramBins;
      for (std::size_t b = 0; b < kHistogramBins; ++b) merged[b] += part[b];
      add_moments(all, partial_[c]);
    }
    if (prefix == 0) {
      // Non-finite elements came out of the statistics as zeros.
      merged[0] -= static_cast<std::uint32_t>(all.nonfinite);
      if (shift == kShifts[0]) {
        work.wanted = rank = std::min(rank, all.count);
      }
    }
    if (rank == 0) break;
    const BinRank at = bin_of_rank(merged, kHistogramBins, rank);
    rank -= at.above;
    prefix =
        (prefix << (previous - shift)) | static_cast<std::uint32_t>(at.bin);
    previous = shift;
  }
  if (work.wanted == 0) {
    work.bracket = {kInfKey, kInfKey};
  } else {
    work.bracket = {prefix, prefix + 1, true, false};
  }
}

void Selector::measure_lost() {
  constexpr std::size_t kBatch = 4096;
  for (Work& work : works_) {
    if (work.task->memory != nullptr || work.task->facts.n == 0) continue;
    const std::size_t n = work.task->facts.n;
    const std::size_t chunk = scan_chunk(n);
    const std::size_t chunks = (n + chunk - 1) / chunk;
    partial_.assign(chunks, {});
    pool_.run(chunks, [&](std::size_t c) {
      alignas(64) std::uint32_t keys[kBatch];
      const std::size_t end = std::min(n, (c + 1) * chunk);
      for (std::size_t at = c * chunk; at < end; at += kBatch) {
        kernels_.statistics(work.source.at(at), std::min(kBatch, end - at),
                            true, keys, nullptr, partial_[c]);
      }
    });
    for (const Moments& part : partial_) work.lost += part.sum_abs;
  }
}

}  // namespace sluice::cpu
