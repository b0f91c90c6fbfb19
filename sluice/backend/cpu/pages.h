#pragma once

#include <cstddef>

namespace sluice::cpu {

// Zeroed memory straight from the kernel, aligned to a page, with huge pages
// where they pay. Pages that are never touched cost nothing, so callers may ask
// for the worst case. 0 bytes give a null pointer. Throws std::bad_alloc.
void* map_pages(std::size_t bytes);
void unmap_pages(void* data, std::size_t bytes);

// How often map_pages has mapped something, for tests of steady state.
std::size_t pages_mapped();

}  // namespace sluice::cpu
