#pragma once

#include <cstdint>
#include <string>

namespace sluice {

// A process, so that no other is ever taken for it: process numbers are used
// again, host names are given twice, and containers count for themselves.
struct ProcessId {
  std::string host = "?";
  std::string boot = "?";   // of the kernel: another after each start
  std::string space = "?";  // in which its number counts
  std::int64_t pid = 0;
  std::uint64_t start = 0;  // clock ticks since the kernel started

  // Whether this machine can tell if the other one lives.
  bool sees(const ProcessId& other) const {
    return host == other.host && boot == other.boot && space == other.space;
  }
  bool operator==(const ProcessId&) const = default;
};

// This process, on a machine of that name.
ProcessId own_process_id(const std::string& host);

// Whether a process of this number runs here; a zombie does not.
bool is_running(std::int64_t pid);
// Whether a signal has stopped it (SIGSTOP, SIGTSTP).
bool is_stopped(std::int64_t pid);
// Whether it runs. Only for one that this machine sees.
bool is_alive(const ProcessId& process);

}  // namespace sluice
