#pragma once

#include <climits>
#include <cstddef>
#include <string>

// The few functions of NCCL that a link needs, found at run time: a process has
// one NCCL, and where torch is, that is torch's. Their declarations are part of
// NCCL's stable interface and stand here as in its nccl.h of 2.20, so that
// nobody needs that to build (tests/comm/nccl_header_test.cpp compares).

namespace sluice::nccl {

struct Communicator;  // ncclComm

struct UniqueId {
  char bytes[128] = {};
};

enum Result : int {
  kSuccess = 0,
  kSystemError = 2,
  kRemoteError = 6,
  kInProgress = 7,
};

enum DataType : int { kUint8 = 1, kFloat32 = 7 };
enum Operation : int { kSum = 0 };

inline constexpr int kUnset = INT_MIN;

// As of 2.20; later ones read no further than its size.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 22000;
  int blocking = kUnset;
  int cga_cluster_size = kUnset;
  int min_ctas = kUnset;
  int max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset;
  int traffic_class = kUnset;  // of later ones, where 2.20 has a gap
};

using Stream = void*;  // cudaStream_t

struct Api {
  int version = 0;
  std::string problem;  // why it cannot be used; empty if it can

  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*init)(Communicator**, int ranks, UniqueId, int rank,
                 Config*) = nullptr;
  Result (*abort)(Communicator*) = nullptr;
  Result (*get_async_error)(Communicator*, Result*) = nullptr;
  const char* (*error_string)(Result) = nullptr;
  const char* (*last_error)(Communicator*) = nullptr;
  Result (*all_gather)(const void*, void*, std::size_t, DataType, Communicator*,
                       Stream) = nullptr;
  Result (*all_reduce)(const void*, void*, std::size_t, DataType, Operation,
                       Communicator*, Stream) = nullptr;
  Result (*send)(const void*, std::size_t, DataType, int peer, Communicator*,
                 Stream) = nullptr;
  Result (*receive)(void*, std::size_t, DataType, int peer, Communicator*,
                    Stream) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
};

// The process's, looked for once.
const Api& api();

// "2.30.7"
std::string version_text(int version);

}  // namespace sluice::nccl
