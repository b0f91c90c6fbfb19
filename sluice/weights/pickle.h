#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Reads what torch.save pickles of a state_dict, as data: nothing is ever
// called. Only the few opcodes and globals that a state_dict needs are known.
class Pickle {
 public:
  using Id = std::uint32_t;  // of a value
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kTuple,
    kList,
    kDict,     // items: key, value, key, value, ...
    kGlobal,   // text: "torch FloatStorage"
    kStorage,  // items: type (a global), key (a text); number: elements
    kTensor,   // items: storage, sizes, strides (tuples); number: offset
    kMark
  };
  struct Value {
    Kind kind = Kind::kNone;
    std::int64_t number = 0;
    double real = 0;
    std::string text;
    std::vector<Id> items;
  };

  // Throws std::runtime_error, without tag and path, for what is not a pickle
  // or has an opcode or a global that is not known, which is named.
  explicit Pickle(std::span<const std::byte> bytes);

  const Value& root() const { return values_[root_]; }
  const Value& at(Id id) const { return values_[id]; }

 private:
  void step(std::uint8_t code);
  bool push_plain(std::uint8_t code);
  bool push_text(std::uint8_t code);
  bool memo(std::uint8_t code);
  bool gather(std::uint8_t code);
  void reduce();
  void build();
  void store(std::size_t slot);
  void recall(std::size_t slot);
  void persistent();
  void global(std::string text);
  void rebuild_tensor(const std::vector<Id>& args);
  void append(const std::vector<Id>& items);
  void set_items(const std::vector<Id>& items);

  Id push(Value value);
  Id pop();
  std::vector<Id> pop_to_mark();
  void tuple_of(std::vector<Id> items);
  Value& top_of(Kind kind, const char* what);

  std::span<const std::byte> take(std::uint64_t n);
  std::string text_of(std::uint64_t n);
  std::string line();
  std::uint64_t number(std::size_t bytes);

  std::span<const std::byte> rest_;
  std::vector<Value> values_;
  std::vector<Id> stack_;
  std::vector<Id> memo_;
  Id root_ = 0;
};

}  // namespace sluice
