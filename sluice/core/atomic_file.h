#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sluice {

// A file that appears whole or not at all.
//
// Bytes go to `path`.partial; `commit` waits until the disk has them and then
// renames it to `path`. Without a commit the destructor removes it, and what
// was at `path` stays as it was. One writer at a time per path.
//
// Everything but the destructor throws std::runtime_error if the disk does not
// do as it is told; the message says what became of the old file.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  void check(bool ok) const;

  std::string path_;
  std::string partial_;
  int fd_ = -1;
};

// All of a file at once.
void write_text(const std::string& path, const std::string& text);

}  // namespace sluice
