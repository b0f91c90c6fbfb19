#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// The checkpoints of a run folder:
//
//   checkpoints/step-00000020/            one checkpoint: all files or none
//   checkpoints/latest                    the name of the last one
//   checkpoints/step-00000030.abandoned/  one that the run did not go on from
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

  // A run goes on from the checkpoint `from`: makes it the latest, and sets
  // those after it aside under names of abandoned ones, which are never removed
  // or found. Sets all of them aside if `from` is of another run folder.
  // Returns the new folders. Throws std::runtime_error.
  std::vector<std::string> go_on_from(const std::string& from) const;

  struct Found {
    std::vector<std::string> folders;
    std::string note;  // why `latest` did not help, if it did not
  };
  // Folders of the checkpoints of a run folder: that which `latest` names, then
  // the others, the newest first. Or `path` itself if it is a checkpoint. They
  // are there; whether they can be read is not looked at.
  static Found find_all(const std::string& path);
  // The first of them, or nothing.
  static std::string find(const std::string& path);
  // The steps that such a folder was saved after; 0 if it is none.
  static std::uint64_t step_in(const std::string& folder);

 private:
  std::string folder() const { return run_ + "/checkpoints"; }

  std::string run_;
  std::size_t keep_;
};

}  // namespace sluice
