#include "sluice/study/study.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "sluice/core/atomic_file.h"
#include "sluice/core/ensure.h"
#include "sluice/core/fd.h"
#include "sluice/core/input_file.h"
#include "sluice/study/convergence_study.h"
#include "sluice/study/gradient_study.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kStudies = {
    registry_entry<GradientStudy, Study, const StudySetup&>(),
    registry_entry<ConvergenceStudy, Study, const StudySetup&>(),
};

std::string some_names(const std::vector<TensorInfo>& tensors,
                       std::size_t least) {
  std::string text;
  std::size_t count = 0;
  for (const TensorInfo& t : tensors) {
    if (shape3(t.dims).size() < least) continue;
    if (++count > 20) return text + " ...";
    text += " " + t.name;
  }
  return text.empty() ? " none" : text;
}

}  // namespace

std::span<const StudyEntry> studies() { return kStudies; }

std::unique_ptr<Study> make_study(std::string_view text,
                                  const StudySetup& setup) {
  return make_from(studies(), Study::kKind, text, setup);
}

ParamList params_of(StudyScope& scope) {
  return {{"every", &scope.every, "steps from one look to the next", 1, 1e9},
          {"layers", &scope.layers,
           "names of tensors, with * and ?, between spaces"},
          {"least", &scope.least, "elements of a layer that is looked at", 1,
           1e12}};
}

std::vector<bool> StudyScope::choose(
    const std::vector<TensorInfo>& tensors) const {
  const auto smallest = static_cast<std::size_t>(least);
  std::vector<bool> chosen(tensors.size(), false);
  for (const std::string& pattern : words_of(layers)) {
    bool any = false;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const bool here = shape3(tensors[t].dims).size() >= smallest &&
                        matches(pattern, tensors[t].name);
      chosen[t] = chosen[t] || here;
      any = any || here;
    }
    require(any || tensors.empty(),
            "[study] layers must have names of at least ", smallest,
            " elements (parameter 'least'), but none fits '", pattern,
            "'; known:", some_names(tensors, smallest));
  }
  return chosen;
}

Layer layer_of(const TensorInfo& tensor, const SelectedPart& part) {
  Layer out{tensor.name, tensor.dims};
  const std::size_t n = shape3(tensor.dims).size();
  if (part.size == n) return out;
  out.name += concat("[", part.first, ":", part.first + part.size, "]");
  const std::size_t row = n / tensor.dims[0];
  out.dims[0] = part.size / row;
  return out;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<Json> read_study_rows(const std::string& path) {
  std::istringstream lines(read_text_file("study", path));
  std::vector<Json> rows;
  for (std::string line; std::getline(lines, line);) {
    Json row = Json::parse(line, nullptr, false);
    require(row.is_object() && row.contains("step"), "[study] '", path,
            "' must have a JSON object with a step in every line, got '",
            line.substr(0, 60), "' in line ", rows.size() + 1);
    rows.push_back(std::move(row));
  }
  return rows;
}

void StudyRows::open(const std::string& path, std::uint64_t done) {
  path_ = path;
  std::string kept;
  if (done > 0 && std::filesystem::exists(path)) {
    for (const Json& row : read_study_rows(path)) {
      if (row.at("step") <= done) kept += row.dump() + "\n";
    }
  }
  write_text(path, kept);
}

void StudyRows::add(const Json& row) {
  const Fd file(open_to_append("study", path_));
  const std::string line = row.dump() + "\n";
  ensure(::write(file.get(), line.data(), line.size()) ==
             static_cast<ssize_t>(line.size()),
         "[study] '", path_, "' must be writable; is the disk full?");
}

}  // namespace sluice
