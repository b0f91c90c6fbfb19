#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// What the tests of run folders, data and training share: folders, files,
// messages.

namespace sluice::testing {

using Bytes = std::vector<std::uint8_t>;

// What `f` throws as an E; a failure, and its message, if it throws otherwise.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception: " << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no exception";
  return {};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
#define EXPECT_CONTAINS(text, part) \
  EXPECT_PRED2(::sluice::testing::contains, text, part)

// A folder that is removed with all it holds.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string operator/(std::string_view name) const {
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

void write_bytes(const std::string& path, const Bytes& bytes);
Bytes read_bytes(const std::string& path);
void write_gzip(const std::string& path, const Bytes& bytes);

// An IDX file of bytes: a magic, dimensions, data.
Bytes idx(const std::vector<std::uint32_t>& dims, const Bytes& data);

// So many bytes, all different from their neighbours.
Bytes counting(std::size_t n);

}  // namespace sluice::testing
