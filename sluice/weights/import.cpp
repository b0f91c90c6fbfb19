#include "sluice/weights/import.h"

#include <algorithm>
#include <set>

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

std::string joined(const std::vector<std::string>& names,
                   std::string_view between) {
  std::string text;
  for (const std::string& name : names) {
    text.append(text.empty() ? "" : between).append(name);
  }
  return text;
}

// Their tensor of this name, as the map says that it may be spelled.
const WeightTensor* look_up(const NameMap& map, const Weights& weights,
                            const std::string& name) {
  std::vector<std::string> spellings = {name};
  for (const auto& [now, before] : map.respellings) {
    if (!name.ends_with(now)) continue;
    spellings.push_back(name.substr(0, name.size() - now.size()));
    spellings.back().append(before);
  }
  for (const std::string& spelling : spellings) {
    if (const auto* found = weights.find(spelling)) return found;
    if (map.prefix.empty() || !spelling.starts_with(map.prefix)) continue;
    const auto bare = std::string_view(spelling).substr(map.prefix.size());
    if (const auto* found = weights.find(bare)) return found;
  }
  // Writers that drop one of two equal tensors may have dropped this one.
  if (map.tied.empty() || name != map.vocabulary) return nullptr;
  return weights.find(map.tied);
}

const NameMap& best_map(std::string_view kind,
                        std::span<const TensorSpec> specs,
                        const Weights& weights) {
  const NameMap* best = nullptr;
  std::size_t most = 0;
  for (const NameMap* map : name_maps_of(kind)) {
    std::size_t found = 0;
    for (const TensorSpec& spec : specs) {
      const auto names = their_names(*map, spec.name).names;
      found += look_up(*map, weights, names.front()) != nullptr ? 1U : 0U;
    }
    if (found > most) best = map;
    most = std::max(most, found);
  }
  ensure(best != nullptr, "[import] '", weights.path, "' has none of the ",
         specs.size(), " tensors of the ", kind, "; its first is '",
         weights.tensors.empty() ? "" : weights.tensors.front().name,
         "': is it of another model?");
  return *best;
}

class Importer {
 public:
  Importer(const NameMap& map, const Weights& weights)
      : map_(map), weights_(weights) {
    report().path = weights.path;
    report().format = weights.format;
    report().kind = map.kind;
    report().dialect = map.dialect;
    report().notes = weights.notes;
  }

  void add(const TensorSpec& spec) {
    const TheirNames theirs = their_names(map_, spec.name);
    Assignment made = {spec.name, spec.dims, {}, theirs.transposed};
    std::vector<std::string> names, missing;
    for (const std::string& name : theirs.names) {
      const WeightTensor* source = look_up(map_, weights_, name);
      if (source == nullptr) {
        missing.push_back(name);
        continue;
      }
      used_.insert(source->name);
      names.push_back(source->name);
      made.sources.push_back(*source);
    }
    if (names.empty()) {
      report().fresh.push_back(spec.name);
      return note_missing(spec.name);
    }
    std::string problem = missing.empty()
                              ? fit(made, joined(names, " "))
                              : concat("no '", missing.front(), "'");
    if (problem.empty()) return plan_.assignments.push_back(std::move(made));
    report().unfit.push_back({spec.name, joined(names, " "), text_of(spec.dims),
                              std::move(problem)});
    note_missing(spec.name);
  }

  // What of the file nobody has asked for.
  void add_rest() {
    for (const WeightTensor& tensor : weights_.tensors) {
      if (used_.count(tensor.name) > 0) continue;
      const auto rule = std::find_if(
          map_.ignored.begin(), map_.ignored.end(),
          [&](auto& i) { return fits_pattern(i.pattern, tensor.name); });
      if (tensor.name == map_.tied) {
        check_tied(tensor);
        report().ignored.push_back(
            {tensor.name, concat("equal to '", map_.vocabulary, "'")});
      } else if (rule != map_.ignored.end()) {
        report().ignored.push_back({tensor.name, std::string(rule->why)});
      } else {
        report().unused.push_back(tensor.name);
      }
    }
  }

  ImportPlan finish() && { return std::move(plan_); }

 private:
  ImportReport& report() { return plan_.report; }

  void note_missing(const std::string& name) {
    if (!is_head(map_, name)) report().missing_body.push_back(name);
  }

  // Why the sources do not make the tensor; empty, and said in the report, if
  // they do.
  std::string fit(Assignment& made, const std::string& names) {
    Dims dims = made.sources.front().dims;
    std::string shapes;
    for (const WeightTensor& source : made.sources) {
      if (!is_floating(source.type)) {
        return concat(text_of(source.dims), " of ", name_of(source.type));
      }
      shapes.append(shapes.empty() ? "" : " and ").append(text_of(source.dims));
      if (source.dims != made.sources.front().dims) return shapes;
    }
    const auto parts = static_cast<std::int64_t>(made.sources.size());
    if (parts > 1) {
      if (dims.empty() || __builtin_mul_overflow(dims[0], parts, &dims[0])) {
        return shapes;
      }
    }
    made.transposed = made.transposed && dims.size() == 2;
    if (made.transposed) std::swap(dims[0], dims[1]);
    std::string how = made.transposed ? "transposed"
                      : parts > 1     ? concat(parts, " joined")
                                      : "as it is";
    if (dims != made.dims) {
      how = padding(made, dims);
      if (how.empty()) return text_of(dims);
      report().notes.push_back(concat("'", made.name, "': ", how));
    }
    report().fitted.push_back({made.name, names, how});
    return {};
  }

  // What is done about rows; empty if that does not help.
  std::string padding(const Assignment& made, const Dims& given) const {
    const bool words = made.name == map_.vocabulary;
    if ((!words && made.name != map_.positions) || given.size() != 2 ||
        made.dims.size() != 2 || given[1] != made.dims[1]) {
      return {};
    }
    const std::int64_t more = made.dims[0] - given[0];
    if (more > (words ? kMostPadding : 0)) return {};
    if (words && -more > kMostPadding) return {};
    return more > 0
               ? concat(more, " rows of zeros added behind ", given[0])
               : concat("the last ", -more, " of ", given[0], " rows left out");
  }

  void check_tied(const WeightTensor& twin) const {
    const auto* own = look_up(map_, weights_, std::string(map_.vocabulary));
    ensure(own != nullptr && own->type == twin.type && own->dims == twin.dims &&
               std::equal(own->bytes.begin(), own->bytes.end(),
                          twin.bytes.begin(), twin.bytes.end()),
           "[import] '", weights_.path, "': '", twin.name, "' must equal '",
           map_.vocabulary,
           "', since the model has one matrix for both, differs; train with a "
           "model that ties them");
  }

  const NameMap& map_;
  const Weights& weights_;
  std::set<std::string> used_;
  ImportPlan plan_;
};

void check_config(std::string_view kind, std::span<const TensorSpec> specs,
                  const Weights& weights) {
  if (!weights.config) return;
  const auto found = disagreements(*weights.config, describe(kind, specs));
  ensure(found.empty(), "[import] '", weights.path,
         "' must be of the model that was asked for, but in its config.json ",
         joined(found, "; "));
}

}  // namespace

ImportPlan plan_import(std::string_view kind, std::span<const TensorSpec> specs,
                       const Weights& weights) {
  name_maps_of(kind);  // the caller's mistakes first
  check_config(kind, specs, weights);
  Importer importer(best_map(kind, specs, weights), weights);
  for (const TensorSpec& spec : specs) importer.add(spec);
  importer.add_rest();
  return std::move(importer).finish();
}

}  // namespace sluice
