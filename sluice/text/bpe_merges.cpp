#include "sluice/text/bpe_merges.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"
#include "sluice/core/input_file.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// A pair in a list of tokens that may have changed since.
struct Candidate {
  std::int32_t rank;
  std::int32_t at;
  std::int32_t left;
  std::int32_t right;
  friend bool operator>(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

constexpr std::int32_t kNone = -1;

// Tokens that know their neighbours; a merged one's right half is gone.
struct Link {
  std::int32_t token;
  std::int32_t before;
  std::int32_t after;
};

std::vector<Link> linked(const std::vector<std::int32_t>& tokens) {
  std::vector<Link> links;
  const auto n = static_cast<std::int32_t>(tokens.size());
  links.reserve(tokens.size());
  for (std::int32_t i = 0; i < n; ++i) {
    links.push_back({tokens[static_cast<std::size_t>(i)], i - 1,
                     i + 1 < n ? i + 1 : kNone});
  }
  return links;
}

}  // namespace

std::size_t BpeMerges::PairHash::operator()(std::uint64_t key) const {
  return mix64(key);
}

void BpeMerges::add(std::int32_t left, std::int32_t right,
                    std::int32_t result) {
  merges_.try_emplace(pair_key(left, right),
                      Merge{static_cast<std::int32_t>(size_++), result});
}

const BpeMerges::Merge* BpeMerges::find(std::int32_t left,
                                        std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeMerges::apply(std::vector<std::int32_t>& tokens) const {
  // Words are short, and there a heap costs more than it saves.
  constexpr std::size_t kShort = 48;
  if (tokens.size() <= kShort) {
    apply_short(tokens);
  } else {
    apply_long(tokens);
  }
}

void BpeMerges::apply_short(std::vector<std::int32_t>& tokens) const {
  while (tokens.size() > 1) {
    const Merge* best = nullptr;
    std::int32_t left = 0, right = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Merge* merge = find(tokens[i], tokens[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        left = tokens[i];
        right = tokens[i + 1];
      }
    }
    if (best == nullptr) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool here =
          i + 1 < tokens.size() && tokens[i] == left && tokens[i + 1] == right;
      tokens[kept++] = here ? best->result : tokens[i];
      if (here) ++i;
    }
    tokens.resize(kept);
  }
}

void BpeMerges::apply_long(std::vector<std::int32_t>& tokens) const {
  std::vector<Link> links = linked(tokens);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto link = [&](std::int32_t i) -> Link& {
    return links[static_cast<std::size_t>(i)];
  };
  const auto offer = [&](std::int32_t at) {
    if (at == kNone || link(at).after == kNone) return;
    const std::int32_t left = link(at).token;
    const std::int32_t right = link(link(at).after).token;
    const Merge* merge = find(left, right);
    if (merge != nullptr) queue.push({merge->rank, at, left, right});
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(links.size()); ++i) {
    offer(i);
  }
  std::vector<std::int32_t> merged;
  while (!queue.empty()) {
    // All of one rank first: what they make may rank lower in a list of merges
    // that no training made.
    const std::int32_t rank = queue.top().rank;
    merged.clear();
    while (!queue.empty() && queue.top().rank == rank) {
      const Candidate c = queue.top();
      queue.pop();
      Link& left = link(c.at);
      if (left.token != c.left || left.after == kNone ||
          link(left.after).token != c.right) {
        continue;
      }
      Link& right = link(left.after);
      left.token = find(c.left, c.right)->result;
      left.after = right.after;
      right.token = kNone;
      if (left.after != kNone) link(left.after).before = c.at;
      merged.push_back(c.at);
    }
    for (const std::int32_t at : merged) {
      if (link(at).before != kNone) offer(link(at).before);
      offer(at);
    }
  }
  tokens.clear();
  for (std::int32_t i = 0; i != kNone; i = link(i).after) {
    tokens.push_back(link(i).token);
  }
}

BpeMerges read_merges(std::string_view owner, const std::string& path,
                      const Vocabulary& words) {
  const std::string text = read_utf8_file(owner, path, kMostText);
  BpeMerges merges;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::size_t blank = line.find(' ');
    ensure(blank != line.npos && blank > 0 && blank + 1 < line.size() &&
               line.find(' ', blank + 1) == line.npos,
           "[", owner, "] '", path, "' line ", number,
           " must hold two tokens with a blank between them, got '", line, "'");
    const std::string_view left = line.substr(0, blank);
    const std::string_view right = line.substr(blank + 1);
    const std::string both = concat(left, right);
    for (const std::string_view token : {left, right, std::string_view(both)}) {
      ensure(words.find(token).has_value(), "[", owner, "] '", path, "' line ",
             number, " needs token '", token,
             "', which vocab.json lacks; take both files of one model");
    }
    merges.add(*words.find(left), *words.find(right), *words.find(both));
  }
  return merges;
}

}  // namespace sluice
