#include "sluice/core/message.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace sluice {
namespace {

TEST(Message, NamesFilesAndWhatToDo) {
  const std::string name(300, 'x');
  try {
    [[maybe_unused]] const auto size = std::filesystem::file_size(name);
    FAIL() << "no such file";
  } catch (const std::exception& e) {
    EXPECT_EQ(message_of(e), "[files] '" + name +
                                 "' must be usable, but: File name too long; "
                                 "check the name, the permissions and the "
                                 "disk");
  }
}

TEST(Message, SaysThatThreadsAreShort) {
  const std::system_error e(
      std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_EQ(message_of(e),
            "[threads] another thread must be startable, but: Resource "
            "temporarily unavailable; allow more processes and memory (ulimit "
            "-u, ulimit -v, the limits of the container), or use fewer "
            "workers and threads");
}

TEST(Message, LeavesTheOthersAsTheyAre) {
  EXPECT_EQ(message_of(std::runtime_error("[a] b")), "[a] b");
}

}  // namespace
}  // namespace sluice
