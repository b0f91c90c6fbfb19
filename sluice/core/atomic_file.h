#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

// A file that appears whole or not at all.
//
// Bytes go to `path`.partial; `commit` waits until the disk has them and then
// renames it to `path`. Without a commit the destructor removes it, and what
// was at `path` stays as it was. One writer at a time per path.
//
// Anyone may guess the name `path`.partial and, in a shared folder, put a
// symbolic link there. The constructor removes what has that name, a link
// itself and not its target, and makes a new file.
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

// Makes an empty file and returns its descriptor, open for writing, or -1 with
// errno. Removes what has the name `path` before; follows no symbolic link.
int open_anew(const std::string& path);

// Opens a file for appending and returns its descriptor; makes the file if
// there is none. Never waits for the reader of a pipe and follows no symbolic
// link. Throws std::runtime_error, beginning with "[`owner`]", unless `path` is
// a file that can be written.
int open_to_append(std::string_view owner, const std::string& path);

// All of a file at once.
void write_text(const std::string& path, const std::string& text);

}  // namespace sluice
