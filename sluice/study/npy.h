#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sluice {

struct NpyArray {
  std::vector<std::size_t> dims;
  std::vector<float> values;
};

// Reads a float32 array of any number of dimensions, in C or Fortran order, of
// .npy format 1.0 to 3.0. Throws std::invalid_argument with the reason for
// anything else.
NpyArray read_npy(const std::string& path);

// Writes one, in format 1.0 and C order; the file appears whole or not at all.
// Throws std::runtime_error if it cannot be written.
void write_npy(const std::string& path, std::span<const std::size_t> dims,
               std::span<const float> values);

}  // namespace sluice
