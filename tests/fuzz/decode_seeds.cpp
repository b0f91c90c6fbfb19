// decode_seeds FOLDER: writes valid messages of every form as a seed corpus.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "decode_input.h"
#include "sluice/backend/cpu/wire.h"

namespace {

using sluice::IndexForm;
using sluice::SegmentForm;
using sluice::fuzz::Receiver;
using Coder = sluice::cpu::wire::Coder;

// Entries for a receiver's segments: k per row where it has rows, else one in
// `gap`.
struct Case {
  Case(const Receiver& r, std::uint64_t gap) : receiver(r), forms(r.forms()) {
    std::uint64_t base = 0;
    for (const SegmentForm& form : forms) {
      if (form.rows.rows.k > 0) {
        add_rows(form, base);
      } else {
        for (std::uint64_t i = 0; i < form.size && indices.size() < 600;
             i += std::max(gap, form.size / 300)) {
          add(base + i);
        }
      }
      std::sort(indices.begin() + static_cast<std::ptrdiff_t>(starts.back()),
                indices.end());
      starts.push_back(indices.size());
      base += form.size;
    }
    receiver.capacity = static_cast<std::uint16_t>(indices.size());
  }
  void add(std::uint64_t index) {
    indices.push_back(static_cast<std::uint32_t>(index));
    // At most one per segment: exact in every form.
    values.push_back(static_cast<float>(starts.size()) - 1.5F);
  }
  // The first k of every row; of tiles, the first of each of their rows.
  void add_rows(const SegmentForm& form, std::uint64_t base) {
    const auto& r = form.rows.rows;
    for (std::uint64_t slab = 0; slab < (form.rows.tiles ? 0 : r.slabs);
         ++slab) {
      for (std::uint64_t row = 0; row < std::min(r.k, r.length); ++row) {
        for (std::uint64_t column = 0; column < r.stride; ++column) {
          add(base + (slab * r.length + row) * r.stride + column);
        }
      }
    }
    for (std::uint64_t y = 0; form.rows.tiles && y < r.length; y += 64) {
      for (std::uint64_t x = 0; x < r.stride; x += 64) {
        const std::uint64_t width = std::min<std::uint64_t>(64, r.stride - x);
        const std::uint64_t height = std::min<std::uint64_t>(64, r.length - y);
        for (std::uint64_t i = 0; i < std::min(r.k, width * height); ++i) {
          add(base + (y + i / width) * r.stride + x + i % width);
        }
      }
    }
  }

  Receiver receiver;
  std::vector<SegmentForm> forms;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::vector<std::uint64_t> starts = {0};
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::uint8_t patch : {0, 1}) {
    for (const std::uint8_t base : {0, 1, 2}) {
      for (const std::uint16_t size : {0, 1, 8, 40, 1000, 60000}) {
        if (base == 2 && size > 8) continue;
        for (const std::uint64_t gap : {1, 3, 50}) {
          all.push_back({{patch, base, size, 0, 0, {}}, gap});
        }
      }
    }
    // One of every kind, and some of them together.
    for (unsigned kind = 0; kind < 225; ++kind) {
      const auto k = static_cast<std::uint8_t>(kind);
      all.push_back({{patch, 0, 0, 0, 1, {k}}, 9});
      const auto next = static_cast<std::uint8_t>((kind + 80) % 225);
      const auto other = static_cast<std::uint8_t>((kind + 157) % 225);
      all.push_back({{patch, 0, 30, 0, 5, {k, k, next, other, k}}, 7});
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: decode_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  Coder coder(sluice::cpu::wire_kernels(""));
  std::size_t written = 0;
  for (const Case& c : cases()) {
    // The last turn: chosen forms.
    for (std::size_t f = 0; f <= sluice::kIndexFormNames.size(); ++f) {
      const bool choose = f == sluice::kIndexFormNames.size();
      std::vector<std::byte> message(1 << 16);
      message.resize(coder.encode(
          {c.indices.data(), c.values.data(), c.starts.data(), c.forms},
          {choose, static_cast<IndexForm>(f), true}, message));
      if (message.empty()) continue;  // the form cannot carry the case
      std::ofstream out(folder / std::to_string(written++), std::ios::binary);
      out.write(reinterpret_cast<const char*>(&c.receiver), sizeof(c.receiver));
      out.write(reinterpret_cast<const char*>(message.data()),
                static_cast<std::streamsize>(message.size()));
      if (!out) return 1;
    }
  }
  std::printf("%zu seeds\n", written);
}
