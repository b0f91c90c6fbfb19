#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sluice/run/checkpoint.h"

namespace sluice {

// Where a file of a checkpoint comes from.
struct Origin {
  static constexpr std::uint64_t kAllRanks = ~std::uint64_t{0};

  std::string run;  // 16 hexadecimal digits; empty in files of before
  std::uint64_t step = 0;
  std::uint64_t ranks = 1;
  std::uint64_t rank = kAllRanks;  // or the one whose file it is

  bool operator==(const Origin&) const = default;
};

// As the file says in its header. Throws std::runtime_error if it says so in a
// way that makes no sense.
Origin origin_of(const Checkpoint& file);

// What binds the files of a checkpoint to one another: whose they are, and what
// each of them holds. In its folder as manifest.json:
//
//   {"version": 1, "run": "90b31c...", "step": 20, "ranks": 2,
//    "files": {"model.ckpt": "5ad0...", "rank-0.ckpt": ..., ...}}
class Manifest {
 public:
  static constexpr int kVersion = 1;

  // Of no files: what a folder has that was written before there were any.
  Manifest() = default;
  // `origin` is that of the files of all ranks.
  explicit Manifest(Origin origin) : origin_(std::move(origin)) {}

  // A file by its name in the folder, and its digest.
  void add(const std::string& name, std::uint64_t digest);
  // Throws std::runtime_error if the disk does not take it.
  void write(const std::string& folder) const;

  // The one of a folder, or one of no files if there is none. Throws
  // std::runtime_error if it is damaged or of another version.
  static Manifest read(const std::string& folder);

  // Throws std::runtime_error, saying what the file is of and what it should be
  // of, unless it is one of this checkpoint and is in its place. Without a
  // manifest only files that name no run are.
  void check(const std::string& path, const Checkpoint& file,
             std::uint64_t rank = Origin::kAllRanks) const;

 private:
  Origin origin_;
  std::map<std::string, std::uint64_t> digests_;
};

// A number that no other run has, but by a chance of one in 2^64.
std::string new_run_id();

}  // namespace sluice
