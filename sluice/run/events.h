#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace sluice {

// Writes scalars to an event file that TensorBoard shows.
//
// Records are TFRecords (length, data, a masked CRC-32C of each) that hold one
// Event message of TensorBoard each. One writer makes one file,
// events.out.tfevents.SECONDS.HOST.PID.N; several files of a folder show as
// one run. Not thread-safe.
class EventWriter {
 public:
  // Makes `folder` if need be, and a new file in it. TensorBoard drops what
  // older files of the folder say of steps from `first_step` on, so a run that
  // resumes shows no step twice. Throws std::runtime_error if it cannot.
  explicit EventWriter(const std::string& folder, std::int64_t first_step = 0);

  // Throws std::runtime_error if the disk does not take it.
  void add_scalar(std::string_view tag, double value, std::int64_t step);

  // Hands everything added so far to the operating system. The destructor does
  // so too, but says nothing of failures.
  void flush();

  const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void write_event(std::int64_t step, std::string_view what);
  void check(bool ok) const;

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace sluice
