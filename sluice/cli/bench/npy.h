#pragma once

#include <cstddef>
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

}  // namespace sluice
