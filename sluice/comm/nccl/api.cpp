#include "sluice/comm/nccl/api.h"

#include <dlfcn.h>

#include "sluice/core/error.h"

namespace sluice::nccl {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";
constexpr int kOldest = 22000;

// False if the library has no such function.
template <class F>
bool find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Api& api) {
  return find(library, "ncclGetVersion", api.get_version) &&
         find(library, "ncclGetUniqueId", api.get_unique_id) &&
         find(library, "ncclCommInitRankConfig", api.init) &&
         find(library, "ncclCommAbort", api.abort) &&
         find(library, "ncclCommGetAsyncError", api.get_async_error) &&
         find(library, "ncclGetErrorString", api.error_string) &&
         find(library, "ncclGetLastError", api.last_error) &&
         find(library, "ncclAllGather", api.all_gather) &&
         find(library, "ncclAllReduce", api.all_reduce) &&
         find(library, "ncclSend", api.send) &&
         find(library, "ncclRecv", api.receive) &&
         find(library, "ncclGroupStart", api.group_start) &&
         find(library, "ncclGroupEnd", api.group_end);
}

Api load() {
  Api api;
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    api.problem = concat("[nccl] there is no NCCL here (",
                         why != nullptr ? why : kLibrary,
                         "); install it, or name its folder in "
                         "LD_LIBRARY_PATH");
    return api;
  }
  const bool whole = find_all(library, api);
  if (api.get_version != nullptr) api.get_version(&api.version);
  if (!whole || api.version < kOldest) {
    api.problem = concat("[nccl] NCCL must be 2.20 or later, got ",
                         version_text(api.version));
  }
  return api;
}

}  // namespace

const Api& api() {
  static const Api found = load();
  return found;
}

std::string version_text(int version) {
  // Up to 2.8 the thousands were the major version.
  if (version < 10000) {
    return concat(version / 1000, ".", version % 1000 / 100, ".",
                  version % 100);
  }
  return concat(version / 10000, ".", version % 10000 / 100, ".",
                version % 100);
}

}  // namespace sluice::nccl
