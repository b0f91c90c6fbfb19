#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "sluice/audio/perturb.h"
#include "sluice/audio/resample.h"
#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/core/error.h"
#include "sluice/core/hash.h"
#include "sluice/torch/data/spectrogram.h"

namespace sluice {
namespace {

using AudioRow = nlohmann::ordered_json;

struct AudioOptions {
  double minutes = 10;
  double clip = 5;  // seconds
  std::int64_t rounds = 3;
  OutputOptions output;
};

// A buzz whose pitch wanders, and noise: as loud and as busy as a voice.
std::vector<float> made_up_clip(std::size_t samples, std::uint64_t seed) {
  std::vector<float> clip(samples);
  double phase = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    const double time = static_cast<double>(i) / kSpeechRate;
    phase += (120 + 30 * std::sin(3 * time)) / kSpeechRate;
    const double buzz = 2 * (phase - std::floor(phase)) - 1;
    const double noise =
        static_cast<double>(mix64(seed, i) >> 11) * 0x1p-53 - 0.5;
    clip[i] = static_cast<float>(0.2 * buzz + 0.02 * noise);
  }
  return clip;
}

struct AudioLane {
  std::string what;
  std::function<void(std::size_t)> run;  // of one clip
  std::vector<double> seconds{};
};

class AudioBench {
 public:
  explicit AudioBench(const AudioOptions& o) : options_(o) {
    const auto samples = static_cast<std::size_t>(o.clip * kSpeechRate);
    const double count = std::ceil(o.minutes * 60 / o.clip);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      clips_.push_back(made_up_clip(samples, i));
    }
  }

  std::vector<AudioRow> run() {
    const RateChange change(8000, kSpeechRate);
    std::vector<float> features;
    const auto see = [&](std::span<const float> clip) {
      features.resize(kSpectrumBins * spectrogram_frames(clip.size()));
      write_spectrogram(clip, features);
    };
    std::vector<AudioLane> lanes = {
        {"features", [&](std::size_t i) { see(clips_[i]); }},
        {"tempo and gain, features",
         [&](std::size_t i) { see(perturb(clips_[i], draw_perturbation(i))); }},
        {"8 kHz to 16 kHz",
         [&](std::size_t i) {
           change.apply(std::span(clips_[i]).first(clips_[i].size() / 2));
         }},
    };
    for (std::int64_t r = 0; r <= options_.rounds; ++r) {
      for (AudioLane& lane : lanes) {
        show_progress(fmt::format("{}, round {}", lane.what, r));
        const Stopwatch watch;
        for (std::size_t i = 0; i < clips_.size(); ++i) lane.run(i);
        if (r > 0) lane.seconds.push_back(watch.seconds());
      }
    }
    show_progress("");
    std::vector<AudioRow> rows;
    for (const AudioLane& lane : lanes) rows.push_back(row_of(lane));
    return rows;
  }

 private:
  AudioRow row_of(const AudioLane& lane) const {
    const double audio = static_cast<double>(clips_.size()) * options_.clip;
    const double seconds = median(lane.seconds);
    return {{"what", lane.what},
            {"clips", clips_.size()},
            {"audio_s", audio},
            {"seconds", seconds},
            {"s_per_hour", seconds / audio * 3600},
            {"times_real_time", audio / seconds}};
  }

  const AudioOptions& options_;
  std::vector<std::vector<float>> clips_;
};

const Table kAudioTable = {
    {{"what", "what", ""},
     {"clips", "clips", "{}"},
     {"audio_s", "audio s", "{:.0f}"},
     {"seconds", "seconds", "{:.3f}"},
     {"s_per_hour", "s / hour of audio", "{:.2f}"},
     {"times_real_time", "x real time", "{:.0f}"}},
    "audio s: length of the clips; seconds: that one core takes for them; "
    "x real time: times faster than playing them"};

void check_audio(const AudioOptions& o) {
  check_count("--rounds", o.rounds);
  require(o.minutes > 0 && o.minutes <= 600,
          "[bench] --minutes must be above 0 and at most 600, got ", o.minutes);
  require(o.clip >= 0.1 && o.clip <= 600,
          "[bench] --clip must be from 0.1 to 600 s, got ", o.clip);
}

}  // namespace

void add_bench_audio(CLI::App& bench) {
  auto o = std::make_shared<AudioOptions>();
  CLI::App* audio = bench.add_subcommand(
      "audio",
      "Seconds of one core that an hour of speech takes: features, the same of "
      "clips that are perturbed for training, resampling");
  audio->add_option("--minutes", o->minutes, "Audio to make up, in all");
  audio->add_option("--clip", o->clip, "Seconds of a clip");
  audio->add_option("--rounds", o->rounds, "Timed repetitions");
  add_output_options(*audio, o->output);
  add_examples(*audio, {"sluice bench audio --minutes 10 --rounds 3"});
  audio->callback([o] {
    check_audio(*o);
    keep_torch_to_one_thread();
    show_rows(AudioBench(*o).run(), kAudioTable, o->output);
  });
}

}  // namespace sluice
