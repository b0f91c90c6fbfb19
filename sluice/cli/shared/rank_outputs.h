#pragma once

#include <cstddef>
#include <string>

namespace sluice {

// What ranks write, past mpirun, which forwards nothing once a rank has failed,
// drops it all when it is hurried, and waits for readers that do not read. For
// ranks on the machine of the program that the user started; for others mpirun
// has to do.
//
// A terminal or a pipe is opened by the ranks themselves. Anything else has a
// place to write at, which a file opened twice has two of, so that it goes
// through a pipe to the program that has it.
class RankOutputs {
 public:
  // Names all of it in the environment, for ranks that are started later.
  RankOutputs();
  ~RankOutputs();
  RankOutputs(const RankOutputs&) = delete;
  RankOutputs& operator=(const RankOutputs&) = delete;

  // Passes on what has come. Says once, on standard error, if standard output
  // does not take it.
  void forward();
  // What is wrong with standard output; empty: nothing.
  const std::string& problem() const { return problem_; }

  // How many ranks have met the others, have told why they failed, and have
  // nothing left to do.
  struct Marks {
    std::size_t begun = 0;
    std::size_t told = 0;
    std::size_t done = 0;
  };
  Marks marks();

 private:
  struct Outlet {
    int to = -1;
    int pipe[2] = {-1, -1};
  };
  void forward(const Outlet& outlet);

  Outlet outlets_[2];
  int marks_[2] = {-1, -1};
  Marks seen_;
  std::string problem_;
};

// The variables that it sets, for launchers that take none to other hosts
// unless told.
inline constexpr const char* kRankOutputVariables[] = {
    "SLUICE_OUTPUT", "SLUICE_ERRORS", "SLUICE_MARKS"};

// Whether a RankOutputs was there when this process was started.
bool has_rank_outputs();

// In such a rank: standard output and error become those of the program that
// the user started.
void share_outputs();

// In such a rank, once it has met the others.
void mark_as_begun();

// In such a rank, before it ends for an error that it or another has told:
// nobody need guess why it did.
void mark_as_told();

// In such a rank, when all that is left is to end.
void mark_as_done();

// As mark_as_told(), for signals that end a program which has gone wrong; says
// so, too.
void mark_crashes();

}  // namespace sluice
