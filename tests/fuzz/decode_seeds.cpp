// decode_seeds FOLDER: writes valid messages of every form as a seed corpus.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "decode_input.h"
#include "sluice/backend/cpu/wire.h"

namespace {

using sluice::IndexForm;
using sluice::RowLayout;
using sluice::ValueForm;
using Indices = std::vector<std::uint64_t>;

struct Case {
  sluice::fuzz::Receiver receiver;
  Indices indices;
  std::vector<std::uint64_t> starts;
  std::vector<RowLayout> rows;
};

// `count` indices, evenly spread below n.
Case spread(std::uint8_t base, std::uint16_t size, std::uint16_t count) {
  Case c{{1, base, size, count}, Indices(count), {0, count}, {}};
  const std::uint64_t n = c.receiver.dense_size();
  for (std::uint64_t i = 0; i < count; ++i) c.indices[i] = i * (n / count);
  if (count > 3) c.starts = {0, count / 3U, count / 3U, count};
  return c;
}

// One entry of every row or tile; the two layouts are of equal size.
Case by_rows() {
  // Four rows of 8, then a tile of 4 rows and 8 columns.
  Case c{{1, 0, 64, 5}, {1, 9, 19, 31, 40}, {0, 4, 5}, {}};
  c.rows = {{{4, 8, 1, 1}, false}, {{1, 4, 8, 1}, true}};
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> all = {spread(0, 0, 0),
                           spread(0, 1, 1),
                           spread(0, 40, 40),
                           spread(0, 1000, 9),
                           spread(0, 60000, 600),
                           spread(1, 0, 5),
                           spread(2, 8, 5),
                           spread(3, 0, 5),
                           spread(4, 3, 300),
                           spread(5, 7, 2),
                           by_rows()};
  for (const Case& c : std::vector<Case>(all)) {
    all.push_back(c);
    all.back().receiver.patch = 0;
  }
  return all;
}

// Empty if the form cannot carry the case.
std::vector<std::byte> encode(const Case& c, IndexForm index, ValueForm value) {
  std::vector<float> values(c.indices.size());
  for (std::size_t s = 0; s + 1 < c.starts.size(); ++s) {
    for (std::size_t i = c.starts[s]; i < c.starts[s + 1]; ++i) {
      // At most four different ones per segment, or one: exact in every form.
      const std::size_t kinds = value == ValueForm::kOne ? 1 : 4;
      values[i] = static_cast<float>(i % kinds + s) - 1.5F;
    }
  }
  std::vector<std::byte> message(1 << 16);
  message.resize(sluice::cpu::wire::encode<std::uint64_t>(
      {c.indices, values, c.starts, c.rows}, c.receiver.dense_size(), index,
      value, std::span(message)));
  return message;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: decode_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  std::size_t written = 0;
  for (const Case& c : cases()) {
    for (std::size_t i = 0; i < sluice::kIndexFormNames.size(); ++i) {
      for (std::size_t v = 0; v < sluice::kValueFormNames.size(); ++v) {
        const auto message =
            encode(c, static_cast<IndexForm>(i), static_cast<ValueForm>(v));
        if (message.empty()) continue;
        std::ofstream out(folder / std::to_string(written++), std::ios::binary);
        out.write(reinterpret_cast<const char*>(&c.receiver),
                  sizeof(c.receiver));
        out.write(reinterpret_cast<const char*>(message.data()),
                  static_cast<std::streamsize>(message.size()));
        if (!out) return 1;
      }
    }
  }
  std::printf("%zu seeds\n", written);
}
