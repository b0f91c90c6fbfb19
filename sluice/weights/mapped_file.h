#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace sluice {

// The bytes of a file as pages that are read when they are touched.
class MappedFile {
 public:
  // Throws std::runtime_error, "[weights] ...", for what is no file that can be
  // read; never waits for a pipe.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(data_), size_};
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice
