"""The hook for DistributedDataParallel, which reads its annotations as objects."""

import weakref
from typing import Any, Mapping

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from .sync import GradientSync

# Of their models, by which they exchange once they are detached.
_groups: "weakref.WeakKeyDictionary[HookState, dist.ProcessGroup]" = weakref.WeakKeyDictionary()


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
    # Of the model that it was registered for, which keeps its hook: what has been attached since.
    successor: "HookState | None" = None
    # After detach() the model exchanges as it does without Sluice.
    detached = False
    # Per parameter, what waited in the residual when it was detached. The next exchange of the model adds it.
    _owed: dict[int, torch.Tensor] = {}

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
        if group is not None:
            _groups[self] = group

    def detach(self) -> None:
        """From the next backward pass on the model exchanges as it does without Sluice.

        Called by all ranks before the same step. What waits in residuals is added to
        the next gradient, so that nothing is lost; momenta are dropped. The sync is
        closed then.
        """
        # Ranks that did so before different steps would wait for each other.
        self.core.gather("detach", b"")
        residual = self.state_dict()[f"rank{self.rank}"]["residual"]
        parts = zip(self.parameters, residual.split(self.kept_sizes))
        # What is exchanged whole has nothing to wait for, and may have another form.
        owed = {id(p): part for p, part in parts if part.numel() == p.numel() and part.any()}
        self.close()
        self.detached = True
        self._owed = owed


def comm_hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """What DistributedDataParallel calls for every bucket of gradients."""
    if isinstance(bucket, tuple):
        raise RuntimeError(
            '[sync] torch._dynamo.config.optimize_ddp = "python_reducer" brings gradients one by one, from inside of '
            "compiled code, where they cannot be exchanged in buckets; leave it at True"
        )
    state = state.successor or state
    if state.is_paused:
        return _passed_by(state, bucket)
    if state._owed:
        _add_owed(state, bucket)
    if state.detached:
        return default_hooks.allreduce_hook(_groups.get(state), bucket)
    future = state.live.announce(bucket, state.scale(), state.buckets_are_copies, state.drops_unused)
    if bucket.is_last():
        state._note_exchange()
    return future


def _add_owed(state: HookState, bucket: dist.GradBucket) -> None:
    """Adds to the bucket, once, what waited in the residual of a sync that was detached."""
    scale = state.scale()
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
        waited = state._owed.pop(id(parameter), None)
        if waited is not None:
            # Both have their elements in the order in which the parameter lies.
            waited = waited.to(gradient.device)
            gradient.view(-1).add_(waited if scale is None else waited * scale.to(gradient.device))


def _passed_by(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The bucket as it is: the gradients of this rank alone."""
    if bucket.is_last():
        state.core.pass_by()
    buffer = bucket.buffer()
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
    future.set_result(buffer)
    return future


# By model, what its hook was registered with.
_registered: weakref.WeakKeyDictionary[DistributedDataParallel, HookState] = weakref.WeakKeyDictionary()


def _again(state: HookState, scaler: Any, **how: Any) -> HookState:
    """The sync of a model that has one: trainers may call attach() whenever they begin."""
    differs = state.difference(**how)
    if differs:
        raise RuntimeError(
            f"[attach] the model is attached already, with another {differs}; close() that sync first, which gives "
            "up what its residual holds"
        )
    state.set_scaler(scaler)
    return state


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
    first backward pass. Called again for the same model, with the same settings, it
    returns the sync that is there; once that is closed, a new one. Names are those of sluice.list(). An optimizer whose
    momentum does not go with the feedback is warned of at its first step.

    sparsifier        which entries are sent; "none": all of them
    density           the share of entries that is sent
    total_steps       steps of the whole training, which adtopk-threshold goes by; 0:
                      not known
    scaler            the GradScaler in use: residuals are then kept unscaled
    feedback          what is kept of what is not sent: "residual", "dgc", "none"
    collective        how entries are summed; "auto" chooses by size
    dense_collective  the same for tensors that stay dense: gloo's own sum, or
                      "dense:by=ring", "dense-bf16"
    values            form of what is sent: "fp32", "bf16" or "fp16", or torch's dtype
    plan              what travels together and how: "auto" and other planners that go
                      by costs look at the first 20 steps and decide then, which
                      takes a moment, and may find that sending everything takes
                      less; "fixed" decides nothing; or "size=1M", "single", a
                      plan.json, the plan of another sync
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
    timeout           seconds, or a timedelta, to wait for another rank; default: the timeout
                      of the process group. A rank whose process ends is missed at once
    seed              of rules that draw at random
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(
            f"[attach] the model must be a DistributedDataParallel, got {type(ddp).__name__}; "
            "GradientSync works without one"
        )
    registered = _registered.get(ddp)
    before = registered and (registered.successor or registered)
    if before and not before.closed:
        return _again(before, scaler, sparsifier=sparsifier, density=density, **how)
    state = HookState(ddp, scaler=scaler, sparsifier=sparsifier, density=density, **how)
    if registered:
        state._owed, before._owed = before._owed, {}
        registered.successor = state
        return state
    try:
        ddp.register_comm_hook(state, comm_hook)
        _registered[ddp] = state
    except RuntimeError as e:
        state.close()
        raise RuntimeError(
            f"[attach] the model must have no hook yet, but torch says: {e} Wrap it in a new DistributedDataParallel"
        ) from e
    return state
