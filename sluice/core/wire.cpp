#include "sluice/core/wire.h"

namespace sluice {

std::size_t value_bytes(std::uint64_t count, std::uint64_t segments,
                        ValueForm form) {
  switch (form) {
    case ValueForm::kFp32:
      return 4 * count;
    case ValueForm::kBf16:
    case ValueForm::kFp16:
      return 2 * count;
    case ValueForm::kOne:
      return 4 * segments;
    case ValueForm::kTwoBit:  // whole words of codes
      return 16 * segments + (2 * count + 63) / 64 * 8;
  }
  return 0;
}

std::string_view describe(WireError error) {
  switch (error) {
    case WireError::kNone:
      return "no error";
    case WireError::kTruncated:
      return "truncated: a message must hold at least its header";
    case WireError::kMagic:
      return "magic: the first four bytes must read SLUC";
    case WireError::kVersion:
      return "version: only wire version 2 is known";
    case WireError::kForm:
      return "form: index and value forms must be known ones";
    case WireError::kReserved:
      return "reserved: reserved fields must be zero";
    case WireError::kDenseSize:
      return "dense size: sender and receiver must agree on it";
    case WireError::kParts:
      return "parts: they must cover the receiver's segments";
    case WireError::kCount:
      return "count: parts must add up to it, with no more entries than "
             "elements";
    case WireError::kCapacity:
      return "capacity: the entries must fit the block that receives them";
    case WireError::kLengths:
      return "lengths: header, parts and sections must add up to the message";
    case WireError::kChecksum:
      return "checksum: the bytes are not those that were sent";
    case WireError::kIndexSection:
      return "index section: it must match its part's count and segments";
    case WireError::kIndexOrder:
      return "index order: indices must ascend strictly";
    case WireError::kIndexRange:
      return "index range: indices must be below the dense size";
    case WireError::kValueSection:
      return "value section: it must match its part's count";
    case WireError::kValueFinite:
      return "value: values must be finite";
  }
  return "unknown";
}

}  // namespace sluice
