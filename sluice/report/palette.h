#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The colours of all pictures: a method has the same one in each. They come
// from palette.json, which the scripts of benchmarks/ read as well.

namespace sluice {

// palette.json as it is.
extern const char* const kPaletteText;

// A colour on white paper and on dark paper, as "#rrggbb".
struct Tone {
  std::string light;
  std::string dark;
};

class Palette {
 public:
  // Throws nlohmann::json::exception for a text that is no palette.
  explicit Palette(std::string_view text);
  // That of palette.json.
  static const Palette& standard();

  const Tone& paper() const { return paper_; }
  const Tone& ink() const { return ink_; }
  const Tone& muted() const { return muted_; }
  const Tone& grid() const { return grid_; }

  std::size_t size() const { return colours_.size(); }
  const Tone& colour(std::size_t i) const { return colours_[i].tone; }

  // The colour of a method: of the longest known name that it begins with, be
  // it followed by parameters, a feedback, a density or a number, as in
  // "topk:..", "dgc+residual", "sidco-e" or "adtopk 1 %". Nothing for others.
  std::optional<std::size_t> find(std::string_view method) const;

  // Colours for curves of one picture: those of their methods; others get, in
  // their order, what is then left, round and round.
  std::vector<std::size_t> assign(const std::vector<std::string>& names) const;

  // What a picture looks like on dark paper, as CSS; it is light without. Its
  // elements have the classes "paper", "ink", "muted", "grid" and "c0", "c1",
  // ... of the colours.
  std::string dark_css() const;

 private:
  struct Entry {
    std::vector<std::string> names;
    Tone tone;
  };

  Tone paper_;
  Tone ink_;
  Tone muted_;
  Tone grid_;
  std::vector<Entry> colours_;
};

}  // namespace sluice
