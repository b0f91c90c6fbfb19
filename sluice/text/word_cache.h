#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// What words were made into, remembered: natural text says the same words again
// and again, and a lookup takes a tenth of the work.
//
// Holds at most kMostWords; further ones are not kept. Not thread-safe.
class WordCache {
 public:
  WordCache() : slots_(kSlots) {}

  // Not part of any file: it may change.
  static std::uint64_t hash(std::string_view word) {
    constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;
    std::uint64_t h = word.size() * kFactor;
    const char* p = word.data();
    std::size_t left = word.size();
    for (; left >= 8; left -= 8, p += 8) {
      std::uint64_t part = 0;
      std::memcpy(&part, p, 8);
      h = (h ^ part) * kFactor;
      h ^= h >> 29;
    }
    std::uint64_t part = 0;
    for (std::size_t i = 0; i < left; ++i) {
      part = part << 8 | static_cast<unsigned char>(p[i]);
    }
    h = (h ^ part) * kFactor;
    return h ^ h >> 32;
  }

  struct Found {
    bool known = false;
    std::span<const std::int32_t> ids{};
  };

  // Good until the next insert.
  Found find(std::string_view word, std::uint64_t h) const {
    for (std::size_t i = h % kSlots;; i = (i + 1) % kSlots) {
      const Slot& slot = slots_[i];
      if (!slot.used) return {};
      if (slot.hash == h && slot.length == word.size() &&
          std::memcmp(letters_.data() + slot.letters, word.data(),
                      word.size()) == 0) {
        return {true, std::span(ids_).subspan(slot.ids, slot.count)};
      }
    }
  }

  // `word` must not be there yet.
  void insert(std::string_view word, std::uint64_t h,
              std::span<const std::int32_t> ids) {
    if (count_ == kMostWords || word.size() > kLongest) return;
    std::size_t i = h % kSlots;
    while (slots_[i].used) i = (i + 1) % kSlots;
    slots_[i] = {h,
                 static_cast<std::uint32_t>(letters_.size()),
                 static_cast<std::uint32_t>(ids_.size()),
                 static_cast<std::uint16_t>(word.size()),
                 static_cast<std::uint16_t>(ids.size()),
                 true};
    letters_.append(word);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ++count_;
  }

 private:
  // Half full at most, so that a search ends soon.
  static constexpr std::size_t kSlots = std::size_t{1} << 17;
  static constexpr std::size_t kMostWords = kSlots / 2;
  // Longer ones are hardly said twice. Bounds all offsets, too: 2^16 words of
  // 256 letters are 2^24.
  static constexpr std::size_t kLongest = 256;

  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t letters = 0;
    std::uint32_t ids = 0;
    std::uint16_t length = 0;
    std::uint16_t count = 0;
    bool used = false;
  };

  std::vector<Slot> slots_;
  std::string letters_;
  std::vector<std::int32_t> ids_;
  std::size_t count_ = 0;
};

}  // namespace sluice
