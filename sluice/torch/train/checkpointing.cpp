#include "sluice/torch/train/checkpointing.h"

#include "sluice/core/ensure.h"
#include "sluice/run/checkpoint_store.h"
#include "sluice/run/rank_part.h"
#include "sluice/torch/train/replicas.h"

namespace sluice {
namespace {

void write_parts(const Session& session, const std::string& folder,
                 double best_accuracy) {
  write_rank_part(rank_part_path(folder, session.comm.rank()),
                  session.sync->save());
  if (!session.is_first()) return;
  ModelFile file;
  file.progress = session.progress;
  file.ranks = session.comm.size();
  file.threads = session.threads;
  file.config = session.config;
  file.plan = to_json(session.model.plan, session.model.names);
  file.schedule = session.schedule->state();
  file.best_accuracy = best_accuracy;
  file.data = session.data;
  file.parameters = session.model.parameters;
  file.buffers = session.model.buffers;
  file.optimizer = session.optimizer->state();
  write_model_file(model_file_path(folder), file);
}

}  // namespace

std::optional<SavedRun> find_saved_run(Communicator& comm,
                                       const TrainConfig& config,
                                       const std::string& resume) {
  if (resume.empty()) return std::nullopt;
  const bool if_any = resume == "auto";
  SavedRun saved;
  if (comm.rank() == 0) {
    saved.folder = CheckpointStore::find(if_any ? config.out : resume);
  }
  saved.folder = broadcast_first(comm, "resume", 0, saved.folder);
  if (saved.folder.empty() && if_any) return std::nullopt;
  agree(comm, "resume", 0, problem_of([&] {
          ensure(!saved.folder.empty(),
                 "[resume] expected a run folder with a checkpoint in it, got "
                 "'",
                 resume, "'; --resume auto starts a new run if there is none");
          saved.model = read_model_file(model_file_path(saved.folder));
          check_compatible(saved.model, config);
        }));
  return saved;
}

void load_saved_run(SavedRun& saved, Session& session) {
  ModelFile& file = saved.model;
  copy_into("resume", file.parameters, session.model.parameters);
  copy_into("resume", file.buffers, session.model.buffers);
  session.optimizer->load_state(file.optimizer);
  session.schedule->load_state(file.schedule);
  GradientSync::State state = read_rank_parts(
      saved.folder, file.ranks, session.comm.rank(), session.comm.size());
  const Plan old = plan_from_json(file.plan, session.model.names);
  if (!(old == session.model.plan)) {
    state.rules.clear();
    state.collectives.clear();
  }
  session.sync->load(state);
  file.parameters.clear();
  file.buffers.clear();
  file.optimizer.clear();
}

std::string save_checkpoint(Session& session, double best_accuracy) {
  Communicator& comm = session.comm;
  const std::uint64_t step = session.progress.done;
  const CheckpointStore store(session.config.out,
                              static_cast<std::size_t>(session.config.keep));
  average_tensors(comm, step, session.model.buffers);
  std::string folder;
  const auto on_all = [&](auto&& part) {
    agree(comm, "checkpoint", step, problem_of([&] {
            session.at_files(rank_part_path(store.partial(step), comm.rank()),
                             part);
          }));
  };
  try {
    on_all([&] {
      if (session.is_first()) store.begin(step);
    });
    on_all([&] { write_parts(session, store.partial(step), best_accuracy); });
    on_all([&] {
      if (session.is_first()) folder = store.publish(step);
    });
  } catch (const AgreedError& e) {
    if (session.is_first()) store.discard(step);
    const std::string good = CheckpointStore::find(session.config.out);
    throw AgreedError(
        concat(e.what(), good.empty()
                             ? "; there is no checkpoint of this run yet"
                             : "; the last good checkpoint is " + good),
        e.speaker());
  }
  return folder;
}

}  // namespace sluice
