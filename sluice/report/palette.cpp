#include "sluice/report/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Json = nlohmann::json;

Tone tone_of(const Json& pair) {
  return {pair.at(0).get<std::string>(), pair.at(1).get<std::string>()};
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool begins_with_name(std::string_view text, std::string_view name) {
  return text.starts_with(name) &&
         (text.size() == name.size() || !is_word(text[name.size()]));
}

}  // namespace

Palette::Palette(std::string_view text) {
  const Json json = Json::parse(text);
  paper_ = tone_of(json.at("paper"));
  ink_ = tone_of(json.at("ink"));
  muted_ = tone_of(json.at("muted"));
  grid_ = tone_of(json.at("grid"));
  for (const Json& item : json.at("colours")) {
    colours_.push_back({item.at("names").get<std::vector<std::string>>(),
                        tone_of(item.at("colour"))});
  }
}

const Palette& Palette::standard() {
  static const Palette palette(kPaletteText);
  return palette;
}

std::optional<std::size_t> Palette::find(std::string_view method) const {
  std::optional<std::size_t> found;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < colours_.size(); ++i) {
    for (const std::string& name : colours_[i].names) {
      if (name.size() < longest || !begins_with_name(method, name)) continue;
      longest = name.size();
      found = i;
    }
  }
  // The Python package's, by the sparsifier that it is given.
  constexpr std::string_view kAttach = "attach-";
  if (!found && method.starts_with(kAttach)) {
    return find(method.substr(kAttach.size()));
  }
  return found;
}

std::vector<std::size_t> Palette::assign(
    const std::vector<std::string>& names) const {
  std::vector<std::size_t> colours(names.size(), size());
  std::vector<bool> taken(size(), false);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (const auto known = find(names[i])) {
      colours[i] = *known;
      taken[*known] = true;
    }
  }
  std::size_t next = 0;
  for (std::size_t& colour : colours) {
    if (colour != size()) continue;
    while (next < size() && taken[next]) ++next;
    if (next == size()) {
      taken.assign(size(), false);
      next = 0;
    }
    taken[next] = true;
    colour = next;
  }
  return colours;
}

std::string Palette::dark_css() const {
  std::string css;
  const auto rule = [&](const std::string& name, const Tone& tone) {
    css += fmt::format("svg .{}{{color:{}}}", name, tone.dark);
  };
  rule("paper", paper_);
  rule("ink", ink_);
  rule("muted", muted_);
  rule("grid", grid_);
  for (std::size_t i = 0; i < size(); ++i) {
    rule(fmt::format("c{}", i), colours_[i].tone);
  }
  return css;
}

}  // namespace sluice
