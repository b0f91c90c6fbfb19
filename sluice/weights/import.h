#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/weights/name_map.h"
#include "sluice/weights/weights.h"

namespace sluice {

// What came of trying to give a model the weights of a file.
struct ImportReport {
  struct Fitted {
    std::string name;    // ours
    std::string source;  // theirs, with blanks between several
    std::string how;  // "as it is", "transposed", "3 joined", "6 rows of ..."
  };
  struct Unfit {
    std::string name, source;
    std::string expected, given;  // shapes, or what is wrong: "4 x 2"
  };
  struct Ignored {
    std::string name, why;
  };

  std::string path, format, kind, dialect;
  std::vector<Fitted> fitted;
  std::vector<Unfit> unfit;         // kept as they were initialised
  std::vector<std::string> fresh;   // not in the file: as they were initialised
  std::vector<Ignored> ignored;     // of the file, known and not needed
  std::vector<std::string> unused;  // of the file, not known
  std::vector<std::string> notes;
  // Of `unfit` and `fresh` those that are no head: without them the model is
  // not the one that was trained.
  std::vector<std::string> missing_body;

  // Lines for people; no final line feed.
  std::string text() const;
  std::string json() const;
  // Throws std::runtime_error unless all but heads has fitted.
  void require_body() const;
};

// How one tensor of ours is made; the bytes are those of the Weights, which
// must outlive it.
struct Assignment {
  std::string name;
  Dims dims;
  std::vector<WeightTensor> sources;  // joined by rows
  bool transposed = false;
  // Rows that the sources lack are zeros, those too many are cut.
};

struct ImportPlan {
  std::vector<Assignment> assignments;  // in the order of the specs
  ImportReport report;
};

// Finds the weights of a model of kind "bert", "gpt2", "vit" or "torchvision"
// whose tensors are `specs`. Throws std::invalid_argument for an unknown kind;
// std::runtime_error if config.json is of another model, if nothing fits, or if
// a matrix that the model ties differs from its twin.
ImportPlan plan_import(std::string_view kind, std::span<const TensorSpec> specs,
                       const Weights& weights);

// Writes a tensor as fp32, row after row: `to` has as many elements as its
// dims. Throws std::runtime_error, with tensor and index, for a value that is
// not finite in fp32.
void materialize(const Assignment& assignment, std::span<float> to);

}  // namespace sluice
