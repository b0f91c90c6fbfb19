#include "sluice/collective/sparse_allreduce.h"
#include "sluice/config/config.h"
#include "sluice/config/lr_schedule.h"
#include "sluice/core/error.h"
#include "sluice/sparsify/schedule.h"
#include "sluice/sparsify/sparsifier.h"

// Beside config.cpp, which needs none of these: so the fuzzer can read
// configurations without the library.

namespace sluice {

void check_config(const TrainConfig& c) {
  if (c.sparsifier != "none") {
    make_sparsifier(c.sparsifier);
    make_collective(c.collective);
  }
  make_collective(c.dense_collective);
  DensitySchedule(c.density_schedule, c.density);
  // How long the run is depends on the data.
  if (c.lr_schedule != "auto") {
    make_lr_schedule(c.lr_schedule, {.base = c.lr, .epochs = 1e9});
  }
  const bool clips = c.clip > 0 || c.clip_local > 0;
  require(clips || c.clip_norm == "global", "[train] parameter 'clip_norm' ",
          c.clip_norm, " needs a clip or a clip_local above 0, got ", c.clip,
          " and ", c.clip_local);
  parse_every("checkpoint_every", c.checkpoint_every);
  require(parse_every("eval_every", c.eval_every).unit != Every::Unit::kSeconds,
          "[train] parameter 'eval_every' must be a number of steps (100) or "
          "of epochs (1e), got '",
          c.eval_every, "'");
  parse_step_range(c.trace);
  require(!parse_device(c.device).is_cpu || c.gpu_link != "nccl",
          "[train] parameter 'gpu_link' nccl needs device cuda, got '",
          c.device, "'");
}

}  // namespace sluice
