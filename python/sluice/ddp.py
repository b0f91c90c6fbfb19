"""The hook for DistributedDataParallel, which reads its annotations as objects."""

from typing import Any, Mapping

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .sync import GradientSync


def _sparse_in(model: torch.nn.Module, named: list[tuple[str, torch.nn.Parameter]]) -> list[str]:
    """Names of the parameters whose gradients are sparse."""
    tables = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    found = {id(m.weight) for m in model.modules() if isinstance(m, tables) and m.sparse}
    return [name for name, p in named if id(p) in found]


class HookState(GradientSync):
    """What comm_hook works with; attach() makes it and registers both.

    For frameworks that register hooks themselves:

        ddp.register_comm_hook(sluice.HookState(ddp, density=0.01), sluice.comm_hook)

    Made for a model that is not wrapped yet, it must be told of
    find_unused_parameters=True.
    """

    _by_buckets = True

    def __init__(
        self,
        model: torch.nn.Module,
        group: dist.ProcessGroup | None = None,
        scaler: Any = None,
        find_unused_parameters: bool = False,
        **how: Any,
    ) -> None:
        if isinstance(model, DistributedDataParallel):
            group = model.process_group if group is None else group
            ignored = model.parameters_to_ignore
            find_unused_parameters |= model.find_unused_parameters
            # Its buckets are then copies of gradients, which an error leaves as they were.
            scratch = not model.gradient_as_bucket_view
            model = model.module
        else:
            ignored, scratch = set(), False
        named = [(n, p) for n, p in model.named_parameters() if n not in ignored]
        sparse = _sparse_in(model, named)
        given = how.get("exceptions") or {}
        if sparse and isinstance(given, Mapping):
            how["exceptions"] = {**dict.fromkeys(sparse, "dense"), **given}
        super().__init__(named, group, scaler, **how)
        self._say_sparse(sparse)
        self.buckets_are_copies = scratch
        self.drops_unused = find_unused_parameters


def comm_hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """What DistributedDataParallel calls for every bucket of gradients."""
    return state.live.announce(bucket, state.scale(), state.buckets_are_copies, state.drops_unused)


def attach(
    ddp: DistributedDataParallel,
    sparsifier: str = "topk",
    density: float = 0.01,
    *,
    scaler: Any = None,
    **how: Any,
) -> HookState:
    """Makes a DistributedDataParallel model exchange sparse gradients.

        ddp = DistributedDataParallel(model)
        sync = sluice.attach(ddp, sparsifier="adtopk", density=0.01)

    Called by all ranks of the model's group, with the same settings, before the
    first backward pass. Names are those of sluice.list(). An optimizer whose
    momentum does not go with the feedback is warned of at its first step.

    sparsifier        which entries are sent; "none": all of them
    density           the share of entries that is sent
    scaler            the GradScaler in use: residuals are then kept unscaled
    feedback          what is kept of what is not sent: "residual", "dgc", "none"
    collective        how entries are summed; "auto" chooses by size
    dense_collective  the same for tensors that stay dense: gloo's own sum, or
                      "dense:by=ring", "dense-bf16"
    values            form of what is sent: "fp32", "bf16" or "fp16"
    plan              what travels together and how: "auto" and other planners that go
                      by costs look at the first 20 steps and decide then, which
                      takes a moment; or "size=1M", "single", a plan.json, the
                      plan of another sync
    replan            "drift": decides again when steps have become longer or shorter
    exceptions        {"embed": "dense", "head.*": "no_feedback"}: by names of
                      parameters, with * and ?, or of modules
    dense_below       tensors of fewer elements stay dense
    dense_rank        tensors of at most so many dimensions stay dense
    warmup            densities of the first epochs, as in "warmup:epochs=4", which
                      are of steps_per_epoch steps each
    network           what collective "auto" chooses by: "50us,1Gbit", "measured"
    emulate           a network like "50us,1Gbit" for messages to wait for, between
                      ranks of one machine: what would a slow one cost here?
    gpu_link          how GPUs exchange: "nccl", or "host" for pinned memory and gloo;
                      "auto": nccl where it can be
    nonfinite         "skip": where a rank has NaN or Inf, the gradients of all
                      ranks are NaN, and residuals are kept; "stop" raises
    timeout           seconds to wait for another rank; default: the timeout of the
                      process group. A rank whose process ends is missed at once
    seed              of rules that draw at random
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(
            f"[attach] the model must be a DistributedDataParallel, got {type(ddp).__name__}; "
            "GradientSync works without one"
        )
    state = HookState(ddp, scaler=scaler, sparsifier=sparsifier, density=density, **how)
    try:
        ddp.register_comm_hook(state, comm_hook)
    except RuntimeError as e:
        state.close()
        raise RuntimeError(
            f"[attach] the model must have no hook yet, but torch says: {e} Wrap it in a new DistributedDataParallel"
        ) from e
    return state
