#include "sluice/core/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "files.h"
#include "sluice/core/fd.h"
#include "sluice/core/input_file.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

class SharedFolder : public ::testing::Test {
 protected:
  SharedFolder() { write_bytes(other_, {'o', 'l', 'd'}); }
  std::string text_of(const std::string& path) {
    return read_text_file("test", path);
  }

  TempFolder folder_;
  std::string other_ = folder_ / "of-somebody-else";
  std::string path_ = folder_ / "a";
  std::string partial_ = path_ + ".partial";
};

// Of whatever lies at the name that anyone can guess.
TEST_F(SharedFolder, IsWrittenThroughNothingThatLiesInTheWay) {
  const std::function<void()> ways[] = {
      [&] { fs::create_symlink(other_, partial_); },
      [&] { fs::create_symlink(folder_ / "none", partial_); },
      [&] { fs::create_hard_link(other_, partial_); },
      [&] { ASSERT_EQ(mkfifo(partial_.c_str(), 0600), 0); },
      [&] { write_bytes(partial_, Bytes(1000, 'x')); }};
  for (const auto& put : ways) {
    put();
    write_text(path_, "new");
    EXPECT_EQ(text_of(path_), "new");
    EXPECT_EQ(text_of(other_), "old");
    EXPECT_FALSE(fs::exists(fs::symlink_status(partial_)));
    EXPECT_FALSE(fs::exists(folder_ / "none"));
    fs::remove(path_);
  }
}

TEST_F(SharedFolder, SaysWhatCannotBeRemoved) {
  fs::create_directory(partial_);
  EXPECT_EQ(message_of<std::runtime_error>([&] { write_text(path_, "new"); }),
            "[write] '" + path_ + "' could not be written: '" + partial_ +
                "' is in the way and cannot be removed: Is a directory");
}

TEST_F(SharedFolder, AppendsToFilesAlone) {
  const auto complaint = [&] {
    return message_of<std::runtime_error>(
        [&] { open_to_append("test", path_); });
  };
  const std::string must =
      "[test] '" + path_ + "' must be a file that can be written, but: ";
  fs::create_symlink(other_, path_);
  EXPECT_EQ(complaint(), must + "it is a symbolic link; remove the link");
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(complaint(), must + "it is a pipe or a device; remove it");
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_EQ(complaint(), must + "Is a directory");
  fs::remove(path_);
  for (const char* text : {"a", "b"}) {
    const Fd file(open_to_append("test", path_));
    ASSERT_EQ(write(file.get(), text, 1), 1);
  }
  EXPECT_EQ(text_of(path_), "ab");
}

}  // namespace
}  // namespace sluice::testing
