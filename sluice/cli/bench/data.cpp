#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/core/ensure.h"
#include "sluice/data/image_folder.h"
#include "sluice/data/photographs.h"
#include "sluice/torch/data/loading_time.h"

namespace sluice {
namespace {

using Row = nlohmann::ordered_json;

struct Options {
  std::string data_dir;
  std::string dataset = "imagefolder";
  std::int64_t images = 128;
  std::int64_t width = 500;
  std::int64_t height = 375;
  std::int64_t quality = 90;
  std::vector<std::int64_t> threads = {1, 2};
  std::int64_t batch = 32;
  std::int64_t prefetch = 2;
  std::int64_t rounds = 5;
  OutputOptions output;
};

class TempFolder {
 public:
  TempFolder() {
    path_ = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    ensure(mkdtemp(path_.data()) != nullptr,
           "[bench] a temporary folder must be writable");
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string with(const std::string& spec, const std::string& parameter) {
  return spec + (spec.find(':') == std::string::npos ? ":" : ",") + parameter;
}

// One way to make samples, timed once per round.
struct Lane {
  std::string what;
  std::string decodes;
  std::size_t threads;
  std::function<LoadingTime()> run;
  std::vector<double> wall{};  // samples per second
  std::vector<double> core{};  // the same of processor time
  std::vector<double> ratio{};
};

bool is_sound_jpeg(const std::vector<std::uint8_t>& bytes) {
  if (bytes.size() < 2 || bytes[0] != 0xff || bytes[1] != 0xd8) return false;
  try {
    time_decoding({bytes}, 1);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

class Bench {
 public:
  Bench(const Options& o, const std::string& folder) : options_(o) {
    const DatasetPlace place = {Split::kTrain, folder};
    full_ = make_dataset(with(o.dataset, "scaled=false"), place);
    scaled_ = make_dataset(with(o.dataset, "scaled=true"), place);
    const auto* tree = dynamic_cast<const ImageFolder*>(full_.get());
    require(tree != nullptr,
            "[bench] --dataset must be imagefolder, with parameters or "
            "without, got '",
            o.dataset, "'");
    const std::size_t wanted =
        std::min(static_cast<std::size_t>(o.images), tree->size());
    for (std::size_t i = 0; i < wanted; ++i) {
      const std::size_t at = i * tree->size() / wanted;
      std::ifstream file(tree->path(at), std::ios::binary);
      std::vector<std::uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
      // What libjpeg-turbo cannot decode cannot be compared with it.
      if (!is_sound_jpeg(bytes)) continue;
      files_.push_back(std::move(bytes));
      which_.push_back(at);
    }
    require(!which_.empty(), "[bench] '", folder, "' must hold JPEG files");
  }

  std::vector<Row> run() {
    std::vector<Row> rows;
    for (const std::int64_t threads : options_.threads) {
      run_threads(static_cast<std::size_t>(threads), rows);
    }
    show_progress("");
    return rows;
  }

 private:
  void run_threads(std::size_t threads, std::vector<Row>& rows) {
    LoadingOptions how;
    how.threads = threads;
    how.prefetch = static_cast<std::size_t>(options_.prefetch);
    how.batch =
        std::min(static_cast<std::size_t>(options_.batch), files_.size());
    how.batches = std::max<std::size_t>(files_.size() / how.batch, 1);
    std::vector<Lane> lanes = {
        {"libjpeg-turbo alone", "all", threads,
         [&] { return time_decoding(files_, threads); }},
        {"loader, training", "crop", threads,
         [&] { return time_loader(*full_, which_, how); }},
        {"loader, training", "crop, scaled", threads,
         [&] { return time_loader(*scaled_, which_, how); }},
        {"loader, evaluation", "crop, scaled", threads,
         [&] { return time_evaluation(*scaled_, which_, how); }},
    };
    for (std::int64_t r = 0; r <= options_.rounds; ++r) {
      show_progress(fmt::format("{} threads, round {}", threads, r));
      for (Lane& lane : lanes) {
        const LoadingTime time = lane.run();
        if (r == 0) continue;  // warms up
        const auto samples = static_cast<double>(time.samples);
        lane.wall.push_back(samples / time.wall);
        lane.core.push_back(samples / time.cpu);
        lane.ratio.push_back(lanes[0].core.back() / lane.core.back());
      }
    }
    for (const Lane& lane : lanes) rows.push_back(row_of(lane));
  }

  Row row_of(const Lane& lane) const {
    double bytes = 0;
    for (const auto& file : files_) bytes += static_cast<double>(file.size());
    return {{"what", lane.what},
            {"decodes", lane.decodes},
            {"threads", lane.threads},
            {"images", files_.size()},
            {"bytes_per_image", bytes / static_cast<double>(files_.size())},
            {"samples_per_s", median(lane.wall)},
            {"samples_per_core_s", median(lane.core)},
            {"over_libjpeg", median(lane.ratio)}};
  }

  const Options& options_;
  std::unique_ptr<Dataset> full_;
  std::unique_ptr<Dataset> scaled_;
  // Images to use, evenly spread: few enough to stay in memory.
  std::vector<std::size_t> which_;
  std::vector<std::vector<std::uint8_t>> files_;
};

const Table kTable = {
    {{"what", "what", ""},
     {"decodes", "decodes", ""},
     {"threads", "threads", "{}"},
     {"images", "images", "{}"},
     {"bytes_per_image", "kB/image", "{:.0f}", 1e-3},
     {"samples_per_s", "samples/s", "{:.0f}"},
     {"samples_per_core_s", "per core", "{:.0f}"},
     {"over_libjpeg", "time / libjpeg", "{:.2f}"}},
    "decodes: the whole image, the part that is wanted, or that at reduced "
    "size; samples/s: by the clock; per core: per second of processor time; "
    "time / libjpeg: processor time over that of libjpeg-turbo alone"};

void run(const Options& o) {
  std::unique_ptr<TempFolder> made;
  std::string folder = o.data_dir;
  if (folder.empty()) {
    made = std::make_unique<TempFolder>();
    folder = made->path();
    show_progress("making photographs");
    write_photographs(folder, static_cast<std::size_t>(o.images),
                      {o.width, o.height}, static_cast<int>(o.quality));
  }
  show_rows(Bench(o, folder).run(), kTable, o.output);
}

}  // namespace

void add_bench_data(CLI::App& bench) {
  auto o = std::make_shared<Options>();
  CLI::App* data = bench.add_subcommand(
      "data",
      "Samples per second of image folders, as a ratio to what libjpeg-turbo "
      "alone takes to decode the same files; per core is per second of "
      "processor time");
  data->add_option("--data-dir", o->data_dir,
                   "Folder with train/CLASS/*.jpg; made up unless given");
  data->add_option("--dataset", o->dataset,
                   "imagefolder, with parameters as for train");
  data->add_option("--images", o->images, "Images to use, or to make up");
  data->add_option("--width", o->width, "Of images that are made up");
  data->add_option("--height", o->height, "The same");
  data->add_option("--quality", o->quality, "The same, of JPEG, 1 to 100");
  data->add_option("--threads", o->threads, "Data threads")->delimiter(',');
  data->add_option("--batch-size,--batch", o->batch, "Samples per batch");
  data->add_option("--prefetch", o->prefetch, "Batches made ahead");
  data->add_option("--rounds", o->rounds, "Timed repetitions");
  add_output_options(*data, o->output);
  add_examples(*data, {"sluice bench data",
                       "sluice bench data --images 64 --threads 1,2,4"});
  data->callback([o] {
    for (const std::int64_t threads : o->threads) check_threads(threads);
    check_count("--images", o->images);
    check_count("--batch-size", o->batch);
    check_count("--rounds", o->rounds);
    for (const auto& [name, value, most] :
         {std::tuple{"--width", o->width, 20000},
          {"--height", o->height, 20000},
          {"--quality", o->quality, 100}}) {
      require(value >= 1 && value <= most, "[bench] ", name,
              " must be from 1 to ", most, ", got ", value);
    }
    require(o->prefetch >= 0 && o->prefetch <= 1024,
            "[bench] --prefetch must be from 0 to 1024, got ", o->prefetch);
    run(*o);
  });
}

}  // namespace sluice
