#include "sluice/run/line_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace sluice {
namespace {

TEST(LineWriter, DeliversAllToAReaderInOrder) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string expected;
  {
    LineWriter out(ends[1]);
    for (int i = 0; i < 100; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      out.write(line);
      expected += line;
    }
  }
  close(ends[1]);
  std::string got;
  char part[256];
  for (ssize_t n = 0; (n = read(ends[0], part, sizeof(part))) > 0;) {
    got.append(part, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  EXPECT_EQ(got, expected);
}

TEST(LineWriter, IsNotHeldUpByAReaderThatDoesNotRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    LineWriter out(ends[1]);
    const std::string line(1000, 'x');
    for (int i = 0; i < 2000; ++i) out.write(line);
    EXPECT_EQ(out.problem(), "");
  }
  close(ends[0]);
  close(ends[1]);
}

// Without a signal that would end the process.
TEST(LineWriter, OutlivesItsReader) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  LineWriter out(ends[1]);
  out.write("nobody is there\n");
  out.finish();
  EXPECT_TRUE(out.reader_is_gone());
  close(ends[1]);
}

TEST(LineWriter, SaysThatADiskIsFull) {
  const int full = open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "there is no /dev/full";
  LineWriter out(full);
  out.write("too much\n");
  out.finish();
  EXPECT_EQ(out.problem(), "No space left on device");
  EXPECT_FALSE(out.reader_is_gone());
  close(full);
}

}  // namespace
}  // namespace sluice
