#include "sluice/torch/train/checkpointing.h"

#include <cstring>
#include <sstream>

#include "sluice/core/ensure.h"
#include "sluice/run/checkpoint_store.h"
#include "sluice/torch/train/replicas.h"

namespace sluice {
namespace {

// Digests of what a rank has written.
struct Written {
  std::uint64_t part = 0;
  std::uint64_t model = 0;  // of rank 0
};

Origin origin_of(const Session& session) {
  return {session.run, session.progress.done, session.comm.size()};
}

std::uint64_t write_model(const Session& session, const std::string& folder,
                          double best_score) {
  ModelFile file;
  file.run = session.run;
  file.progress = session.progress;
  file.ranks = session.comm.size();
  file.threads = session.threads;
  file.gpu_link = session.gpu_link();
  file.config = session.config;
  file.plan = to_json(session.model.decisions, session.model.names);
  file.schedule = session.schedule->state();
  file.best_score = best_score;
  file.data = session.data;
  file.parameters = session.model.parameters;
  file.buffers = session.model.buffers;
  file.optimizer = session.optimizer->state();
  return write_model_file(model_file_path(folder), file);
}

RankState state_of(const Session& session) {
  RankState state{session.sync->save(), {}};
  for (const torch::Tensor& t : session.carried) {
    const torch::Tensor values =
        t.to(torch::kCPU, torch::kFloat32).contiguous();
    const auto* first = values.data_ptr<float>();
    state.carried.push_back(
        {values.sizes().vec(), {first, first + values.numel()}});
  }
  return state;
}

Written write_parts(const Session& session, const std::string& folder,
                    double best_score) {
  Origin origin = origin_of(session);
  origin.rank = session.comm.rank();
  Written written;
  written.part = write_rank_part(rank_part_path(folder, origin.rank),
                                 state_of(session), origin);
  if (session.is_first()) {
    written.model = write_model(session, folder, best_score);
  }
  return written;
}

// On rank 0, of what all ranks have written.
Manifest manifest_of(const Session& session, const std::vector<Bytes>& all) {
  Manifest manifest(origin_of(session));
  for (std::size_t r = 0; r < all.size(); ++r) {
    Written written;
    std::memcpy(&written, all[r].data(), sizeof(written));
    manifest.add(rank_part_path("", r).substr(1), written.part);
    if (r == 0) manifest.add(model_file_path("").substr(1), written.model);
  }
  return manifest;
}

// Rank 0's, on all ranks.
std::vector<std::string> lines_of_first(Communicator& comm,
                                        const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  std::istringstream in(broadcast_first(comm, "resume", 0, text));
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

SavedRun read_saved_run(const std::string& folder, const Communicator& comm) {
  SavedRun saved;
  saved.folder = folder;
  const Manifest manifest = Manifest::read(folder);
  saved.model = read_model_file(model_file_path(folder), manifest);
  saved.kept = read_rank_parts(folder, manifest, saved.model.ranks, comm.rank(),
                               comm.size());
  return saved;
}

// Each rank reads what it needs, so that together they have seen all of it.
SavedRun read_first_whole(Communicator& comm,
                          const std::vector<std::string>& folders) {
  std::vector<std::string> notes;
  std::string first;
  for (const std::string& folder : folders) {
    SavedRun saved;
    try {
      agree(comm, "resume", 0,
            problem_of([&] { saved = read_saved_run(folder, comm); }));
    } catch (const AgreedError& e) {
      if (folders.size() == 1) throw;
      if (first.empty()) first = e.what();
      notes.push_back(concat("[resume] passed over: ", e.what()));
      continue;
    }
    saved.notes = std::move(notes);
    return saved;
  }
  throw AgreedError(
      concat("[resume] none of ", folders.size(),
             " checkpoints can be read, so none is replaced either; the first "
             "of them: ",
             first, "; --overwrite begins anew"),
      0);
}

}  // namespace

std::optional<SavedRun> find_saved_run(Communicator& comm,
                                       const TrainConfig& config,
                                       const std::string& resume) {
  if (resume.empty()) return std::nullopt;
  const bool if_any = resume == "auto";
  CheckpointStore::Found found;
  agree(comm, "resume", 0, problem_of([&] {
          if (comm.rank() != 0) return;
          found = CheckpointStore::find_all(if_any ? config.out : resume);
        }));
  found.folders = lines_of_first(comm, found.folders);
  if (found.folders.empty() && if_any) return std::nullopt;
  agree(comm, "resume", 0, problem_of([&] {
          ensure(!found.folders.empty(),
                 "[resume] expected a run folder with a checkpoint in it, got "
                 "'",
                 resume, "'; --resume auto starts a new run if there is none");
        }));
  SavedRun saved = read_first_whole(comm, found.folders);
  if (!found.note.empty()) {
    saved.notes.insert(saved.notes.begin(),
                       concat("[resume] ", found.note,
                              "; looked for the newest whole checkpoint"));
  }
  agree(comm, "resume", 0,
        problem_of([&] { check_compatible(saved.model, config); }));
  return saved;
}

void load_saved_run(SavedRun& saved, Session& session) {
  ModelFile& file = saved.model;
  copy_into("resume", file.parameters, session.model.parameters);
  copy_into("resume", file.buffers, session.model.buffers);
  session.optimizer->load_state(file.optimizer);
  session.schedule->load_state(file.schedule);
  RankState& state = saved.kept;
  const Decisions old = decisions_from_json(file.plan, session.model.names);
  const Plan& saved_by = decision_at(old, file.progress.done).plan;
  if (!(saved_by == session.model.plan)) {
    state.rules.clear();
    state.collectives.clear();
  }
  session.sync->load(state);
  for (CarriedTensor& c : state.carried) {
    session.carried.push_back(
        torch::tensor(c.values).reshape(c.dims).to(session.device));
  }
  state = {};
  file.parameters.clear();
  file.buffers.clear();
  file.optimizer.clear();
}

void abandon_others(SavedRun& saved, const Session& session) {
  if (!session.is_first()) return;
  const CheckpointStore store(session.config.out, 1);
  for (const std::string& folder : store.go_on_from(saved.folder)) {
    saved.notes.push_back(
        concat("[resume] set aside, since the run goes on from ", saved.folder,
               ": ", folder, "; remove it when nobody needs it"));
  }
}

std::string save_checkpoint(Session& session, double best_score) {
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
    Written written;
    on_all([&] {
      written = write_parts(session, store.partial(step), best_score);
    });
    const auto all = gather_at_first(comm, "checkpoint", step,
                                     std::as_bytes(std::span(&written, 1)));
    on_all([&] {
      if (!session.is_first()) return;
      manifest_of(session, all).write(store.partial(step));
      folder = store.publish(step);
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
