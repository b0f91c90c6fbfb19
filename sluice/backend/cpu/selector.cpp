#include "sluice/backend/cpu/selector.h"

#include <algorithm>

#include "sluice/backend/judge.h"
#include "sluice/core/key.h"

namespace sluice::cpu {
namespace {

// Below this a segment is not worth splitting between threads.
constexpr std::size_t kMinPiece = 1U << 16;
// From this share of hits on, a branch per four vectors costs more than it
// saves (25M elements, AMD EPYC of Zen 4, 2026-11).
constexpr double kManyHits = 0.003;
// Scattered writes to prefetch ahead.
constexpr std::size_t kAhead = 24;
// Ties that are looked up one by one rather than by a walk over all candidates.
constexpr std::size_t kFewTies = 64;

}  // namespace

void Selector::plan_pieces(Work& work) {
  const SegmentTask& task = *work.task;
  const bool rows = work.by_rows;
  const SelectKind kind =
      task.kind == SelectKind::kTiles ? SelectKind::kTiles : SelectKind::kRows;
  const std::size_t units = rows ? row_units(task, kind) : task.facts.n;
  std::size_t parts = pool_.size() == 1 ? 1 : 4 * pool_.size();
  parts = std::clamp<std::size_t>(task.facts.n / kMinPiece, 1, parts);
  parts = std::min(parts, std::max<std::size_t>(units, 1));
  work.first_piece = pieces_.size();
  work.pieces = parts;
  for (std::size_t p = 0; p < parts; ++p) {
    Piece piece;
    piece.work = static_cast<std::size_t>(&work - works_.data());
    piece.begin = units / parts * p + std::min(p, units % parts);
    piece.end = units / parts * (p + 1) + std::min(p + 1, units % parts);
    piece.room = rows ? (piece.end - piece.begin) * unit_capacity(task, kind)
                      : std::min(piece.end - piece.begin, work.capacity);
    pieces_.push_back(piece);
  }
}

void Selector::plan(const SelectPass& pass) {
  works_.assign(pass.segments.size(), {});
  pieces_.clear();
  saved_.resize(std::max(saved_.size(), works_.size()));
  for (std::size_t w = 0; w < works_.size(); ++w) {
    Work& work = works_[w];
    const SegmentTask& task = pass.segments[w];
    work.task = &task;
    work.state = pass.states + w;
    work.source = {task.gradient, task.memory, pass.beta, pass.gamma,
                   task.kind == SelectKind::kThreshold ? task.rule.sign : 0};
    // Twice what may be sent: as many ties again may stand at the cut.
    work.capacity = std::min<std::size_t>(
        task.facts.n,
        std::max<std::size_t>(2 * task.capacity, 6 * task.facts.k) + 4096);
    work.by_rows =
        task.kind == SelectKind::kRows || task.kind == SelectKind::kTiles;
    work.open = task.kind == SelectKind::kThreshold && task.facts.n > 0;
    if (work.open) work.query = task.rule.ask(call(work));
    if (work.open && work.query.rows) {
      work.by_rows = true;
      work.open = false;
    }
    work.streaming = task.facts.n > 0;
    plan_pieces(work);
  }
  std::size_t total = 0;
  for (Piece& piece : pieces_) {
    piece.offset = total;
    total += piece.room + kBlockRoom + kSlack;
  }
  indices_.grow(total);
  values_.grow(total);
  bracket_indices_.grow(total);
  bracket_values_.grow(total);
  cut_keys_.grow(total);
  if (row_scratch_.size() < pieces_.size()) {
    row_scratch_ = std::vector<RowScratch>(pieces_.size());
  }
}

void Selector::run(const SelectPass& pass) {
  plan(pass);
  draw_indices();
  const auto any = [&](auto&& test) {
    return std::any_of(works_.begin(), works_.end(), test);
  };
  measure_lost();
  while (any([](const Work& work) { return work.streaming; })) {
    sample();
    stream();
    for (Work& work : works_) {
      if (work.streaming) judge(work);
    }
  }
  pool_.run(works_.size(), [&](std::size_t w) { resolve(works_[w]); });
  finish(pass);
}

void Selector::stream() {
  // What has a sign that takes no part counts as a zero, too.
  for (Work& work : works_) work.bracket = without_zeros(work.bracket);
  pool_.run(pieces_.size(), [&](std::size_t p) {
    if (works_[pieces_[p].work].streaming) stream_piece(pieces_[p]);
  });
}

void Selector::stream_piece(Piece& piece) {
  Work& work = works_[piece.work];
  const SegmentTask& task = *work.task;
  if (work.by_rows) {
    const SelectKind kind = task.kind == SelectKind::kTiles ? SelectKind::kTiles
                                                            : SelectKind::kRows;
    RowScratch& scratch =
        row_scratch_[static_cast<std::size_t>(&piece - pieces_.data())];
    piece.got = select_rows(kernels_, task, kind, work.source, piece.begin,
                            piece.end, scratch, candidates(piece));
    return;
  }
  if (task.kind == SelectKind::kListed) {
    stream_listed(work, piece);
    return;
  }
  StreamArgs args;
  args.source = work.source.at(piece.begin);
  args.n = piece.end - piece.begin;
  args.base = task.base + static_cast<std::uint32_t>(piece.begin);
  args.lo = work.bracket.lo;
  args.hi = work.bracket.hi;
  args.tie_cap = tie_cap(task, work.bracket, work.wanted);
  args.many = static_cast<double>(task.facts.k) >
              kManyHits * static_cast<double>(task.facts.n);
  args.out = candidates(piece);
  args.out.room += kBlockRoom;
  piece.got = kernels_.stream(args);
  piece.bracketed =
      kernels_.collect(args.out, piece.got.recorded, args.lo, args.hi,
                       bracket_indices_.data() + piece.offset,
                       bracket_values_.data() + piece.offset);
}

// Adds up what the pieces found.
Counts Selector::count(Work& work) {
  std::uint64_t nonfinite = 0;
  work.recorded = work.high = 0;
  for (std::size_t p = 0; p < work.pieces; ++p) {
    const Piece& piece = pieces_[work.first_piece + p];
    work.recorded += piece.got.recorded;
    work.high += piece.got.hi;
    nonfinite += piece.got.nonfinite;
  }
  if (work.round == 0) work.nonfinite = nonfinite;
  const SegmentTask& task = *work.task;
  const Counts counts = count_candidates(
      task, work.bracket, work.wanted, {work.recorded, work.high},
      work.open ? work.capacity : task.facts.n);
  work.candidates = counts.lo;
  return counts;
}

void Selector::judge(Work& work) {
  const Counts counts = count(work);
  if (!work.open) {
    work.streaming = false;
    work.verdict = {Verdict::kTake, work.candidates};
    return;
  }
  if (work.exact) {
    ++work.round;
    work.verdict = judge_exact(counts, work.wanted, work.searched);
  } else {
    const Verdict verdict = work.task->rule.judge(call(work), counts);
    ++work.round;
    work.verdict = bounded(verdict, counts, *work.task, work.round);
  }
  if (work.verdict.kind == Verdict::kTake) {
    work.open = work.streaming = false;
    return;
  }
  restore(work);
  if (work.exact) {
    work.searched = true;
  } else if (work.verdict.kind == Verdict::kExact) {
    select_exactly(work, work.verdict.count);
  }
}

void Selector::select_exactly(Work& work, std::uint64_t count) {
  work.exact = true;
  work.wanted = std::min<std::uint64_t>(count, work.task->capacity);
}

// Puts back what the failed bracket took, after which the memory holds acc.
void Selector::restore(Work& work) {
  if (work.task->memory == nullptr) return;
  for (std::size_t p = 0; p < work.pieces; ++p) {
    const Piece& piece = pieces_[work.first_piece + p];
    const Candidates list = candidates(piece);
    for (std::size_t i = 0; i < piece.got.recorded; ++i) {
      if (magnitude_key(list.values[i]) < work.bracket.hi) continue;
      work.task->memory[list.indices[i] - work.task->base] = list.values[i];
    }
  }
  if (work.nonfinite > 0 && work.source.gradient != nullptr) {
    hide_nonfinite(work.source, 0, work.task->facts.n,
                   saved_[static_cast<std::size_t>(&work - works_.data())]);
  }
  work.source.gradient = nullptr;
}

// Finds the key that exactly verdict.count candidates reach, and how many of
// those at it are taken.
void Selector::resolve(Work& work) {
  const std::uint64_t count = work.verdict.count;
  work.selected = count;
  Piece* pieces = pieces_.data() + work.first_piece;
  for (std::size_t p = 0; p < work.pieces; ++p) {
    pieces[p].take = pieces[p].got.recorded;
  }
  if (count == work.recorded) {
    work.cut = 0;
    return;  // rows, lists, and thresholds that are taken as they are
  }
  if (count == 0) {
    work.cut = kInfKey;
    work.spilled = work.high > 0;
    for (std::size_t p = 0; p < work.pieces; ++p) pieces[p].take = 0;
    return;
  }
  // Usually the cut lies in the bracket. Where more than `count` reach hi, all
  // candidates are searched instead.
  const bool inside = count >= work.high;
  work.spilled = !inside;
  const std::uint64_t rank = inside ? count - work.high : count;
  const auto values_of = [&](const Piece& piece) {
    return inside ? bracket_values_.data() + piece.offset
                  : values_.data() + piece.offset;
  };
  const auto size_of = [&](const Piece& piece) {
    return inside ? piece.bracketed : piece.got.recorded;
  };
  if (rank == 0) {
    work.cut = work.bracket.hi;
  } else if (inside && work.bracket.ties) {
    work.cut = work.bracket.lo;  // the only key there is
  } else {
    std::uint32_t* keys = cut_keys_.data() + pieces[0].offset;
    std::size_t m = 0;
    for (std::size_t p = 0; p < work.pieces; ++p) {
      const float* values = values_of(pieces[p]);
      for (std::size_t i = 0; i < size_of(pieces[p]); ++i) {
        keys[m++] = magnitude_key(values[i]);
      }
    }
    work.cut = nth_largest_key(keys, m, rank);
  }
  std::uint64_t above = 0;
  std::uint64_t reach = 0;
  for (std::size_t p = 0; p < work.pieces; ++p) {
    Piece& piece = pieces[p];
    const float* values = values_of(piece);
    const std::size_t base = inside ? piece.got.hi : 0;
    const std::size_t ge = kernels_.count_ge(values, size_of(piece), work.cut);
    const std::size_t gt =
        kernels_.count_ge(values, size_of(piece), work.cut + 1);
    piece.take = base + ge;
    piece.ties = ge - gt;
    reach += base + ge;
    above += base + gt;
  }
  if (reach == count) return;
  work.tied = true;
  std::uint64_t left = count - above;
  for (std::size_t p = 0; p < work.pieces; ++p) {
    Piece& piece = pieces[p];
    const std::uint64_t kept = std::min<std::uint64_t>(left, piece.ties);
    piece.excess = piece.ties - kept;
    piece.take -= piece.excess;
    piece.ties = kept;
    left -= kept;
  }
}

void Selector::emit(const SelectPass& pass, Piece& piece) {
  const Work& work = works_[piece.work];
  const Candidates list = candidates(piece);
  // A piece that takes none of its ties has a cut just above them; one that
  // takes all has none to drop. That leaves the one in which the quota ends.
  std::uint32_t cut = work.cut;
  if (piece.excess > 0 && piece.ties == 0) ++cut;
  if (piece.excess > 0 && piece.ties > 0) {
    if (work.spilled || piece.excess > kFewTies) {
      emit_tied(pass, piece);
      return;
    }
    drop_ties(piece);
  }
  kernels_.emit(list, piece.got.recorded, cut, pass.indices + piece.out,
                pass.values + piece.out, piece.take);
  if (work.task->memory == nullptr || work.by_rows) return;
  std::uint32_t* indices = bracket_indices_.data() + piece.offset;
  float* values = bracket_values_.data() + piece.offset;
  float* memory = work.task->memory - work.task->base;
  if (work.spilled) {
    // Cleared while streaming, but below the cut after all.
    const std::size_t kept = kernels_.collect(
        list, piece.got.recorded, work.bracket.hi, cut, indices, values);
    for (std::size_t i = 0; i < kept; ++i) memory[indices[i]] = values[i];
    return;
  }
  // Those at or above hi were cleared while streaming.
  for (std::size_t i = 0; i < piece.bracketed; ++i) {
    // The index behind the last is old or zero: any address may be prefetched.
    __builtin_prefetch(memory + indices[i + kAhead], 1);
    if (magnitude_key(values[i]) >= cut) memory[indices[i]] = 0.0F;
  }
}

// Takes the ties beyond the piece's quota out of its candidates. They are few:
// two of a quarter million floats share a key now and then.
void Selector::drop_ties(Piece& piece) {
  const Work& work = works_[piece.work];
  const Candidates list = candidates(piece);
  const std::uint32_t* indices = bracket_indices_.data() + piece.offset;
  float* values = bracket_values_.data() + piece.offset;
  std::size_t quota = piece.ties;
  for (std::size_t i = 0; i < piece.bracketed; ++i) {
    if (magnitude_key(values[i]) != work.cut) continue;
    if (quota > 0) {
      --quota;
      continue;
    }
    values[i] = 0;  // below the cut
    const std::uint32_t* at = std::lower_bound(
        list.indices, list.indices + piece.got.recorded, indices[i]);
    list.values[at - list.indices] = 0;
  }
}

// One by one: many ties, or ties above hi.
void Selector::emit_tied(const SelectPass& pass, Piece& piece) {
  const Work& work = works_[piece.work];
  const Candidates list = candidates(piece);
  std::size_t quota = piece.ties;
  std::size_t o = piece.out;
  for (std::size_t i = 0; i < piece.got.recorded; ++i) {
    const std::uint32_t key = magnitude_key(list.values[i]);
    bool take = key > work.cut;
    if (key == work.cut && quota > 0) {
      take = true;
      --quota;
    }
    if (take) {
      pass.indices[o] = list.indices[i];
      pass.values[o++] = list.values[i];
    }
    if (work.task->memory != nullptr) {
      work.task->memory[list.indices[i] - work.task->base] =
          take ? 0.0F : list.values[i];
    }
  }
}

void Selector::finish(const SelectPass& pass) {
  std::size_t out = 0;
  for (std::size_t w = 0; w < works_.size(); ++w) {
    Work& work = works_[w];
    pass.starts[w] = out;
    for (std::size_t p = 0; p < work.pieces; ++p) {
      Piece& piece = pieces_[work.first_piece + p];
      piece.out = out;
      out += piece.take;
    }
  }
  pass.starts[works_.size()] = out;
  pool_.run(pieces_.size(), [&](std::size_t p) { emit(pass, pieces_[p]); });
  for (std::size_t w = 0; w < works_.size(); ++w) {
    Work& work = works_[w];
    show_nonfinite(work.source, saved_[w]);
    const std::size_t first = pass.starts[w];
    const std::size_t last = pass.starts[w + 1];
    SegmentReport report;
    report.selected = last - first;
    report.budget = work.task->facts.k;
    report.nonfinite = work.nonfinite;
    if (work.task->kept_out != nullptr) {
      report.nonfinite += *work.task->kept_out;
    }
    report.candidates = work.candidates;
    report.rounds = work.round;
    report.exact = work.exact ? 1 : 0;
    if (work.task->memory == nullptr) {
      report.lost = work.lost;
      for (std::size_t i = first; i < last; ++i) {
        report.lost -= static_cast<double>(std::abs(pass.values[i]));
      }
      // The difference of two sums; below their rounding nothing was lost.
      if (report.lost < 1e-12 * work.lost) report.lost = 0;
    }
    pass.reports[w] = report;
    if (work.task->kind != SelectKind::kThreshold || work.task->facts.n == 0) {
      continue;
    }
    Outcome outcome;
    outcome.selected = report.selected;
    outcome.by_rows = work.by_rows;
    outcome.rounds = report.rounds;
    outcome.exact = work.exact;
    outcome.tied = work.tied;
    if (!work.by_rows && report.selected > 0) {
      outcome.threshold_key = std::max(work.cut, work.bracket.lo);
    }
    work.task->rule.observe(call(work), outcome);
  }
}

}  // namespace sluice::cpu
