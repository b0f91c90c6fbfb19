#include "sluice/run/checkpoint.h"

#include <signal.h>
#include <sys/resource.h>

#include <cstring>

#include "files.h"
#include "sluice/run/run_state.h"

namespace sluice::testing {
namespace {

using Invalid = std::invalid_argument;
using Broken = std::runtime_error;

// Some tensors, and where their elements are.
struct Sample {
  Bytes first = counting(24);
  Bytes second = counting(3);
  std::vector<StoredTensor> tensors = {
      {"model/fc.weight", "float32", {2, 3}, std::as_bytes(std::span(first))},
      {"mask", "uint8", {3}, std::as_bytes(std::span(second))},
      {"nothing", "float64", {0, 5}, {}},
  };
  void write(const std::string& path, std::string_view header = R"({"a":1})") {
    Checkpoint::write(path, header, tensors);
  }
};

bool same(std::span<const std::byte> a, const Bytes& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), b.size()) == 0;
}

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  const TempFolder folder;
  Sample sample;
  sample.write(folder / "c", R"({"step": 7, "name": "r\u00e9sum\u00e9"})");
  const Checkpoint read = Checkpoint::read(folder / "c");
  EXPECT_EQ(read.header(), "{\"name\":\"r\u00e9sum\u00e9\",\"step\":7}");
  ASSERT_EQ(read.tensors().size(), 3U);
  const StoredTensor& weight = read.at("model/fc.weight");
  EXPECT_EQ(weight.dtype, "float32");
  EXPECT_EQ(weight.dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(same(weight.data, sample.first));
  EXPECT_TRUE(same(read.at("mask").data, sample.second));
  EXPECT_TRUE(read.at("nothing").data.empty());
  EXPECT_EQ(read.at("nothing").dims, (std::vector<std::int64_t>{0, 5}));
  EXPECT_FALSE(std::filesystem::exists(folder / "c.partial"));
}

TEST(Checkpoint, HoldsNothingAsWell) {
  const TempFolder folder;
  Checkpoint::write(folder / "c", "{}", {});
  const Checkpoint read = Checkpoint::read(folder / "c");
  EXPECT_TRUE(read.tensors().empty());
  EXPECT_EQ(
      message_of<Invalid>([&] { read.at("x"); }),
      "[checkpoint] '" + folder / "c" + "' has no tensor 'x' among its 0");
}

TEST(Checkpoint, NoticesEveryFlippedBit) {
  const TempFolder folder;
  Sample sample;
  sample.write(folder / "c");
  const Bytes good = read_bytes(folder / "c");
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= static_cast<std::uint8_t>(1U << (i % 8));
    write_bytes(folder / "bad", bad);
    EXPECT_THROW(Checkpoint::read(folder / "bad"), Broken) << "byte " << i;
  }
}

TEST(Checkpoint, NoticesEveryCutAndWhatIsAdded) {
  const TempFolder folder;
  Sample sample;
  sample.write(folder / "c");
  const Bytes good = read_bytes(folder / "c");
  for (std::size_t n = 0; n < good.size(); ++n) {
    write_bytes(folder / "bad", Bytes(good.begin(), good.begin() + long(n)));
    const auto text =
        message_of<Broken>([&] { Checkpoint::read(folder / "bad"); });
    EXPECT_CONTAINS(text, "it was cut short");
  }
  Bytes longer = good;
  longer.push_back(0);
  write_bytes(folder / "bad", longer);
  EXPECT_CONTAINS(message_of<Broken>([&] { Checkpoint::read(folder / "bad"); }),
                  "bytes by its preamble, has");
}

TEST(Checkpoint, SaysWhatIsWrongWithAFile) {
  const TempFolder folder;
  const std::string path = folder / "c";
  const auto complaint = [&] {
    return message_of<Broken>([&] { Checkpoint::read(path); });
  };
  const std::string begin = "[read_checkpoint] '" + path + "' ";
  EXPECT_EQ(complaint(), begin +
                             "must be a file that can be read: No such file or "
                             "directory");
  write_bytes(path, counting(100));
  EXPECT_EQ(complaint(), begin +
                             "must begin with SLUICECK; it is no checkpoint; "
                             "use an older checkpoint");
  Sample sample;
  sample.write(path);
  Bytes bytes = read_bytes(path);
  bytes[8] = 2;
  write_bytes(path, bytes);
  EXPECT_EQ(complaint(),
            begin +
                "must be of version 1, is of version 2; read it with the "
                "Sluice that wrote it; use an older checkpoint");
  bytes[8] = 1;
  bytes[bytes.size() - 20] ^= 1;  // a filling
  write_bytes(path, bytes);
  EXPECT_EQ(complaint(), begin +
                             "must match its checksum; it is damaged; use an "
                             "older checkpoint");
}

TEST(Checkpoint, RefusesWhatItCannotStore) {
  const TempFolder folder;
  const std::string path = folder / "c";
  Sample sample;
  EXPECT_EQ(message_of<Invalid>([&] { sample.write(path, "[1]"); }),
            "[write_checkpoint] the header must be a JSON object, got [1]");
  EXPECT_THROW(sample.write(path, "{"), Invalid);
  sample.tensors[1].name = sample.tensors[0].name;
  EXPECT_CONTAINS(message_of<Invalid>([&] { sample.write(path); }),
                  "names of their own, got 'model/fc.weight' twice");
  sample = {};
  sample.tensors[0].dims = {2, 4};
  EXPECT_EQ(message_of<Invalid>([&] { sample.write(path); }),
            "[write_checkpoint] tensor 'model/fc.weight' must have 32 bytes by "
            "its dimensions, got 24");
  sample.tensors[0].dims = {1LL << 62, 1LL << 62};
  EXPECT_THROW(sample.write(path), Invalid);
  sample.tensors[0].dims = {-2, -3};
  EXPECT_THROW(sample.write(path), Invalid);
  sample = {};
  sample.tensors[0].dtype = "complex64";
  EXPECT_CONTAINS(message_of<Invalid>([&] { sample.write(path); }),
                  "[checkpoint] no element type 'complex64'");
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Limits the size of files that this process may write.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(Checkpoint, LeavesTheOldFileIfTheDiskIsFull) {
  const TempFolder folder;
  const std::string path = folder / "c";
  Sample sample;
  sample.write(path);
  const Bytes old = read_bytes(path);
  const Bytes large = counting(1 << 20);
  sample.tensors = {
      {"large", "uint8", {1 << 20}, std::as_bytes(std::span(large))}};
  {
    const FileSizeLimit limit(100000);
    EXPECT_EQ(message_of<Broken>([&] { sample.write(path); }),
              "[write] '" + path +
                  "' could not be written: File too large; the file that was "
                  "there is as it was");
    EXPECT_CONTAINS(message_of<Broken>([&] { sample.write(folder / "new"); }),
                    "there is no such file, as before");
  }
  EXPECT_EQ(read_bytes(path), old);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  sample.write(path);
  EXPECT_TRUE(same(Checkpoint::read(path).at("large").data, large));
}

TEST(Checkpoint, NamesAFolderThatIsNotThere) {
  Sample sample;
  EXPECT_CONTAINS(
      message_of<Broken>([&] { sample.write("/no/such/folder/c"); }),
      "'/no/such/folder/c' could not be written: No such file or directory");
}

// A resume by another link says that it has other bits.
TEST(RunState, KeepsHowGpusExchanged) {
  const TempFolder folder;
  const auto written = [&](const std::string& header) {
    Checkpoint::write(folder / "c", header, {});
    return run_state_of(Checkpoint::read(folder / "c"), "c").gpu_link;
  };
  RunState state;
  state.plan = "{}";
  for (const std::string link : {"nccl", "mpi", ""}) {
    state.gpu_link = link;
    EXPECT_EQ(written(to_json(state)), link);
  }
  std::string before =
      to_json(state);  // as it was written before there was one
  const std::string entry = R"("gpu_link":"",)";
  before.erase(before.find(entry), entry.size());
  EXPECT_EQ(written(before), "");
  state.gpu_link = "wire";
  EXPECT_CONTAINS(message_of<Broken>([&] { written(to_json(state)); }),
                  "'gpu_link' nccl, mpi or none, has 'wire'");
}

}  // namespace
}  // namespace sluice::testing
