#include "sluice/weights/zip.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "sluice/core/ensure.h"
#include "sluice/weights/crc32.h"

namespace sluice {
namespace {

using ZipBytes = std::span<const std::byte>;

constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kCentral = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kLocatorSize = 20;
constexpr std::size_t kMostEntries = 1'000'000;

// Numbers of a piece of a file, none beyond its end.
class Fields {
 public:
  Fields(ZipBytes bytes, std::uint64_t from, std::uint64_t size,
         const char* what) {
    ensure(from <= bytes.size() && size <= bytes.size() - from, what,
           " must lie within the file of ", bytes.size(),
           " bytes, would begin at ", from, "; is it cut short?");
    bytes_ = bytes.subspan(from, size);
  }
  template <class T>
  T at(std::size_t offset) const {
    T value = 0;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  ZipBytes bytes_;
};

struct Directory {
  std::uint64_t entries = 0, size = 0, offset = 0;
};

std::size_t find_end(ZipBytes file) {
  ensure(file.size() >= kEndSize, "a zip file must have at least ", kEndSize,
         " bytes, has ", file.size());
  const std::size_t last = file.size() - kEndSize;
  const std::size_t most = std::min<std::size_t>(last, 0xffff);
  for (std::size_t comment = 0; comment <= most; ++comment) {
    const Fields end(file, last - comment, kEndSize, "the end record");
    if (end.at<std::uint32_t>(0) == kEnd &&
        end.at<std::uint16_t>(20) == comment) {
      return last - comment;
    }
  }
  ensure(false, "no directory at its end; is it cut short?");
  return 0;
}

Directory find_directory(ZipBytes file) {
  const std::size_t at = find_end(file);
  const Fields end(file, at, kEndSize, "the end record");
  Directory found = {end.at<std::uint16_t>(10), end.at<std::uint32_t>(12),
                     end.at<std::uint32_t>(16)};
  if (at < kLocatorSize) return found;
  const Fields locator(file, at - kLocatorSize, kLocatorSize, "the locator");
  if (locator.at<std::uint32_t>(0) != kLocator64) return found;
  const Fields large(file, locator.at<std::uint64_t>(8), 56,
                     "the zip64 end record");
  ensure(large.at<std::uint32_t>(0) == kEnd64,
         "the zip64 end record must be where its locator says");
  return {large.at<std::uint64_t>(32), large.at<std::uint64_t>(40),
          large.at<std::uint64_t>(48)};
}

// Sizes that did not fit into 32 bits stand in an extra field, in this order.
struct Sizes {
  std::uint64_t size, packed, header;
};

void read_zip64(const Fields& extra, Sizes& sizes) {
  std::size_t at = 0;
  while (at + 4 <= extra.size()) {
    const std::size_t length = extra.at<std::uint16_t>(at + 2);
    const std::size_t end = at + 4 + length;
    ensure(end <= extra.size(), "an extra field must lie within its entry");
    if (extra.at<std::uint16_t>(at) == 1) {
      at += 4;
      for (std::uint64_t* value : {&sizes.size, &sizes.packed, &sizes.header}) {
        if (*value != 0xffffffff) continue;
        ensure(at + 8 <= end, "a zip64 field must have 8 bytes per size");
        *value = extra.at<std::uint64_t>(at);
        at += 8;
      }
    }
    at = end;
  }
}

}  // namespace

ZipDirectory::ZipDirectory(std::span<const std::byte> file) : file_(file) {
  const Directory directory = find_directory(file);
  ensure(directory.entries <= kMostEntries, "it must have at most ",
         kMostEntries, " entries, says ", directory.entries);
  const Fields all(file, directory.offset, directory.size, "the directory");
  end_ = directory.offset;
  std::uint64_t at = end_;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const Fields head(file, at, 46, "an entry of the directory");
    ensure(head.at<std::uint32_t>(0) == kCentral, "entry ", i,
           " of the directory must begin with PK\\1\\2");
    const std::size_t name_size = head.at<std::uint16_t>(28);
    const std::size_t extra_size = head.at<std::uint16_t>(30);
    const Fields name(file, at + 46, name_size, "the name of an entry");
    const Fields extra(file, at + 46 + name_size, extra_size, "an extra field");
    Sizes sizes = {head.at<std::uint32_t>(24), head.at<std::uint32_t>(20),
                   head.at<std::uint32_t>(42)};
    read_zip64(extra, sizes);
    ensure((head.at<std::uint16_t>(8) & 1U) == 0, "entry '", name.text(),
           "' must not be encrypted");
    const bool stored =
        head.at<std::uint16_t>(10) == 0 && sizes.size == sizes.packed;
    add(name.text(), {head.at<std::uint32_t>(16), stored, sizes.header, {}},
        sizes.packed);
    at += 46 + name_size + extra_size + head.at<std::uint16_t>(32);
  }
  ensure(at == end_ + directory.size, "the directory must have ",
         directory.size, " bytes, has ", at - end_);
  check_apart();
}

void ZipDirectory::add(std::string name, Entry entry, std::uint64_t size) {
  const ZipBytes before = file_.first(end_);
  const Fields head(before, entry.header, 30, "the header of an entry");
  const std::uint64_t name_size = head.at<std::uint16_t>(26);
  ensure(
      head.at<std::uint32_t>(0) == kLocal &&
          Fields(before, entry.header + 30, name_size, "a name").text() == name,
      "entry '", name, "' must have its own header at ", entry.header);
  const std::uint64_t from =
      entry.header + 30 + name_size + head.at<std::uint16_t>(28);
  const Fields data(before, from, size, "the data of an entry");
  entry.bytes = before.subspan(from, size);
  const bool is_new = entries_.emplace(name, entry).second;
  ensure(is_new, "entry '", name, "' must be there once, is there twice");
}

// Entries that share bytes make a small file say that it is a large one.
void ZipDirectory::check_apart() const {
  struct Range {
    std::uint64_t from, to;
    std::string_view name;
  };
  std::vector<Range> ranges;
  for (const auto& [name, entry] : entries_) {
    const auto to = static_cast<std::uint64_t>(
        entry.bytes.data() + entry.bytes.size() - file_.data());
    ranges.push_back({entry.header, to, name});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](auto& a, auto& b) { return a.from < b.from; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    ensure(ranges[i - 1].to <= ranges[i].from, "entries '", ranges[i - 1].name,
           "' and '", ranges[i].name, "' must not overlap");
  }
}

bool ZipDirectory::has(std::string_view name) const {
  return entries_.find(name) != entries_.end();
}

std::span<const std::byte> ZipDirectory::read(std::string_view name) const {
  const auto found = entries_.find(name);
  ensure(found != entries_.end(), "entry '", name, "' must be there, is not");
  ensure(found->second.stored, "entry '", name,
         "' must be stored as it is, is compressed; torch.save stores them so");
  const std::uint32_t crc = crc32(found->second.bytes);
  ensure(crc == found->second.crc, "entry '", name,
         "' is damaged: its CRC must be ", found->second.crc, ", is ", crc);
  return found->second.bytes;
}

std::string ZipDirectory::prefix_of(std::string_view ending) const {
  std::vector<std::string> found;
  for (const auto& [name, entry] : entries_) {
    if (!name.ends_with(ending)) continue;
    const std::string prefix = name.substr(0, name.size() - ending.size());
    // A whole name, or one in the archive's folder.
    if (prefix.empty() || prefix.find('/') == prefix.size() - 1) {
      found.push_back(prefix);
    }
  }
  ensure(found.size() == 1, "there must be one entry '", ending,
         "', there are ", found.size());
  return found.front();
}

}  // namespace sluice
