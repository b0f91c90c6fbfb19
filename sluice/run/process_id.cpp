#include "sluice/run/process_id.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sluice/core/error.h"

namespace sluice {
namespace {

struct ProcessState {
  char letter = 'Z';
  std::uint64_t start = 0;

  bool ended() const { return letter == 'Z' || letter == 'X'; }
};

// As proc(5) has it; a process that is not there counts as ended. The name may
// have spaces and brackets in it, so fields count from the last bracket.
ProcessState state_of(std::int64_t pid) {
  constexpr int kStart = 22;
  std::ifstream file(concat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  ProcessState state;
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return state;
  std::istringstream rest(line.substr(name_end + 1));
  rest >> state.letter;
  std::string skipped;
  for (int field = 4; field < kStart; ++field) rest >> skipped;
  rest >> state.start;
  return state;
}

}  // namespace

ProcessId own_process_id(const std::string& host) {
  ProcessId id;
  id.host = host;
  id.pid = getpid();
  id.start = state_of(id.pid).start;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id.boot;
  std::error_code none;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", none);
  if (!none) id.space = space.string();
  return id;
}

bool is_running(std::int64_t pid) { return !state_of(pid).ended(); }

bool is_stopped(std::int64_t pid) { return state_of(pid).letter == 'T'; }

bool is_alive(const ProcessId& process) {
  const ProcessState state = state_of(process.pid);
  return !state.ended() && state.start == process.start;
}

}  // namespace sluice
