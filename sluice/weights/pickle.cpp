#include "sluice/weights/pickle.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

// A state_dict of 100,000 tensors makes fewer.
constexpr std::size_t kMostValues = std::size_t{1} << 22;
constexpr Pickle::Id kNothing = ~Pickle::Id{0};

constexpr std::string_view kRebuildTensor = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter =
    "torch._utils _rebuild_parameter";
constexpr std::string_view kOrderedDict = "collections OrderedDict";
constexpr std::array<std::string_view, 13> kGlobals = {kOrderedDict,
                                                       kRebuildTensor,
                                                       kRebuildParameter,
                                                       "torch DoubleStorage",
                                                       "torch FloatStorage",
                                                       "torch HalfStorage",
                                                       "torch BFloat16Storage",
                                                       "torch LongStorage",
                                                       "torch IntStorage",
                                                       "torch ShortStorage",
                                                       "torch CharStorage",
                                                       "torch ByteStorage",
                                                       "torch BoolStorage"};

// Those that are refused, for the message.
struct OpcodeName {
  std::uint8_t code;
  std::string_view name;
};
constexpr OpcodeName kRefused[] = {{'i', "INST"},
                                   {'o', "OBJ"},
                                   {0x81, "NEWOBJ"},
                                   {0x92, "NEWOBJ_EX"},
                                   {0x82, "EXT1"},
                                   {0x83, "EXT2"},
                                   {0x84, "EXT4"},
                                   {'P', "PERSID"},
                                   {'0', "POP"},
                                   {'1', "POP_MARK"},
                                   {'2', "DUP"},
                                   {'F', "FLOAT"},
                                   {'I', "INT"},
                                   {'L', "LONG"},
                                   {'S', "STRING"},
                                   {'T', "BINSTRING"},
                                   {'U', "SHORT_BINSTRING"},
                                   {'V', "UNICODE"},
                                   {'g', "GET"},
                                   {'p', "PUT"},
                                   {'d', "DICT"},
                                   {'l', "LIST"},
                                   {0x8b, "LONG4"},
                                   {'B', "BINBYTES"},
                                   {'C', "SHORT_BINBYTES"},
                                   {0x8d, "BINUNICODE8"},
                                   {0x8e, "BINBYTES8"},
                                   {0x8f, "EMPTY_SET"},
                                   {0x90, "ADDITEMS"},
                                   {0x91, "FROZENSET"},
                                   {0x96, "BYTEARRAY8"},
                                   {0x97, "NEXT_BUFFER"},
                                   {0x98, "READONLY_BUFFER"}};

std::string opcode_text(std::uint8_t code) {
  char hex[8];
  std::snprintf(hex, sizeof(hex), "0x%02x", unsigned{code});
  for (const auto& [known, name] : kRefused) {
    if (known == code) return concat(name, " (", hex, ")");
  }
  return hex;
}

constexpr std::string_view kPickleAdvice =
    "; save the weights alone: torch.save(model.state_dict(), PATH)";

}  // namespace

Pickle::Pickle(std::span<const std::byte> bytes) : rest_(bytes) {
  while (true) {
    const auto code = static_cast<std::uint8_t>(number(1));
    if (code == '.') break;
    step(code);
  }
  root_ = pop();
  ensure(stack_.empty(), "the pickle must leave one value, leaves ",
         stack_.size() + 1);
}

void Pickle::step(std::uint8_t code) {
  if (push_plain(code) || push_text(code) || memo(code) || gather(code)) return;
  switch (code) {
    case 0x80: {  // PROTO
      const std::uint64_t protocol = number(1);
      ensure(protocol >= 2 && protocol <= 5,
             "the pickle must be of protocol 2 to 5, is of ", protocol);
      return;
    }
    case 0x95:  // FRAME: a hint for readers of streams
      number(8);
      return;
    case 'c': {  // GLOBAL
      std::string name = line();
      name.append(" ").append(line());
      return global(std::move(name));
    }
    case 0x93: {  // STACK_GLOBAL
      const Value& name = values_[pop()];
      const Value& module = values_[pop()];
      ensure(name.kind == Kind::kText && module.kind == Kind::kText,
             "STACK_GLOBAL must find two texts");
      return global(module.text + " " + name.text);
    }
    case 'Q':
      return persistent();  // BINPERSID
    case 'R':
      return reduce();  // REDUCE
    case 'b':
      return build();  // BUILD
    default:
      ensure(false, "the pickle has the opcode ", opcode_text(code),
             ", which a state_dict does not need", kPickleAdvice);
  }
}

bool Pickle::push_plain(std::uint8_t code) {
  Value value;
  switch (code) {
    case '(':
      value.kind = Kind::kMark;
      break;
    case 'N':
      break;
    case 0x88:
    case 0x89:
      value.kind = Kind::kBool;
      value.number = code == 0x88 ? 1 : 0;
      break;
    case 'J':
      value.kind = Kind::kInt;
      value.number = static_cast<std::int32_t>(number(4));
      break;
    case 'K':
    case 'M':
      value.kind = Kind::kInt;
      value.number = static_cast<std::int64_t>(number(code == 'K' ? 1 : 2));
      break;
    case 0x8a: {  // LONG1: two's complement, as short as it goes
      value.kind = Kind::kInt;
      const std::uint64_t bytes = number(1);
      ensure(bytes <= 8, "numbers must have at most 8 bytes, one has ", bytes);
      if (bytes == 0) break;
      const auto shift = static_cast<unsigned>(64 - 8 * bytes);
      value.number = static_cast<std::int64_t>(number(bytes) << shift) >> shift;
      break;
    }
    case 'G': {  // BINFLOAT: big endian
      value.kind = Kind::kFloat;
      value.real = std::bit_cast<double>(__builtin_bswap64(number(8)));
      break;
    }
    case '}':
      value.kind = Kind::kDict;
      break;
    case ']':
      value.kind = Kind::kList;
      break;
    case ')':
      value.kind = Kind::kTuple;
      break;
    default:
      return false;
  }
  push(std::move(value));
  return true;
}

bool Pickle::push_text(std::uint8_t code) {
  if (code != 'X' && code != 0x8c) return false;
  Value value;
  value.kind = Kind::kText;
  value.text = text_of(number(code == 'X' ? 4 : 1));
  push(std::move(value));
  return true;
}

bool Pickle::memo(std::uint8_t code) {
  switch (code) {
    case 'q':
      store(number(1));
      return true;
    case 'r':
      store(number(4));
      return true;
    case 0x94:
      store(memo_.size());
      return true;
    case 'h':
      recall(number(1));
      return true;
    case 'j':
      recall(number(4));
      return true;
    default:
      return false;
  }
}

void Pickle::store(std::size_t slot) {
  // Picklers count slots up by one; any other use would ask for memory.
  ensure(slot <= memo_.size(), "slots of the memo must be used in order, ",
         slot, " comes after ", memo_.size());
  ensure(!stack_.empty(), "the memo must be given a value");
  ensure(values_[stack_.back()].kind != Kind::kMark,
         "the memo must not be given a mark");
  if (slot == memo_.size()) memo_.push_back(kNothing);
  memo_[slot] = stack_.back();
}

void Pickle::recall(std::size_t slot) {
  ensure(slot < memo_.size(), "slot ", slot, " of the memo must have a value");
  stack_.push_back(memo_[slot]);
}

bool Pickle::gather(std::uint8_t code) {
  switch (code) {
    case 't':
      tuple_of(pop_to_mark());
      return true;
    case 0x85:
    case 0x86:
    case 0x87: {
      std::vector<Id> items(code - 0x84U);
      for (std::size_t i = items.size(); i-- > 0;) items[i] = pop();
      tuple_of(std::move(items));
      return true;
    }
    case 'a':
      append({pop()});
      return true;
    case 'e':
      append(pop_to_mark());
      return true;
    case 's': {
      const Id value = pop();
      const Id key = pop();
      set_items({key, value});
      return true;
    }
    case 'u':
      set_items(pop_to_mark());
      return true;
    default:
      return false;
  }
}

void Pickle::append(const std::vector<Id>& items) {
  auto& list = top_of(Kind::kList, "APPEND must find a list").items;
  list.insert(list.end(), items.begin(), items.end());
}

void Pickle::set_items(const std::vector<Id>& items) {
  ensure(items.size() % 2 == 0, "SETITEMS must find keys and values in pairs");
  auto& dict = top_of(Kind::kDict, "SETITEM must find a dict").items;
  dict.insert(dict.end(), items.begin(), items.end());
}

void Pickle::global(std::string text) {
  // The names of a stranger's file: printable, and not all of a long one.
  std::string shown = text.substr(0, 100);
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  ensure(std::find(kGlobals.begin(), kGlobals.end(), text) != kGlobals.end(),
         "the pickle names '", shown,
         "', which is not of a state_dict and is never called", kPickleAdvice);
  Value value;
  value.kind = Kind::kGlobal;
  value.text = std::move(text);
  push(std::move(value));
}

// ('storage', type, key, location, elements)
void Pickle::persistent() {
  const Value& args = values_[pop()];
  const auto is = [&](std::size_t i, Kind kind) {
    return values_[args.items[i]].kind == kind;
  };
  ensure(args.kind == Kind::kTuple && args.items.size() == 5 &&
             is(0, Kind::kText) && values_[args.items[0]].text == "storage" &&
             is(1, Kind::kGlobal) &&
             values_[args.items[1]].text.ends_with("Storage") &&
             is(2, Kind::kText) && is(4, Kind::kInt) &&
             values_[args.items[4]].number >= 0,
         "BINPERSID must find ('storage', type, key, location, elements)");
  Value value;
  value.kind = Kind::kStorage;
  value.items = {args.items[1], args.items[2]};
  value.number = values_[args.items[4]].number;
  push(std::move(value));
}

void Pickle::reduce() {
  const Value& args = values_[pop()];
  const Value& function = values_[pop()];
  ensure(function.kind == Kind::kGlobal && args.kind == Kind::kTuple,
         "REDUCE must find a global and a tuple");
  if (function.text == kOrderedDict && args.items.empty()) {
    Value value;
    value.kind = Kind::kDict;
    push(std::move(value));
  } else if (function.text == kRebuildTensor) {
    rebuild_tensor(args.items);
  } else if (function.text == kRebuildParameter && !args.items.empty() &&
             values_[args.items[0]].kind == Kind::kTensor) {
    stack_.push_back(args.items[0]);
  } else {
    ensure(false, "REDUCE of '", function.text, "' with ", args.items.size(),
           " arguments is not of a state_dict", kPickleAdvice);
  }
}

// (storage, offset, sizes, strides, requires_grad, hooks)
void Pickle::rebuild_tensor(const std::vector<Id>& args) {
  const auto is = [&](std::size_t i, Kind kind) {
    return values_[args[i]].kind == kind;
  };
  ensure(
      args.size() >= 4 && is(0, Kind::kStorage) && is(1, Kind::kInt) &&
          is(2, Kind::kTuple) && is(3, Kind::kTuple),
      "_rebuild_tensor_v2 must have a storage, an offset, sizes and strides");
  Value value;
  value.kind = Kind::kTensor;
  value.items = {args[0], args[2], args[3]};
  value.number = values_[args[1]].number;
  push(std::move(value));
}

// The state of an OrderedDict, which is torch's _metadata: not needed.
void Pickle::build() {
  pop();
  top_of(Kind::kDict, "BUILD must find an OrderedDict");
}

Pickle::Id Pickle::push(Value value) {
  ensure(values_.size() < kMostValues, "the pickle must make at most ",
         kMostValues, " values, makes more");
  values_.push_back(std::move(value));
  stack_.push_back(static_cast<Id>(values_.size() - 1));
  return stack_.back();
}

Pickle::Id Pickle::pop() {
  ensure(!stack_.empty() && values_[stack_.back()].kind != Kind::kMark,
         "the pickle takes a value that is not there");
  const Id id = stack_.back();
  stack_.pop_back();
  return id;
}

std::vector<Pickle::Id> Pickle::pop_to_mark() {
  const auto mark = std::find_if(stack_.rbegin(), stack_.rend(), [&](Id id) {
    return values_[id].kind == Kind::kMark;
  });
  ensure(mark != stack_.rend(), "the pickle takes values without a mark");
  std::vector<Id> items(mark.base(), stack_.end());
  stack_.erase(mark.base() - 1, stack_.end());
  return items;
}

void Pickle::tuple_of(std::vector<Id> items) {
  Value value;
  value.kind = Kind::kTuple;
  value.items = std::move(items);
  push(std::move(value));
}

Pickle::Value& Pickle::top_of(Kind kind, const char* what) {
  ensure(!stack_.empty() && values_[stack_.back()].kind == kind, what);
  return values_[stack_.back()];
}

std::span<const std::byte> Pickle::take(std::uint64_t n) {
  ensure(n <= rest_.size(), "the pickle ends too early");
  const auto taken = rest_.first(n);
  rest_ = rest_.subspan(n);
  return taken;
}

std::string Pickle::text_of(std::uint64_t n) {
  const auto bytes = take(n);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Pickle::line() {
  const auto end = std::find(rest_.begin(), rest_.end(), std::byte{'\n'});
  ensure(end != rest_.end(), "the pickle ends within a line");
  std::string text = text_of(static_cast<std::size_t>(end - rest_.begin()));
  take(1);
  return text;
}

std::uint64_t Pickle::number(std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, take(bytes).data(), bytes);
  return value;
}

}  // namespace sluice
