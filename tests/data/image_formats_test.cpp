// A build without libjpeg-turbo and libpng: no_jpeg.cpp and no_png.cpp are
// linked in front of the library.

#include "files.h"
#include "sluice/data/dataset.h"
#include "sluice/data/image.h"
#include "sluice/data/jpeg.h"

namespace sluice::testing {
namespace {

using Broken = std::runtime_error;

TEST(BuildWithoutImages, SaysWhatToInstallBeforeTraining) {
  const TempFolder root;
  const auto complaint = [&](const std::string& image) {
    std::filesystem::remove_all(root / "train");
    std::filesystem::create_directories(root / "train/cat");
    write_bytes(root / ("train/cat/" + image), {0xff, 0xd8, 0xff, 0});
    return message_of<Broken>([&] {
      make_dataset("imagefolder", {Split::kTrain, root.path()});
    });
  };
  EXPECT_EQ(complaint("a.jpg"),
            "[dataset 'imagefolder'] '" + root.path() +
                "/train' holds JPEG files, which this build does not read; "
                "install libjpeg62-turbo-dev, configure and build again");
  EXPECT_CONTAINS(complaint("a.png"), "holds PNG files, which this build");
  EXPECT_CONTAINS(complaint("a.png"), "install libpng-dev");
}

TEST(BuildWithoutImages, NeverTakesAGoodImageForABrokenOne) {
  const Bytes jpeg = {0xff, 0xd8, 0xff, 0};
  EXPECT_EQ(message_of<Broken>([&] { open_image(jpeg); }),
            "[jpeg] needs a build with libjpeg-turbo, got one without; install "
            "libjpeg62-turbo-dev, configure and build again");
  const Bytes png = {0x89, 'P', 'N', 'G', '\r'};
  EXPECT_THROW(
      {
        try {
          open_image(png);
        } catch (const BrokenImage&) {
          FAIL() << "would be replaced by another";
        }
      },
      Broken);
}

}  // namespace
}  // namespace sluice::testing
