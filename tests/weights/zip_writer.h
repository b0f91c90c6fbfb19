#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/weights/crc32.h"

// Zip files of stored entries, as torch.save writes them, for tests and
// fuzzers; with members to write wrong ones.

namespace sluice::testing {

class ZipWriter {
 public:
  bool zip64 = false;        // with the records of large files
  std::uint16_t method = 0;  // as the directory says
  std::uint16_t flags = 0;
  std::uint32_t crc_flip = 0;
  std::string comment;

  ZipWriter& add(const std::string& name, const std::string& data) {
    const std::uint32_t crc = crc32(std::as_bytes(std::span(data))) ^ crc_flip;
    const std::size_t at = file_.size();
    number(file_, 0x04034b50, 4);
    file_.append(10, '\0');
    number(file_, crc, 4);
    number(file_, data.size(), 4);
    number(file_, data.size(), 4);
    number(file_, name.size(), 2);
    number(file_, 0, 2);
    file_ += name;
    file_ += data;
    entry(name, crc, data.size(), at);
    return *this;
  }

  // A row of the directory alone, for what is somewhere already.
  void entry(const std::string& name, std::uint32_t crc, std::uint64_t size,
             std::uint64_t at) {
    ++entries_;
    number(directory_, 0x02014b50, 4);
    number(directory_, 0, 4);
    number(directory_, flags, 2);
    number(directory_, method, 2);
    number(directory_, 0, 4);
    number(directory_, crc, 4);
    number(directory_, zip64 ? 0xffffffff : size, 4);
    number(directory_, zip64 ? 0xffffffff : size, 4);
    number(directory_, name.size(), 2);
    number(directory_, zip64 ? 28 : 0, 2);
    directory_.append(10, '\0');
    number(directory_, zip64 ? 0xffffffff : at, 4);
    directory_ += name;
    if (!zip64) return;
    number(directory_, 1, 2);
    number(directory_, 24, 2);
    for (const std::uint64_t value : {size, size, at}) {
      number(directory_, value, 8);
    }
  }

  std::string str() const {
    std::string out = file_ + directory_;
    const std::size_t large = out.size();
    if (zip64) {
      number(out, 0x06064b50, 4);
      number(out, 44, 8);
      out.append(12, '\0');
      for (const std::uint64_t value :
           {std::uint64_t{entries_}, std::uint64_t{entries_},
            std::uint64_t{directory_.size()}, std::uint64_t{file_.size()}}) {
        number(out, value, 8);
      }
      number(out, 0x07064b50, 4);
      number(out, 0, 4);
      number(out, large, 8);
      number(out, 1, 4);
    }
    number(out, 0x06054b50, 4);
    number(out, 0, 4);
    number(out, zip64 ? 0xffff : entries_, 2);
    number(out, zip64 ? 0xffff : entries_, 2);
    number(out, zip64 ? 0xffffffff : directory_.size(), 4);
    number(out, zip64 ? 0xffffffff : file_.size(), 4);
    number(out, comment.size(), 2);
    return out + comment;
  }

 private:
  static void number(std::string& to, std::uint64_t value, std::size_t bytes) {
    to.append(reinterpret_cast<const char*>(&value), bytes);
  }

  std::string file_, directory_;
  std::size_t entries_ = 0;
};

}  // namespace sluice::testing
