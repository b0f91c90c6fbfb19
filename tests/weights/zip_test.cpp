#include "sluice/weights/zip.h"

#include <gtest/gtest.h>

#include <cstring>

#include "files.h"
#include "weights/zip_writer.h"

namespace sluice {
namespace {

using testing::message_of;
using testing::ZipWriter;

std::string text_in(const std::string& file, std::string_view name) {
  const ZipDirectory zip(std::as_bytes(std::span(file)));
  const auto bytes = zip.read(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refused(const std::string& file, std::string_view name = "a/b") {
  return message_of<std::runtime_error>([&] { text_in(file, name); });
}

TEST(Zip, ReadsStoredEntries) {
  for (const bool zip64 : {false, true}) {
    ZipWriter writer;
    writer.zip64 = zip64;
    writer.add("a/b", "hello").add("a/c", "");
    EXPECT_EQ(text_in(writer.str(), "a/b"), "hello");
    EXPECT_EQ(text_in(writer.str(), "a/c"), "");
    writer.comment = "with a comment";
    EXPECT_EQ(text_in(writer.str(), "a/b"), "hello");
  }
}

TEST(Zip, HasTheCrcOfOthers) {
  EXPECT_EQ(crc32(std::as_bytes(std::span("123456789", 9))), 0xcbf43926U);
}

TEST(Zip, RefusesDamagedAndMissingEntries) {
  ZipWriter writer;
  writer.crc_flip = 1;
  writer.add("a/b", "hello");
  EXPECT_EQ(refused(writer.str()),
            "entry 'a/b' is damaged: its CRC must be 907060871, is 907060870");
  EXPECT_EQ(refused(writer.str(), "x"), "entry 'x' must be there, is not");
}

TEST(Zip, RefusesCompressedAndEncryptedEntries) {
  ZipWriter packed;
  packed.method = 8;
  packed.add("a/b", "hello");
  EXPECT_EQ(refused(packed.str()),
            "entry 'a/b' must be stored as it is, is compressed; torch.save "
            "stores them so");
  ZipWriter secret;
  secret.flags = 1;
  secret.add("a/b", "hello");
  EXPECT_EQ(refused(secret.str()), "entry 'a/b' must not be encrypted");
}

TEST(Zip, RefusesEntriesThatShareBytes) {
  ZipWriter twice;
  twice.add("a/b", "hello").add("a/b", "hello");
  EXPECT_EQ(refused(twice.str()),
            "entry 'a/b' must be there once, is there twice");
  // The second header is data of the first.
  ZipWriter inner;
  inner.add("x", "y");
  const std::string header = inner.str().substr(0, 32);
  ZipWriter outer;
  outer.add("a", header);
  outer.entry("x", 0, 1, 31);
  EXPECT_EQ(refused(outer.str()), "entries 'a' and 'x' must not overlap");
}

TEST(Zip, RefusesSizesBeyondTheFile) {
  ZipWriter large;
  large.zip64 = true;
  large.add("a/b", "hello");
  large.entry("a/b", 0, std::uint64_t{1} << 60, 0);
  EXPECT_CONTAINS(refused(large.str()),
                  "the data of an entry must lie within the file of 38 bytes");
  ZipWriter far;
  far.zip64 = true;
  far.entry("a/b", 0, 5, ~std::uint64_t{0} - 2);
  EXPECT_CONTAINS(refused(far.str()),
                  "the header of an entry must lie within the file");
  ZipWriter other;
  other.add("a/b", "hello");
  other.entry("a/c", 0, 5, 0);
  EXPECT_EQ(refused(other.str()), "entry 'a/c' must have its own header at 0");
}

TEST(Zip, RefusesEveryCutAndSurvivesEveryChangedByte) {
  for (const bool zip64 : {false, true}) {
    ZipWriter writer;
    writer.zip64 = zip64;
    const std::string file = writer.add("a/b", "hello").str();
    for (std::size_t n = 0; n < file.size(); ++n) {
      EXPECT_FALSE(refused(file.substr(0, n)).empty()) << n;
      for (const char value : {'\0', '\1', '\x7f', '\xff'}) {
        std::string changed = file;
        changed[n] = value;
        try {
          EXPECT_EQ(text_in(changed, "a/b"), "hello");
        } catch (const std::runtime_error&) {
        }
      }
    }
  }
}

TEST(Zip, FindsTheOneEntryOfAnArchive) {
  ZipWriter writer;
  writer.add("m/data.pkl", "x").add("m/data/0", "");
  const std::string file = writer.str();
  const ZipDirectory zip(std::as_bytes(std::span(file)));
  EXPECT_EQ(zip.prefix_of("data.pkl"), "m/");
  const std::string both = writer.add("n/data.pkl", "").str();
  EXPECT_EQ(
      message_of<std::runtime_error>([&] {
        ZipDirectory(std::as_bytes(std::span(both))).prefix_of("data.pkl");
      }),
      "there must be one entry 'data.pkl', there are 2");
}

}  // namespace
}  // namespace sluice
