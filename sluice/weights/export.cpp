#include "sluice/weights/export.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "sluice/core/ensure.h"
#include "sluice/weights/safetensors.h"
#include "sluice/weights/transpose.h"

namespace sluice {
namespace {

const NameMap& map_for(const ExportOptions& options) {
  const auto maps = name_maps_of(options.kind);
  if (options.dialect.empty()) return *maps.front();
  std::string known;
  for (const NameMap* map : maps) {
    if (map->dialect == options.dialect) return *map;
    known.append(" ").append(map->dialect);
  }
  require(false, "[export] no names of '", options.dialect, "' for a ",
          options.kind, "; known:", known);
  return *maps.front();
}

class Exporter {
 public:
  explicit Exporter(const ExportOptions& options)
      : map_(map_for(options)), vocabulary_(options.vocabulary) {}

  void add(const NamedValues& tensor) {
    check(tensor);
    const TheirNames theirs = their_names(map_, tensor.spec.name);
    Dims dims = tensor.spec.dims;
    std::span<const float> values = tensor.values;
    if (tensor.spec.name == map_.vocabulary) cut(dims, values);
    if (theirs.transposed && dims.size() == 2) {
      copies_.emplace_back(values.size());
      transpose(values, static_cast<std::size_t>(dims[0]),
                static_cast<std::size_t>(dims[1]), copies_.back());
      values = copies_.back();
      std::swap(dims[0], dims[1]);
    }
    split(theirs.names, dims, values);
  }

  const std::vector<WeightTensor>& tensors() const { return out_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  static void check(const NamedValues& tensor) {
    const auto n = elements_of(tensor.spec.dims);
    require(
        n.has_value() && static_cast<std::size_t>(*n) == tensor.values.size(),
        "[export] '", tensor.spec.name, "' (", text_of(tensor.spec.dims),
        ") must have as many values, has ", tensor.values.size());
    const auto bad = std::find_if(tensor.values.begin(), tensor.values.end(),
                                  [](float x) { return !std::isfinite(x); });
    ensure(bad == tensor.values.end(), "[export] tensor '", tensor.spec.name,
           "' must be finite, element ", bad - tensor.values.begin(), " is ",
           bad == tensor.values.end() ? 0.0F : *bad,
           "; export an earlier checkpoint");
  }

  void cut(Dims& dims, std::span<const float>& values) {
    if (vocabulary_ == 0 || dims.size() != 2 || vocabulary_ == dims[0]) return;
    require(vocabulary_ > 0 && vocabulary_ < dims[0],
            "[export] the vocabulary must be from 1 to ", dims[0],
            ", the rows of '", map_.vocabulary, "', got ", vocabulary_);
    notes_.push_back(concat("'", map_.vocabulary, "': the last ",
                            dims[0] - vocabulary_, " of ", dims[0],
                            " rows left out"));
    dims[0] = vocabulary_;
    values = values.first(static_cast<std::size_t>(dims[0] * dims[1]));
  }

  // Row blocks of the same size, one per name.
  void split(const std::vector<std::string>& names, Dims dims,
             std::span<const float> values) {
    const std::size_t parts = names.size();
    if (parts > 1) {
      const auto count = static_cast<std::int64_t>(parts);
      require(!dims.empty() && dims[0] % count == 0, "[export] '",
              names.front(), "' and others must be ", parts, " equal parts of ",
              text_of(dims));
      dims[0] /= count;
    }
    const std::size_t size = values.size() / parts;
    for (std::size_t i = 0; i < parts; ++i) {
      out_.push_back({names[i], WeightType::kF32, dims,
                      std::as_bytes(values.subspan(i * size, size))});
    }
  }

  const NameMap& map_;
  std::int64_t vocabulary_;
  std::deque<std::vector<float>> copies_;
  std::vector<WeightTensor> out_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> export_weights(const std::string& path,
                                        const ExportOptions& options,
                                        std::span<const NamedValues> tensors) {
  Exporter exporter(options);
  for (const NamedValues& tensor : tensors) exporter.add(tensor);
  std::map<std::string, std::string> metadata = options.metadata;
  // Without it Hugging Face's loader does not take the file.
  metadata.emplace("format", "pt");
  write_safetensors(path, exporter.tensors(), metadata);
  return exporter.notes();
}

}  // namespace sluice
