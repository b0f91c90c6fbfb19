#include "sluice/data/image_folder.h"

#include <sys/stat.h>

#include "image_support.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

using Broken = std::runtime_error;

constexpr std::size_t kFloats = 3 * 32 * 32;
constexpr const char* kSmall = "imagefolder:size=32";

// Two classes: train has cat/{a.jpg, b.PNG, c.jpeg} and dog/{d.jpg, e.jpg}.
class Folder : public ::testing::Test {
 protected:
  Folder() {
    put("train/cat/a.jpg", jpeg({90, 60}, smooth));
    put("train/cat/b.PNG", png({40, 70}, smooth));
    put("train/cat/c.jpeg", jpeg({50, 50}, rough));
    put("train/dog/d.jpg", jpeg({64, 64}, rough));
    put("train/dog/e.jpg", jpeg({300, 200}, smooth));
    put("val/cat/x.jpg", jpeg({80, 64}, smooth));
    put("val/dog/y.jpg", jpeg({64, 80}, rough));
  }
  void put(const std::string& name, const Bytes& bytes) {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    write_bytes(path.string(), bytes);
  }
  std::unique_ptr<Dataset> open(Split split, const std::string& more = "") {
    return make_dataset(kSmall + more, {split, root_.path()});
  }
  std::string complaint(Split split) {
    return message_of<Broken>([&] { open(split); });
  }

  TempFolder root_;
};

std::vector<float> show(const Dataset& data, std::size_t index,
                        std::optional<std::uint64_t> random = {}) {
  std::vector<float> out(kFloats);
  EXPECT_EQ(data.render(index, random, out).problem, "");
  return out;
}

TEST_F(Folder, IsReadInTheOrderOfNames) {
  const auto train = open(Split::kTrain);
  EXPECT_EQ(train->input(), (ImageInput{3, 32, 32, 2}));
  EXPECT_TRUE(train->is_slow());
  ASSERT_EQ(train->size(), 5U);
  const auto& folder = dynamic_cast<const ImageFolder&>(*train);
  EXPECT_EQ(folder.classes(), (std::vector<std::string>{"cat", "dog"}));
  const std::vector<std::int64_t> labels = {0, 0, 0, 1, 1};
  const char* names[] = {"cat/a.jpg", "cat/b.PNG", "cat/c.jpeg", "dog/d.jpg",
                         "dog/e.jpg"};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(train->label(i), labels[i]);
    EXPECT_EQ(folder.path(i), root_ / "train/" + names[i]);
  }
  EXPECT_EQ(open(Split::kTest)->size(), 2U);
  const auto few = open(Split::kTrain, ",per_class=1");
  ASSERT_EQ(few->size(), 2U);
  EXPECT_EQ(few->label(1), 1);
}

TEST_F(Folder, OtherNamesOfTheTestSplitWork) {
  for (const char* name : {"validation", "test"}) {
    fs::rename(root_ / "val", root_ / name);
    EXPECT_EQ(open(Split::kTest)->size(), 2U);
    fs::rename(root_ / name, root_ / "val");
  }
}

TEST_F(Folder, LeavesOutWhatIsNoImage) {
  put("train/cat/notes.txt", {1});
  put("train/cat/._a.jpg", {1});
  put("train/.cache/z.jpg", {1});
  put("train/labels.csv", {1});
  put("train/dog/deep/er/f.jpg", jpeg({40, 40}, smooth));
  fs::create_directory_symlink(root_ / "train/cat", root_ / "train/fox");
  fs::create_directory_symlink(root_ / "val/cat", root_ / "val/fox");
  const auto train = open(Split::kTrain);
  EXPECT_EQ(train->size(), 9U);
  EXPECT_EQ(train->input().classes, 3);
  EXPECT_EQ(dynamic_cast<const ImageFolder&>(*train).path(3),
            root_ / "train/dog/d.jpg");
  EXPECT_EQ(dynamic_cast<const ImageFolder&>(*train).path(4),
            root_ / "train/dog/deep/er/f.jpg");
  show(*train, 8, 1);
}

TEST_F(Folder, ShowsTheMiddleAsItIs) {
  put("val/cat/x.jpg", png({41, 36}, smooth));
  const auto test = open(Split::kTest);
  const auto is = show(*test, 0);
  // 41 x 36 is that size already; the middle begins at (4 half to even, 2).
  for (std::int64_t y = 0; y < 32; ++y) {
    for (std::int64_t x = 0; x < 32; ++x) {
      const double red = smooth(x + 4, y + 2)[0] / 255.0;
      ASSERT_NEAR(is[std::size_t(32 * y + x)], (red - 0.485) / 0.229, 1e-4);
    }
  }
  EXPECT_EQ(show(*test, 0, 5), is) << "the test split is not augmented";
}

TEST_F(Folder, AugmentsByRandomBitsAlone) {
  const auto train = open(Split::kTrain);
  const auto again = open(Split::kTrain);
  for (std::size_t i = 0; i < train->size(); ++i) {
    EXPECT_EQ(show(*train, i, 7), show(*again, i, 7));
    EXPECT_NE(show(*train, i, 7), show(*train, i, 8));
    EXPECT_EQ(show(*train, i), show(*again, i));
  }
}

TEST_F(Folder, ScalingChangesLittle) {
  put("val/cat/x.jpg", jpeg({400, 300}, smooth));
  const auto is = show(*open(Split::kTest), 0);
  const auto full = show(*open(Split::kTest, ",scaled=false"), 0);
  EXPECT_NE(is, full);
  for (std::size_t i = 0; i < kFloats; ++i) EXPECT_NEAR(is[i], full[i], 0.1);
}

TEST_F(Folder, HoldsMoreThan256Classes) {
  const Bytes image = png({8, 8}, rough);
  for (int i = 0; i < 300; ++i) {
    const std::string name = "/c" + std::to_string(1000 + i) + "/a.png";
    put("many/train" + name, image);
    put("many/val" + name, image);
  }
  const auto data = make_dataset(kSmall, {Split::kTest, root_ / "many"});
  EXPECT_EQ(data->input().classes, 300);
  EXPECT_EQ(data->label(299), 299);
  std::vector<float> out(kFloats);
  EXPECT_EQ(data->render(288, {}, out).label, 288);
}

TEST_F(Folder, SaysWhichLayoutIsExpected) {
  const std::string layout =
      "; expected are train/CLASS/*.jpg and val/CLASS/*.jpg (or .jpeg, .png) "
      "in --data-dir";
  const std::string who = "[dataset 'imagefolder'] ";
  const auto at = [&](const std::string& folder, Split split) {
    return message_of<Broken>([&] { make_dataset(kSmall, {split, folder}); });
  };
  EXPECT_EQ(at("", Split::kTrain), who + "a folder must be given" + layout);
  EXPECT_EQ(at("/nowhere", Split::kTrain),
            who + "'/nowhere' must be a folder" + layout);
  const std::string inner = root_ / "train";
  EXPECT_EQ(at(inner, Split::kTrain),
            who + "'" + inner + "' must hold a folder train, holds cat, dog" +
                layout);
  EXPECT_EQ(
      at(inner, Split::kTest),
      who + "'" + inner + "' must hold a folder val, holds cat, dog" + layout);
  EXPECT_EQ(at(inner + "/cat", Split::kTest),
            who + "'" + inner +
                "/cat' must hold a folder val, holds no folders" + layout);
}

TEST_F(Folder, SaysWhatIsWrongWithClasses) {
  const std::string who = "[dataset 'imagefolder'] '";
  put("val/emu/z.jpg", {1});
  fs::remove_all(root_ / "val/dog");
  EXPECT_EQ(complaint(Split::kTest),
            who + root_.path() +
                "/val' must have the classes of train; only in train: dog; "
                "only here: emu");
  fs::remove_all(root_ / "val/emu");
  EXPECT_CONTAINS(complaint(Split::kTest),
                  "only in train: dog; only here: nothing");
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    put(std::string("val/") + name + "/z.jpg", {1});
  }
  EXPECT_CONTAINS(complaint(Split::kTest), "only here: a, b, c and 2 more");
  fs::create_directory(root_ / "train/empty");
  EXPECT_EQ(complaint(Split::kTrain),
            who + root_.path() +
                "/train/empty' must hold images (.jpg, .jpeg or .png), holds "
                "none; remove it if it is no class");
  fs::remove_all(root_ / "train");
  fs::create_directory(root_ / "train");
  EXPECT_EQ(complaint(Split::kTrain),
            who + root_.path() +
                "/train' must hold a folder for each class, holds none");
  put("train/a.jpg", {1});
  EXPECT_EQ(complaint(Split::kTrain),
            who + root_.path() +
                "/train' must hold a folder for each class, holds images; sort "
                "them into folders that are named after their classes");
}

TEST_F(Folder, ChecksItsParameters) {
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { open(Split::kTrain, ",resize=31"); }),
            "[dataset 'imagefolder'] parameter 'resize' must be at least "
            "'size' (32), got 31");
  EXPECT_CONTAINS(message_of<std::invalid_argument>(
                      [&] { open(Split::kTrain, ",broken=ignore"); }),
                  "parameter 'broken'");
}

TEST_F(Folder, WrongEndingsDoNotMatter) {
  put("val/cat/x.jpg", png({41, 36}, smooth));
  put("val/dog/y.png", jpeg({41, 36}, smooth, {.quality = 100}));
  fs::remove(root_ / "val/dog/y.jpg");
  const auto test = open(Split::kTest);
  const auto one = show(*test, 0);
  const auto other = show(*test, 1);
  for (std::size_t i = 0; i < kFloats; ++i) EXPECT_NEAR(one[i], other[i], 0.15);
}

TEST_F(Folder, StopsAtABrokenImage) {
  const Bytes good = jpeg({90, 60}, smooth);
  std::vector<float> out(kFloats);
  const auto train = open(Split::kTrain);
  const auto says = [&](const Bytes& bytes) {
    put("train/cat/a.jpg", bytes);
    return message_of<Broken>([&] { train->render(0, 1, out); });
  };
  EXPECT_EQ(says({}),
            "[dataset 'imagefolder'] '" + root_.path() +
                "/train/cat/a.jpg' must be a whole JPEG or PNG image, but: it "
                "is empty; replace it, or let another take its place: "
                "--dataset imagefolder:broken=skip");
  EXPECT_CONTAINS(says({good.begin(), good.end() - 20}), "remature end");
  EXPECT_CONTAINS(says({'G', 'I', 'F', '8'}), "neither JPEG nor PNG");
  fs::remove(root_ / "train/cat/a.jpg");
  EXPECT_CONTAINS(message_of<Broken>([&] { train->render(0, 1, out); }),
                  "but: No such file or directory; replace it");
}

TEST_F(Folder, LetsTheNextOneTakeAPlaceIfAsked) {
  put("train/cat/c.jpeg", {});
  put("train/dog/d.jpg", {1, 2, 3, 4, 5});
  const auto train = open(Split::kTrain, ",broken=skip");
  std::vector<float> out(kFloats);
  const Rendered at = train->render(2, 9, out);
  EXPECT_EQ(at.label, 1) << "that of the image that is shown";
  EXPECT_EQ(at.problem, "'" + root_.path() + "/train/cat/c.jpeg': it is empty");
  EXPECT_EQ(out, show(*train, 4, 9));
  put("train/dog/e.jpg", {});
  EXPECT_EQ(train->render(4, 9, out).label, 0) << "the first follows the last";
  for (const char* name : {"cat/a.jpg", "cat/b.PNG"}) {
    put(std::string("train/") + name, {});
  }
  EXPECT_CONTAINS(message_of<Broken>([&] { train->render(1, 9, out); }),
                  "images in a row one must be readable, but none was from '");
}

// It has no bytes on the disk, and would have taken all memory.
TEST_F(Folder, PassesOverAFileThatIsTooLong) {
  const auto train = open(Split::kTrain);
  fs::resize_file(root_ / "train/cat/a.jpg", std::uintmax_t{6} << 30);
  std::vector<float> out(kFloats);
  EXPECT_CONTAINS(message_of<Broken>([&] { train->render(0, 1, out); }),
                  "but: it has 6442450944 bytes, at most 268435456 may be; "
                  "replace it");
  const auto skips = open(Split::kTrain, ",broken=skip");
  EXPECT_CONTAINS(skips->render(0, 1, out).problem,
                  "a.jpg': it has 6442450944");
}

TEST_F(Folder, DoesNotWaitForAPipe) {
  const auto train = open(Split::kTrain);
  fs::remove(root_ / "train/cat/a.jpg");
  ASSERT_EQ(mkfifo((root_ / "train/cat/a.jpg").c_str(), 0600), 0);
  std::vector<float> out(kFloats);
  EXPECT_CONTAINS(message_of<Broken>([&] { train->render(0, 1, out); }),
                  "but: it is no file; replace it");
}

}  // namespace
}  // namespace sluice::testing
