#include "sluice/run/events.h"

#include <bit>
#include <cstring>

#include "files.h"
#include "sluice/run/crc32c.h"

namespace sluice::testing {
namespace {

TEST(Crc32c, MatchesThePublishedValues) {
  static_assert(crc32c("123456789") == 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

template <class T>
T at(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The data of each record; checks lengths and checksums.
std::vector<std::string> records(const std::string& path) {
  const Bytes raw = read_bytes(path);
  const std::string bytes(raw.begin(), raw.end());
  const auto masked = [](std::string_view part) {
    return std::rotr(crc32c(part), 15) + 0xa282ead8U;
  };
  std::vector<std::string> found;
  for (std::size_t i = 0; i < bytes.size();) {
    const auto n = at<std::uint64_t>(bytes, i);
    EXPECT_EQ(at<std::uint32_t>(bytes, i + 8), masked(bytes.substr(i, 8)));
    found.push_back(bytes.substr(i + 12, n));
    EXPECT_EQ(at<std::uint32_t>(bytes, i + 12 + n), masked(found.back()));
    i += 16 + n;
  }
  return found;
}

TEST(Events, FramesScalarsAsTensorBoardReadsThem) {
  const TempFolder folder;
  EventWriter writer(folder / "run");
  writer.add_scalar("loss", 0.5, 300);
  writer.flush();
  const auto found = records(writer.path());
  ASSERT_EQ(found.size(), 3U);
  // Bytes 0 to 8 are the wall time, field 1.
  EXPECT_EQ(found[0].substr(9), std::string("\x10\x00\x1a\x0d"
                                            "brain.Event:2",
                                            17));
  EXPECT_EQ(found[1].substr(9), std::string("\x10\x00\x3a\x02\x08\x01", 6));
  EXPECT_EQ(found[2].substr(9),
            std::string(
                "\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f", 18));
  EXPECT_GT(at<double>(found[2], 1), 1.7e9);
}

TEST(Events, GivesEveryWriterAFileOfItsOwn) {
  const TempFolder folder;
  const EventWriter a(folder.path());
  const EventWriter b(folder.path());
  EXPECT_NE(a.path(), b.path());
  EXPECT_CONTAINS(a.path(), "events.out.tfevents.");
}

TEST(Events, SaysWhereItCannotWrite) {
  const TempFolder folder;
  write_bytes(folder / "file", {1});
  EXPECT_CONTAINS(
      message_of<std::runtime_error>([&] { EventWriter(folder / "file/run"); }),
      "[events] folder '" + folder / "file/run" +
          "' must exist or be possible to make: ");
}

}  // namespace
}  // namespace sluice::testing
