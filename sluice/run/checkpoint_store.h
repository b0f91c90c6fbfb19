#pragma once

#include <cstdint>
#include <string>

namespace sluice {

// The checkpoints of a run folder:
//
//   checkpoints/step-00000020/      one checkpoint: all files or none
//   checkpoints/latest              the name of the last one
//
// Files are written to a folder of another name, which publish() renames, so a
// kill at any time leaves the last good checkpoint. All ranks write to the same
// folder; begin(), publish() and discard() are for one of them.
class CheckpointStore {
 public:
  CheckpointStore(std::string run, std::size_t keep)
      : run_(std::move(run)), keep_(keep) {}

  // Where the files of a step go until it is published.
  std::string partial(std::uint64_t step) const;
  // Makes that folder, empty. Throws std::runtime_error.
  void begin(std::uint64_t step) const;
  // All files are there: makes it the latest one and removes those that are too
  // many. Returns its folder. Throws std::runtime_error, and then the one
  // before it is still the latest.
  std::string publish(std::uint64_t step) const;
  void discard(std::uint64_t step) const;

  // The folder of the latest checkpoint of a run folder, or `path` itself if it
  // is a checkpoint; empty if there is none.
  static std::string find(const std::string& path);

 private:
  std::string folder() const { return run_ + "/checkpoints"; }

  std::string run_;
  std::size_t keep_;
};

}  // namespace sluice
