#include "sluice/audio/clip_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "sluice/core/atomic_file.h"
#include "sluice/core/checksum.h"
#include "sluice/core/ensure.h"
#include "sluice/core/fd.h"
#include "sluice/core/input_file.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Header {
  char magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'A', 'U'};
  std::uint32_t version = 1;
  std::uint32_t reserved = 0;
  std::uint64_t key = 0;
  std::uint64_t clips = 0;
};
struct Entry {
  std::uint64_t samples = 0;
  std::uint32_t checksum = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Header) == 32 && sizeof(Entry) == 16);

constexpr std::uint64_t kMostClips = 1 << 24;

template <class T>
std::uint32_t checksum_of(std::span<const T> values) {
  Checksum sum;
  sum.add(std::as_bytes(values));
  return sum.fold();
}

std::uint32_t checksum_of_front(const Header& header,
                                std::span<const Entry> entries) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(&header, 1)));
  sum.add(std::as_bytes(entries));
  return sum.fold();
}

class MemoryClips final : public ClipStore {
 public:
  explicit MemoryClips(Clips clips) : clips_(std::move(clips)) {}

  std::size_t size() const override { return clips_.size(); }
  std::size_t samples(std::size_t clip) const override {
    return clips_.at(clip).size();
  }
  void read(std::size_t clip, std::vector<std::int16_t>& out) const override {
    out = clips_.at(clip);
  }

 private:
  Clips clips_;
};

class FileClips final : public ClipStore {
 public:
  FileClips(const std::string& path, std::uint64_t key)
      : path_(path),
        fd_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct stat status = {};
    check(fd_.get() >= 0 && fstat(fd_.get(), &status) == 0 &&
              S_ISREG(status.st_mode),
          "a file that can be read");
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    Header header;
    fetch(0, std::as_writable_bytes(std::span(&header, 1)));
    check(std::memcmp(header.magic, Header().magic, 8) == 0 &&
              header.version == Header().version && header.reserved == 0,
          "prepared audio of this version");
    check(header.key == key, "of these clips");
    // Before there is memory for so many.
    check(header.clips <= kMostClips &&
              sizeof(Header) + header.clips * sizeof(Entry) + 4 <= bytes,
          "whole");
    entries_.resize(header.clips);
    fetch(sizeof(Header), std::as_writable_bytes(std::span(entries_)));
    std::uint64_t at = sizeof(Header) + header.clips * sizeof(Entry);
    std::uint32_t sum = 0;
    fetch(at, std::as_writable_bytes(std::span(&sum, 1)));
    check(sum == checksum_of_front(header, entries_), "undamaged");
    at += sizeof(sum);
    for (const Entry& entry : entries_) {
      begins_.push_back(at);
      check(entry.samples <= (bytes - at) / 2, "whole");
      at += 2 * entry.samples;
    }
    check(at == bytes, "whole");
  }

  std::size_t size() const override { return entries_.size(); }
  std::size_t samples(std::size_t clip) const override {
    return entries_.at(clip).samples;
  }
  void read(std::size_t clip, std::vector<std::int16_t>& out) const override {
    const Entry& entry = entries_.at(clip);
    out.resize(entry.samples);
    fetch(begins_[clip], std::as_writable_bytes(std::span(out)));
    check(checksum_of(std::span<const std::int16_t>(out)) == entry.checksum,
          "undamaged");
  }

 private:
  void check(bool ok, std::string_view what) const {
    ensure(ok, "[audio cache] '", path_, "' must be ", what,
           ", is not; remove it, and it is made again");
  }
  void fetch(std::uint64_t at, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t n =
          pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      check(n > 0, "whole");
      at += static_cast<std::uint64_t>(n);
      to = to.subspan(static_cast<std::size_t>(n));
    }
  }

  std::string path_;
  Fd fd_;
  std::vector<Entry> entries_;
  std::vector<std::uint64_t> begins_;
};

// Ranks of one job prepare the same file at the same time, as processes or as
// threads: each has a name of its own until it is whole.
std::string own_name(const std::string& path) {
  const auto thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  return concat(path, ".", getpid(), ".", thread);
}

}  // namespace

std::uint64_t content_hash(std::span<const std::byte> bytes,
                           std::uint64_t before) {
  std::uint64_t hash = mix64(before, bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i,
                std::min<std::size_t>(8, bytes.size() - i));
    hash = mix64(hash ^ word);
  }
  return hash;
}

std::unique_ptr<ClipStore> keep_in_memory(Clips clips) {
  return std::make_unique<MemoryClips>(std::move(clips));
}

void write_clips(const std::string& path, std::uint64_t key,
                 const Clips& clips) {
  Header header;
  header.key = key;
  header.clips = clips.size();
  std::vector<Entry> entries;
  for (const auto& clip : clips) {
    entries.push_back(
        {clip.size(), checksum_of(std::span<const std::int16_t>(clip)), 0});
  }
  const std::uint32_t sum = checksum_of_front(header, entries);
  const std::string own = own_name(path);
  AtomicFile file(own);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(std::as_bytes(std::span(entries)));
  file.write(std::as_bytes(std::span(&sum, 1)));
  for (const auto& clip : clips) file.write(std::as_bytes(std::span(clip)));
  file.commit();
  std::filesystem::rename(own, path);
}

std::unique_ptr<ClipStore> open_clips(const std::string& path,
                                      std::uint64_t key) {
  return std::make_unique<FileClips>(path, key);
}

}  // namespace sluice
