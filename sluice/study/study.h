#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/core/registry.h"
#include "sluice/sparsify/exceptions.h"
#include "sluice/sync/observer.h"

// What a run can be watched for while it trains.

namespace sluice {

// The job that is watched, as one rank sees it.
struct StudySetup {
  // None: only the parameters of the study are checked.
  std::vector<TensorInfo> tensors;
  std::size_t rank = 0;
  std::uint64_t total_steps = 0;  // 0: unknown
  std::uint64_t seed = 0;
};

// The rows of a study, as lines of JSON in a file of the run folder.
class StudyRows {
 public:
  // Keeps what is there of the first `done` steps, and drops the rest. Throws
  // std::runtime_error if it cannot be written.
  void open(const std::string& path, std::uint64_t done);
  void add(const nlohmann::ordered_json& row);

 private:
  std::string path_;
};
// Those of a file. Throws std::invalid_argument if a line is none.
std::vector<nlohmann::ordered_json> read_study_rows(const std::string& path);

// Watches a run, one instance on every rank, and changes nothing of it: runs
// have the same bits with and without. Rank 0 writes what it finds.
//
// Steps of files and of finish() count from 1, those of look() from 0.
class Study : public SelectionObserver {
 public:
  static constexpr std::string_view kKind = "study";
  // What is written of it in the run folder.
  static constexpr const char* kRows = "study.jsonl";
  static constexpr const char* kDumps = "gradients";

  // Once the run folder is there; the run has come to step `done`.
  virtual void open(const std::string& folder, std::uint64_t done) = 0;
  // Whether finish() of that step needs the means.
  virtual bool is_due(std::uint64_t step) const = 0;
  // Behind every step, a call of all ranks. `means`: what all ranks got, by
  // tensor, in the order of their elements, if it is due. Throws
  // std::runtime_error for what went wrong on this rank, and CommError.
  virtual void finish(Communicator& comm, std::uint64_t step, bool committed,
                      std::span<const std::vector<float>> means) = 0;
};

using StudyEntry = RegistryEntry<Study, const StudySetup&>;
std::span<const StudyEntry> studies();
// From "name", "name:key=value,..." or a JSON object; see parse_spec. Throws
// std::invalid_argument, also where a pattern of layers fits none.
std::unique_ptr<Study> make_study(std::string_view text,
                                  const StudySetup& setup);

// Steps and layers to look at; in all studies.
struct StudyScope {
  std::int64_t every = 10;
  std::string layers = "*";  // patterns with * and ?, between spaces
  std::int64_t least = 256;  // elements of a layer

  bool is_due(std::uint64_t step) const {
    return step == 1 || step % static_cast<std::uint64_t>(every) == 0;
  }
  // By tensor, whether to look at it. Throws std::invalid_argument if a
  // pattern fits none.
  std::vector<bool> choose(const std::vector<TensorInfo>& tensors) const;
};
ParamList params_of(StudyScope& scope);

// A tensor, or the rows of it that travel in one bucket: what is studied as one
// layer.
struct Layer {
  std::string name;
  std::vector<std::size_t> dims;
};
Layer layer_of(const TensorInfo& tensor, const SelectedPart& part);

// The words of a text, which stand between spaces.
std::vector<std::string> words_of(const std::string& text);

}  // namespace sluice
