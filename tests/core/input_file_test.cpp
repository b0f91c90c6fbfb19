#include "sluice/core/input_file.h"

#include <sys/stat.h>

#include "files.h"

namespace sluice::testing {
namespace {

TEST(InputFile, IsReadWholeOrNotAtAll) {
  const TempFolder folder;
  write_bytes(folder / "a", {'h', 'i'});
  EXPECT_EQ(read_text_file("test", folder / "a"), "hi");
  EXPECT_EQ(message_of<std::runtime_error>(
                [&] { read_text_file("test", folder / "a", 1); }),
            "[test] '" + folder / "a" +
                "' must have at most 1 bytes, has 2; it is something else");
  EXPECT_CONTAINS(
      message_of<std::runtime_error>([&] {
        // It says that it has no bytes, and has no end.
        read_text_file("test", "/dev/zero");
      }),
      "'/dev/zero' must be a file that can be read: it is a device");
}

TEST(InputFile, SaysWhatIsNone) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(why_no_file(folder / "pipe"),
            "it is a pipe; save what comes out of it to a file");
  EXPECT_EQ(why_no_file(folder.path()), "it is a directory");
  EXPECT_EQ(why_no_file(folder / "none"), "No such file or directory");
}

}  // namespace
}  // namespace sluice::testing
