#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

// The directory of a zip file, and its entries that are stored, not compressed,
// as torch.save writes them (zip64 included). Everything throws
// std::runtime_error without tag and path: the caller knows them.
class ZipDirectory {
 public:
  // Reads the directory at the end of `file` and checks that every entry lies
  // within the file, apart from all others, as its own header says. The bytes
  // must outlive this.
  explicit ZipDirectory(std::span<const std::byte> file);

  bool has(std::string_view name) const;
  // The bytes of an entry, whose CRC is checked; throws if it is compressed.
  std::span<const std::byte> read(std::string_view name) const;
  // The one entry that ends so, with what stands before. Throws unless there is
  // exactly one.
  std::string prefix_of(std::string_view ending) const;

 private:
  struct Entry {
    std::uint32_t crc = 0;
    bool stored = false;
    std::uint64_t header = 0;  // where its own header begins
    std::span<const std::byte> bytes;
  };
  void add(std::string name, Entry entry, std::uint64_t size);
  void check_apart() const;

  std::span<const std::byte> file_;
  std::uint64_t end_ = 0;  // where the directory begins
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace sluice
