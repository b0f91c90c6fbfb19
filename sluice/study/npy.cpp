#include "sluice/study/npy.h"

#include <cctype>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/core/view.h"

namespace sluice {
namespace {

// The text behind 'key': in the header, which is a Python dict.
std::string field(const std::string& header, const std::string& key,
                  const std::string& path) {
  const std::size_t at = header.find("'" + key + "':");
  require(at != std::string::npos, "[npy] the header of ", path, " must name '",
          key, "', got ", header);
  std::size_t begin = at + key.size() + 3;
  while (begin < header.size() && header[begin] == ' ') ++begin;
  const char close = header[begin] == '(' ? ')' : ',';
  const std::size_t end = header.find(close, begin);
  require(end != std::string::npos, "[npy] the header of ", path,
          " must be a complete dictionary, got ", header);
  return header.substr(begin, end - begin + (close == ')' ? 1 : 0));
}

std::vector<std::size_t> parse_shape(const std::string& text,
                                     const std::string& path) {
  std::vector<std::size_t> dims;
  std::size_t number = 0;
  bool digits = false;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      const bool fits =
          !__builtin_mul_overflow(number, std::size_t{10}, &number) &&
          !__builtin_add_overflow(number, static_cast<std::size_t>(c - '0'),
                                  &number);
      require(fits, "[npy] the shape of ", path, " is too large: ", text);
      digits = true;
    } else {
      require(c == '(' || c == ')' || c == ',' || c == ' ',
              "[npy] the shape of ", path, " must be a tuple of numbers, got ",
              text);
      if (digits) dims.push_back(number);
      number = 0;
      digits = false;
    }
  }
  return dims;
}

// Elements of a shape that anyone may have written.
std::size_t checked_size(const std::vector<std::size_t>& dims,
                         const std::string& shape, const std::string& path) {
  std::size_t n = 1;
  for (const std::size_t d : dims) {
    require(d <= (std::size_t{1} << 40) && n <= (std::size_t{1} << 40),
            "[npy] the shape of ", path, " is too large: ", shape);
    n *= d;
  }
  require(n > 0 && n <= (std::size_t{1} << 40), "[npy] ", path,
          " must hold at least 1 value and at most 2^40, got shape ", shape);
  return n;
}

std::string read_header(std::ifstream& in, const std::string& path) {
  char start[8] = {};
  in.read(start, sizeof(start));
  require(in.good() && std::memcmp(start, "\x93NUMPY", 6) == 0, "[npy] ", path,
          " must be a .npy file, which starts with \\x93NUMPY; save it with "
          "numpy.save");
  const int major = static_cast<unsigned char>(start[6]);
  require(major >= 1 && major <= 3, "[npy] ", path,
          " must have format 1 to 3, got ", major);
  std::uint32_t length = 0;
  in.read(reinterpret_cast<char*>(&length), major == 1 ? 2 : 4);
  require(in.good() && length < (1U << 20), "[npy] the header of ", path,
          " must be complete and below 1 MiB");
  std::string header(length, ' ');
  in.read(header.data(), length);
  require(in.good(), "[npy] ", path, " ends inside its header");
  while (!header.empty() &&
         std::isspace(static_cast<unsigned char>(header.back())) != 0) {
    header.pop_back();
  }
  return header;
}

// Fortran order has the first index fastest; ours has the last.
void to_c_order(NpyArray& array) {
  std::vector<float> out(array.values.size());
  std::vector<std::size_t> at(array.dims.size(), 0);
  for (const float value : array.values) {
    std::size_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      offset = offset * array.dims[d] + at[d];
    }
    out[offset] = value;
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (++at[d] < array.dims[d]) break;
      at[d] = 0;
    }
  }
  array.values = std::move(out);
}

}  // namespace

NpyArray read_npy(const std::string& path) {
  const std::string problem = why_no_file(path);
  require(problem.empty(), "[npy] cannot open ", path, ": ", problem);
  std::ifstream in(path, std::ios::binary);
  const std::string header = read_header(in, path);
  const std::string type = field(header, "descr", path);
  require(type == "'<f4'" || type == "'|f4'", "[npy] ", path,
          " must hold little-endian float32 ('<f4'), got ", type,
          "; convert it with array.astype('float32')");
  const std::string order = field(header, "fortran_order", path);
  require(order == "True" || order == "False", "[npy] 'fortran_order' of ",
          path, " must be True or False, got ", order);
  NpyArray array;
  const std::string shape = field(header, "shape", path);
  array.dims = parse_shape(shape, path);
  require(array.dims.size() <= TensorView::kMaxDims, "[npy] ", path,
          " may have at most ", TensorView::kMaxDims, " dimensions, got ",
          array.dims.size());
  const std::size_t n = checked_size(array.dims, shape, path);
  const auto begin = in.tellg();
  in.seekg(0, std::ios::end);
  const auto bytes = static_cast<std::size_t>(in.tellg() - begin);
  require(bytes == n * sizeof(float), "[npy] ", path, " must hold ", n,
          " float32 values (", n * sizeof(float), " bytes), got ", bytes,
          bytes < n * sizeof(float) ? " bytes; is it truncated?"
                                    : " bytes; what follows them?");
  in.seekg(begin);
  array.values.resize(n);
  in.read(reinterpret_cast<char*>(array.values.data()),
          static_cast<std::streamsize>(bytes));
  require(in.good(), "[npy] ", path, " could not be read to its end");
  if (order == "True") to_c_order(array);
  return array;
}

void write_npy(const std::string& path, std::span<const std::size_t> dims,
               std::span<const float> values) {
  std::string shape;
  for (const std::size_t d : dims) shape += concat(d, ", ");
  std::string header = concat(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (", shape, "), }");
  // What comes before the values fills lines of 64 bytes.
  constexpr std::size_t kStart = 10;
  header.append(63 - (kStart + header.size()) % 64, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() % 256);
  start += static_cast<char>(header.size() / 256);
  start += header;
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(start)));
  file.write(std::as_bytes(values));
  file.commit();
}

}  // namespace sluice
