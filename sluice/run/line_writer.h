#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace sluice {

// Lines for people, written by a thread of its own: a reader that is slow,
// stopped or gone holds nobody up and ends nothing.
//
// Keeps a quarter of a megabyte for a reader that is behind; what comes then is
// left out and counted. Once a write has failed, nothing more is written. No
// SIGPIPE is raised.
class LineWriter {
 public:
  explicit LineWriter(int fd);
  ~LineWriter() { finish(); }
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Returns at once, whatever becomes of it.
  void write(std::string_view text);

  // Waits for the reader to take what is left, for as long as it takes some of
  // it every few seconds. Nothing may be written after it.
  void finish();

  // What is wrong with the file, as in "No space left on device"; empty: none.
  std::string problem() const;
  // Whether that is only that nobody reads any more.
  bool reader_is_gone() const;

 private:
  void run();
  // False if nothing more can be written.
  bool write_some(std::string_view& text);

  int fd_;
  bool own_ = false;  // fd_ was opened here
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  std::size_t left_out_ = 0;  // bytes
  bool ending_ = false;
  int error_ = 0;
  std::thread thread_;
};

}  // namespace sluice
