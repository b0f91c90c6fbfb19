#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// 64 bits of these bytes and of what came before them. Not against an attacker.
std::uint64_t content_hash(std::span<const std::byte> bytes,
                           std::uint64_t before = 0);

// Prepared clips: 16-bit samples at kSpeechRate. Thread-safe.
class ClipStore {
 public:
  virtual ~ClipStore() = default;
  ClipStore(const ClipStore&) = delete;
  ClipStore& operator=(const ClipStore&) = delete;

  virtual std::size_t size() const = 0;
  virtual std::size_t samples(std::size_t clip) const = 0;
  // Throws std::runtime_error if they are not what was stored.
  virtual void read(std::size_t clip, std::vector<std::int16_t>& out) const = 0;

 protected:
  ClipStore() = default;
};

using Clips = std::vector<std::vector<std::int16_t>>;

std::unique_ptr<ClipStore> keep_in_memory(Clips clips);

// A file of clips. Little endian: "SLUICEAU", version, 0, key, number of clips;
// per clip its samples and their checksum; a checksum of all that; the samples.
// It appears whole or not at all, whoever else writes it at the same time.
void write_clips(const std::string& path, std::uint64_t key,
                 const Clips& clips);

// Opens such a file; samples stay on disk, and are checked whenever they are
// read. Throws std::runtime_error if it is cut, damaged, of another version or
// another key, or is no file.
std::unique_ptr<ClipStore> open_clips(const std::string& path,
                                      std::uint64_t key);

}  // namespace sluice
