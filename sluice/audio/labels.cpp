#include "sluice/audio/labels.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"

namespace sluice {
namespace {

constexpr std::size_t kMostLabels = 96;
constexpr std::size_t kMostLabelBytes = std::size_t{1} << 16;
constexpr std::string_view kExample =
    R"(; expected is ["_", "'", "A", ..., "Z", " "])";

// ASCII only: what other bytes mean, a locale must not decide.
char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

std::string shown(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte > 0x20 && byte < 0x7f) return concat("'", c, "'");
  char text[8];
  std::snprintf(text, sizeof(text), "0x%02x", byte);
  return concat("the byte ", text);
}

}  // namespace

Labels::Labels() : letters_("_'ABCDEFGHIJKLMNOPQRSTUVWXYZ ") { index(); }

Labels::Labels(std::string_view name, std::span<const std::string> letters) {
  const auto check = [&](bool ok, const auto&... parts) {
    ensure(ok, "[labels] '", name, "' ", parts..., kExample);
  };
  check(letters.size() >= 2 && letters.size() <= kMostLabels,
        "must have from 2 to ", kMostLabels, " labels, has ", letters.size());
  check(letters[0] == "_", "must begin with the blank \"_\", begins with \"",
        letters[0], "\"");
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const std::string& text = letters[i];
    check(text.size() == 1 && text[0] >= 0x20 && text[0] < 0x7f,
          "must have one ASCII character per label, label ", i, " is \"", text,
          "\"");
    check(upper(text[0]) == text[0],
          "must have upper-case letters, as transcripts are made; label ", i,
          " is \"", text, "\"");
    check(letters_.find(text[0]) == std::string::npos,
          "must have each label once, has \"", text, "\" twice");
    letters_ += text[0];
  }
  index();
}

void Labels::index() {
  ids_.fill(-1);
  for (std::size_t i = 0; i < letters_.size(); ++i) {
    ids_[static_cast<unsigned char>(letters_[i])] =
        static_cast<std::int32_t>(i);
  }
}

std::vector<std::int32_t> Labels::encode(std::string_view name,
                                         std::string_view text,
                                         UnknownLetters unknown,
                                         std::size_t* dropped) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char c : text) {
    // The blank is no letter either, though it has a label.
    const std::int32_t label = id(upper(c));
    if (label > kBlank) {
      ids.push_back(label);
      continue;
    }
    ensure(unknown == UnknownLetters::kDrop, "[labels] the transcript of '",
           name, "' must have letters of the labels only, has ", shown(c),
           "; write it out, or leave such letters out: unknown=drop");
    if (dropped != nullptr) ++*dropped;
  }
  return ids;
}

std::string Labels::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t label : ids) {
    require(label >= 0 && static_cast<std::size_t>(label) < size(),
            "[labels] a label must be from 0 to ", size() - 1, ", got ", label);
    if (label != kBlank) text += letters_[static_cast<std::size_t>(label)];
  }
  return text;
}

Labels parse_labels(std::string_view name, std::string_view json) {
  const std::string where = concat("[labels] '", name, "'");
  try {
    check_json(concat("labels '", name, "'"), json);
  } catch (const std::invalid_argument& e) {
    throw std::runtime_error(e.what());
  }
  const auto list = nlohmann::json::parse(json);
  ensure(list.is_array(), where, " must be a JSON list of letters", kExample);
  // Before anything is made of a list of millions.
  ensure(list.size() <= kMostLabels, where, " must have from 2 to ",
         kMostLabels, " labels, has ", list.size(), kExample);
  std::vector<std::string> letters;
  for (const auto& letter : list) {
    ensure(letter.is_string(), where, " must be a JSON list of strings, has ",
           letter.type_name(), kExample);
    letters.push_back(letter.get<std::string>());
  }
  return {name, letters};
}

Labels read_labels(const std::string& path) {
  return parse_labels(path, read_text_file("labels", path, kMostLabelBytes));
}

}  // namespace sluice
