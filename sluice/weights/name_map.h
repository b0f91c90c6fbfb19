#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/weights/weights.h"

namespace sluice {

// A tensor of a model of ours: parameters and running statistics, no counters.
struct TensorSpec {
  std::string name;
  Dims dims;
};

// How others name a module of ours. In a name '*' stands for a whole number,
// the same in all of the row; what follows the module (".weight", ".bias")
// stays.
struct NameRule {
  std::string_view ours;
  // Several, with a blank between, are our one, row after row.
  std::string_view theirs;
  // Their matrices are in x out.
  bool transposed = false;
};

struct Respelling {
  std::string_view now, before;  // ends of names
};

struct IgnoredName {
  std::string_view pattern;  // with one '*' for any text
  std::string_view why;
};

// How files of one origin name the tensors of one kind of model; data, so that
// import and export are the same table read both ways.
struct NameMap {
  std::string_view kind;     // "bert", "gpt2", "vit", "torchvision"
  std::string_view dialect;  // "huggingface", "timm", "torchvision"
  // Files of the model without a head lack it: "bert.".
  std::string_view prefix;
  // The matrix of ours whose rows are words, and may be padded; "" if none.
  std::string_view vocabulary;
  // That whose rows are positions, of which a model may have fewer.
  std::string_view positions;
  // Their other name for the matrix of words, which they may have as well.
  std::string_view tied;
  std::span<const NameRule> rules;  // without one, a name is the same
  std::span<const Respelling> respellings;
  std::span<const IgnoredName> ignored;
  // Of ours, with one '*': what a file need not have.
  std::span<const std::string_view> heads;
};

// All there are; of the kinds with several the first is what is written.
std::span<const NameMap> name_maps();
// Those of a kind. Throws std::invalid_argument if there are none.
std::vector<const NameMap*> name_maps_of(std::string_view kind);

struct TheirNames {
  std::vector<std::string> names;
  bool transposed = false;
};
TheirNames their_names(const NameMap& map, std::string_view ours);

// Whether `name` is `pattern`, in which one '*' stands for any text.
bool fits_pattern(std::string_view pattern, std::string_view name);
bool is_head(const NameMap& map, std::string_view ours);

// What the shapes of a model say about it: width, layers, vocabulary, positions
// and so on; heads and epsilon are not among it. Of "torchvision": nothing.
ModelConfig describe(std::string_view kind, std::span<const TensorSpec> specs);

}  // namespace sluice
