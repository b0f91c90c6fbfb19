// Compiled by tools/gpu_check where there is an nccl.h: our declarations of
// NCCL (sluice/comm/nccl/api.h) are those of its header.

#include <nccl.h>

#include "sluice/comm/nccl/api.h"

namespace sluice::nccl {

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(int{kSystemError} == int{ncclSystemError});
static_assert(int{kRemoteError} == int{ncclRemoteError});
static_assert(int{kInProgress} == int{ncclInProgress});
static_assert(int{kUint8} == int{ncclUint8});
static_assert(int{kFloat32} == int{ncclFloat32});
static_assert(int{kSum} == int{ncclSum});
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(Config, split_share) ==
              offsetof(ncclConfig_t, splitShare));
static_assert(Config{}.magic == NCCL_API_MAGIC &&
              kUnset == NCCL_CONFIG_UNDEF_INT);

// Every function takes and returns what ours does, word for word.
template <class Ours, class Theirs>
constexpr bool same_words = false;
template <class R, class... A, class S, class... B>
constexpr bool same_words<R (*)(A...), S (*)(B...)> =
    sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...) &&
    sizeof(R) == sizeof(S);

static_assert(
    same_words<decltype(Api::init), decltype(&ncclCommInitRankConfig)>);
static_assert(same_words<decltype(Api::abort), decltype(&ncclCommAbort)>);
static_assert(same_words<decltype(Api::get_async_error),
                         decltype(&ncclCommGetAsyncError)>);
static_assert(same_words<decltype(Api::all_gather), decltype(&ncclAllGather)>);
static_assert(same_words<decltype(Api::all_reduce), decltype(&ncclAllReduce)>);
static_assert(same_words<decltype(Api::send), decltype(&ncclSend)>);
static_assert(same_words<decltype(Api::receive), decltype(&ncclRecv)>);

}  // namespace sluice::nccl
