#include <bit>
#include <cmath>
#include <cstring>

#include "sluice/backend/cpu/wire_sections.h"
#include "sluice/core/half.h"

namespace sluice::cpu::wire {
namespace {

constexpr std::size_t kTable = 4;

// Floats in each segment's table.
std::size_t table_size(ValueForm form) {
  return form == ValueForm::kOne ? 1 : form == ValueForm::kTwoBit ? kTable : 0;
}

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// Appends the codes of values to `codes`, and what they mean to `table`.
bool code_values(std::span<const float> values, float* table,
                 BitWriter& codes) {
  std::size_t used = 0;
  for (const float value : values) {
    std::size_t code = 0;
    while (code < used && bits_of(table[code]) != bits_of(value)) ++code;
    if (code == kTable) return false;
    if (code == used) table[used++] = value;
    codes.put(code, 2);
  }
  return true;
}

bool write_tables(const WireKernels& kernels, ValueForm form,
                  const float* values, std::span<const std::uint64_t> starts,
                  std::byte* out) {
  const std::size_t segments = starts.size() - 1;
  const std::size_t size = table_size(form);
  BitWriter codes(out + segments * 4 * size);
  for (std::size_t s = 0; s < segments; ++s) {
    const std::span<const float> mine(values + starts[s],
                                      starts[s + 1] - starts[s]);
    float table[kTable] = {};
    if (form == ValueForm::kTwoBit) {
      if (!code_values(mine, table, codes)) return false;
    } else if (!mine.empty()) {
      if (!kernels.uniform(mine.data(), mine.size())) return false;
      table[0] = mine[0];
    }
    std::memcpy(out + s * 4 * size, table, 4 * size);
  }
  codes.finish();
  return true;
}

WireError read_tables(const WireKernels& kernels, ValueForm form,
                      const std::byte* in, const std::byte* end,
                      std::span<const std::uint64_t> starts, float* values) {
  const std::size_t segments = starts.size() - 1;
  const std::size_t size = table_size(form);
  const std::byte* codes = in + segments * 4 * size;
  constexpr std::size_t kSome = 256;
  std::uint32_t some[kSome];
  for (std::size_t s = 0; s < segments; ++s) {
    float table[kTable] = {};
    if (!kernels.copy_finite(in + s * 4 * size, size, table)) {
      return WireError::kValueFinite;
    }
    if (form == ValueForm::kOne) {
      std::fill(values + starts[s], values + starts[s + 1], table[0]);
      continue;
    }
    for (std::uint64_t i = starts[s]; i < starts[s + 1]; i += kSome) {
      const std::size_t n = std::min(kSome, starts[s + 1] - i);
      kernels.unpack(codes, end, 2 * (i - starts[0]), n, 2, some);
      for (std::size_t j = 0; j < n; ++j) values[i + j] = table[some[j]];
    }
  }
  return WireError::kNone;
}

WireError read_halves(ValueForm form, const std::byte* in,
                      std::span<float> values) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, in + 2 * i, 2);
    values[i] = form == ValueForm::kBf16 ? from_bf16(half) : from_fp16(half);
    bad |= magnitude_key(values[i]) >= kInfKey ? 1U : 0U;
  }
  return bad == 0 ? WireError::kNone : WireError::kValueFinite;
}

}  // namespace

bool write_values(const WireKernels& kernels, ValueForm form,
                  const float* values, std::span<const std::uint64_t> starts,
                  std::byte* out) {
  const std::span<const float> mine(values + starts.front(),
                                    starts.back() - starts.front());
  switch (form) {
    case ValueForm::kFp32:
      if (!mine.empty()) std::memcpy(out, mine.data(), mine.size_bytes());
      return true;
    case ValueForm::kBf16:
    case ValueForm::kFp16:
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const std::uint16_t half =
            form == ValueForm::kBf16 ? to_bf16(mine[i]) : to_fp16(mine[i]);
        std::memcpy(out + 2 * i, &half, 2);
      }
      return true;
    case ValueForm::kOne:
    case ValueForm::kTwoBit:
      return write_tables(kernels, form, values, starts, out);
  }
  return false;
}

WireError read_values(const WireKernels& kernels, ValueForm form, Reader& in,
                      std::span<const std::uint64_t> starts, float* values) {
  const std::uint64_t count = starts.back() - starts.front();
  const std::size_t bytes = value_bytes(count, starts.size() - 1, form);
  if (bytes > in.left()) return WireError::kValueSection;
  const std::byte* at = in.at;
  in.at += bytes;
  float* mine = values + starts.front();
  switch (form) {
    case ValueForm::kFp32:
      return kernels.copy_finite(at, count, mine) ? WireError::kNone
                                                  : WireError::kValueFinite;
    case ValueForm::kBf16:
    case ValueForm::kFp16:
      return read_halves(form, at, {mine, count});
    case ValueForm::kOne:
    case ValueForm::kTwoBit:
      return read_tables(kernels, form, at, in.at, starts, values);
  }
  return WireError::kForm;
}

}  // namespace sluice::cpu::wire
