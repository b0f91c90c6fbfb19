#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

// Pickles of state_dicts, opcode by opcode, for tests and fuzzers.

namespace sluice::testing::pickles {

inline std::string number(std::int64_t value) {
  std::string out = "J";
  const auto narrow = static_cast<std::int32_t>(value);
  out.append(reinterpret_cast<const char*>(&narrow), 4);
  return out;
}

inline std::string text(std::string_view value) {
  std::string out = "X";
  const auto size = static_cast<std::uint32_t>(value.size());
  out.append(reinterpret_cast<const char*>(&size), 4);
  return out.append(value);
}

inline std::string global(std::string_view module, std::string_view name) {
  std::string out = "c";
  return out.append(module).append("\n").append(name).append("\n");
}

inline std::string tuple(std::initializer_list<std::int64_t> values) {
  std::string out = "(";
  for (const std::int64_t value : values) out += number(value);
  return out + "t";
}

inline std::string storage(std::string_view type, std::string_view key,
                           std::int64_t elements) {
  return "(" + text("storage") + global("torch", type) + text(key) +
         text("cpu") + number(elements) + "tQ";
}

inline std::string tensor(const std::string& of, std::int64_t offset,
                          std::initializer_list<std::int64_t> sizes,
                          std::initializer_list<std::int64_t> strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + of +
         number(offset) + tuple(sizes) + tuple(strides) + "\x89" +
         global("collections", "OrderedDict") + ")RtR";
}

// {a: b, ...}, of keys and values in turn.
inline std::string dict(std::initializer_list<std::string> items) {
  std::string out = "}(";
  for (const std::string& item : items) out += item;
  return out + "u";
}

inline std::string whole(const std::string& value) {
  return "\x80\x02" + value + ".";
}

}  // namespace sluice::testing::pickles
