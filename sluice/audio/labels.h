#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// What a transcript with letters outside the labels comes to.
enum class UnknownLetters { kStop, kDrop };

// The letters that a model tells apart. The first is the blank of CTC, which
// stands for no letter.
class Labels {
 public:
  static constexpr std::int32_t kBlank = 0;

  // Blank, apostrophe, A to Z, space: 29.
  Labels();
  // Each of one printable ASCII character, none twice, none in lower case, the
  // first "_"; from 2 to 96. Throws std::runtime_error, beginning with
  // "[labels] 'name'", for all else.
  Labels(std::string_view name, std::span<const std::string> letters);

  std::size_t size() const { return letters_.size(); }
  const std::string& letters() const { return letters_; }
  bool has(char letter) const { return id(letter) > kBlank; }

  // The labels of `text` in upper case. A letter that is not among them throws
  // std::runtime_error with `name` (of the clip or file) and the letter, or is
  // left out and added to `dropped`.
  std::vector<std::int32_t> encode(
      std::string_view name, std::string_view text,
      UnknownLetters unknown = UnknownLetters::kStop,
      std::size_t* dropped = nullptr) const;

  // The text of these labels; blanks are nothing. Throws std::invalid_argument
  // for labels that there are not.
  std::string decode(std::span<const std::int32_t> ids) const;

  friend bool operator==(const Labels&, const Labels&) = default;

 private:
  std::int32_t id(char letter) const {
    return ids_[static_cast<unsigned char>(letter)];
  }
  void index();

  std::string letters_;
  std::array<std::int32_t, 256> ids_{};
};

// A labels.json: a JSON list of strings. `name` is for messages.
Labels parse_labels(std::string_view name, std::string_view json);
Labels read_labels(const std::string& path);

}  // namespace sluice
