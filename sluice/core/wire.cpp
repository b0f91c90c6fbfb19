#include "sluice/core/wire.h"

#include <iterator>

#include "sluice/core/error.h"

namespace sluice {

ValueForm value_form(std::string_view owner, std::string_view name) {
  for (const ValueForm form : {ValueForm::kFp32, ValueForm::kBf16}) {
    if (name == name_of(form)) return form;
  }
  require(name == name_of(ValueForm::kFp16), "[", owner,
          "] values must be fp32, bf16 or fp16, got '", name, "'");
  return ValueForm::kFp16;
}

std::string_view describe(WireError error) {
  // In the order of WireError.
  constexpr std::string_view kTexts[] = {
      "no error",
      "truncated: a message must hold at least its header",
      "magic: the first four bytes must read SLUC",
      "version: only wire version 3 is known",
      "form: index and value forms must be known ones",
      "reserved: reserved fields must be zero",
      "dense size: sender and receiver must agree on it",
      "parts: they must cover the receiver's segments",
      "count: parts must add up to it, with no more entries than elements",
      "capacity: the entries must fit the block that receives them",
      "lengths: header, parts and sections must add up to the message",
      "checksum: the bytes are not those that were sent",
      "index section: it must match its part's count and segments",
      "index order: indices must ascend strictly",
      "index range: indices must be below the dense size",
      "value section: it must match its part's count",
      "value: values must be finite",
  };
  static_assert(std::size(kTexts) ==
                static_cast<std::size_t>(WireError::kValueFinite) + 1);
  const auto which = static_cast<std::size_t>(error);
  return which < std::size(kTexts) ? kTexts[which] : "unknown";
}

}  // namespace sluice
