#include "sluice/collective/exchange.h"

#include <bit>

namespace sluice {

Fold::Fold(std::size_t r, std::size_t size)
    : rank(r), power(std::bit_floor(size)), rest(size - std::bit_floor(size)) {}

}  // namespace sluice
