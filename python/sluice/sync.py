"""Gradients of a model, exchanged by all ranks of a group."""

from __future__ import annotations

import atexit
import functools
import json
import os
import time
import warnings
import weakref
from datetime import timedelta
from typing import Any, Iterable

import torch
import torch.distributed as dist

from . import _core, momentum, settings, state

# Ended before the interpreter is: their threads may not outlive it.
_alive: weakref.WeakSet[GradientSync] = weakref.WeakSet()


def _close_all() -> None:
    for sync in list(_alive):
        sync.close()
    # torch aborts if gloo's threads let go of a tensor of Python's behind the end of
    # the interpreter, such as one that the program reduced just before.
    time.sleep(0.05)


@functools.cache
def _close_at_exit() -> None:
    atexit.register(_close_all)


# How many connections each process group has made here: part of their names, as what the
# store has of an earlier one leads nowhere.
_made: weakref.WeakKeyDictionary[dist.ProcessGroup, int] = weakref.WeakKeyDictionary()


def _connect(group: dist.ProcessGroup | None, timeout: timedelta) -> dist.ProcessGroupGloo:
    """Connects the ranks of a group by gloo, for one user alone. A call of all of them.

    Not a new_group(): torch keeps that, with its threads and sockets, until the end."""
    group = group if group is not None else dist.group.WORLD
    _made[group] = _made.get(group, 0) + 1
    name = f"sluice/{group.group_name}/{_made[group]}"
    store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
    try:
        return dist.ProcessGroupGloo(store, group.rank(), group.size(), timeout)
    except RuntimeError as e:
        raise RuntimeError(
            f"[attach] all {group.size()} ranks of the group must attach within {timeout.total_seconds():g} s "
            f"(timeout), but some have not: {e}"
        ) from e


def _timeout_of(group: dist.ProcessGroup | None, device: torch.device) -> float:
    """In seconds. torch's default if the group does not say, or does not serve the device."""
    try:
        backend = (group if group is not None else dist.group.WORLD)._get_backend(device)
        timeout = backend.options._timeout
    except (AttributeError, RuntimeError):
        timeout = dist.default_pg_timeout
    return min(timeout.total_seconds(), 1e9)


def _checked(named_parameters: Any) -> list[tuple[str, torch.nn.Parameter]]:
    pairs = [] if isinstance(named_parameters, torch.nn.Module) else list(named_parameters)
    is_pair = [isinstance(p, tuple) and len(p) == 2 and isinstance(p[1], torch.Tensor) for p in pairs]
    if isinstance(named_parameters, torch.nn.Module) or not all(is_pair):
        raise TypeError(
            "[GradientSync] parameters must come with their names, as model.named_parameters() gives them, got "
            f"{type(named_parameters if not pairs else pairs[0]).__name__}"
        )
    return pairs


class GradientSync:
    """Exchanges the gradients of parameters, in a training loop of one's own.

        sync = sluice.GradientSync(model.named_parameters(), sparsifier="topk")
        loss.backward()
        sync.step()        # p.grad is now the mean over the ranks
        optimizer.step()

    All ranks of the group make it together, with the same settings, which are
    those of attach(). What is not sent stays in a residual on this rank. With a
    GradScaler as `scaler`, step() comes before its unscale_() and step().
    """

    # Whether gradients come in buckets, and not all at once.
    _by_buckets = False

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
        group: dist.ProcessGroup | None = None,
        scaler: Any = None,
        **how: Any,
    ) -> None:
        pairs = [(name, p) for name, p in _checked(named_parameters) if p.requires_grad]
        self.parameters = [p for _, p in pairs]
        self.names = [name for name, _ in pairs]
        device = self.parameters[0].device if pairs else torch.device("cpu")
        self._scaler = scaler
        self._process = os.getpid()
        if dist.is_initialized() and how.get("timeout") is None:
            how["timeout"] = _timeout_of(group, device)
        text = settings.settings_json(device, self._by_buckets, **how)
        self._how = json.loads(text)
        if not dist.is_initialized():
            raise RuntimeError(
                "[attach] torch.distributed must be initialized, but is not; call init_process_group() first"
            )
        # gloo's own sums end by the time of their group, and take its connections along.
        patience = timedelta(seconds=max(float(self._how["timeout"]), 1.0))
        own = _connect(group, patience)
        sums = _connect(group, patience) if device.type == "cpu" else None
        self._hook: _core.BucketHook | None = _core.BucketHook(own, sums, self.names, self.parameters, text)
        _close_at_exit()
        _alive.add(self)
        self._looked = False
        if self.rank == 0:
            momentum.watch(self)
            self._warn_of_detours()
            self._say_wide()

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or what a pickle becomes, is closed: threads, groups and residuals stay
        with the original. Residuals are saved by state_dict()."""
        plain = {k: v for k, v in vars(self).items() if isinstance(v, (bool, int, float, str))}
        return {**plain, "names": self.names, "_how": self._how, "parameters": [], "_scaler": None, "_hook": None}

    def _say_wide(self) -> None:
        wide = [(n, p) for n, p in zip(self.names, self.parameters) if p.dtype == torch.float64 or p.is_complex()]
        if wide:
            name, first = wide[0]
            momentum.warn_once(
                f"[attach] gradients of float64 and complex parameters are sent whole in every step, {len(wide)} of "
                f"{len(self.names)} here, such as '{name}' ({first.dtype}); float() makes parameters that are sparsified"
            )

    def _say_sparse(self, names: list[str]) -> None:
        if names and self.rank == 0:
            sizes = dict(zip(self.names, self.parameters))
            total = sum(sizes[n].numel() * sizes[n].element_size() for n in names if n in sizes)
            momentum.warn_once(
                f"[attach] sparse gradients are exchanged as dense ones, of {total / 1e6:.3g} MB here, such as that of "
                f"'{names[0]}'; Embedding(sparse=False) exchanges a selection of it, as of other parameters"
            )

    def _warn_of_detours(self) -> None:
        why = self.core.link_problem
        if why and self._how["gpu_link"] == "auto" and not self._how["net"]:
            warnings.warn(
                f'[attach] gradients of GPUs travel through the host, since {why}; gpu_link="host" says that it is meant',
                stacklevel=4,
            )

    @property
    def core(self) -> _core.BucketHook:
        """The extension's part. Raises RuntimeError once it is closed."""
        if self._hook is None:
            raise RuntimeError("[sync] it was closed, and exchanges nothing any more; attach again")
        if self._process != os.getpid():
            raise RuntimeError(
                "[sync] it belongs to the process that attached, and this one was forked from that; attach where you train"
            )
        return self._hook

    @property
    def live(self) -> _core.BucketHook:
        """The same, to exchange by: the group must be there as well."""
        if not dist.is_initialized():
            raise RuntimeError(
                "[sync] its process group must be there, but was destroyed; init_process_group() and attach again"
            )
        return self.core

    @property
    def rank(self) -> int:
        """Of this process, in the group."""
        return self.core.rank

    @property
    def world_size(self) -> int:
        """Of the group."""
        return self.core.size

    @property
    def link(self) -> str:
        """By which GPUs exchange: "nccl", or "host", as on CPUs."""
        return self.core.link or "host"

    @property
    def plan(self) -> dict[str, Any]:
        """What travels together and how; attach(plan=...) takes it again."""
        return json.loads(self.core.plan)

    @property
    def skipped(self) -> bool:
        """Whether the last step was skipped: its gradients are NaN on all ranks."""
        last = self.stats()
        return last["step"] > 0 and not last["last_committed"]

    def step(self) -> bool:
        """Replaces all gradients by their mean over the ranks.

        A parameter without a gradient brings zeros, and has one afterwards.
        False if a rank had values that are not finite: gradients are then NaN on
        all ranks, and residuals as before. Raises CommError if a rank is lost.
        """
        core = self.live
        if not self._looked:
            self._looked = True
            pairs = zip(self.names, self.parameters)
            self._say_sparse([n for n, p in pairs if p.grad is not None and p.grad.is_sparse])
        return core.step(self.scale())

    def scale(self) -> torch.Tensor | None:
        """What gradients are multiplied by, if anything."""
        if self._scaler is None or not self._scaler.is_enabled():
            return None
        # Where there is a tensor, no value has to come from the device.
        tensor = getattr(self._scaler, "_scale", None)
        return tensor.clone() if tensor is not None else torch.tensor(self._scaler.get_scale())

    def recover(self) -> bool:
        """After a CommError, on all ranks: goes on where they can.

        True if the step that failed has been committed after all: its gradients
        are then the mean. Raises CommError if a rank is still lost.
        """
        return self.live.recover()

    def stats(self) -> dict[str, Any]:
        """What the last step and all steps so far came to, on this rank."""
        return json.loads(self.core.stats)

    def state_dict(self) -> dict[str, Any]:
        """All that is kept between steps on this rank; see sluice.state."""
        return state.save(self)

    def load_state_dict(self, saved: Any) -> None:
        """Goes on from a state, or from those of all ranks; see sluice.state."""
        state.load(self, saved)

    def log_to(self, writer: Any, prefix: str = "sluice") -> None:
        """Writes what the last step came to: `writer` is a SummaryWriter.

            sync.log_to(writer)     # behind a step, on one rank or on all
        """
        stats = self.stats()
        for name, value in stats["last"].items():
            writer.add_scalar(f"{prefix}/{name}", value, stats["step"])
        writer.add_scalar(f"{prefix}/skipped", stats["skipped"], stats["step"])

    def momentum_advice(self, optimizer: torch.optim.Optimizer) -> str:
        """What to change about an optimizer's momentum; empty if nothing.

            sync.momentum_advice(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        """
        return momentum.advice(self._how, optimizer)

    def trace(self, steps: int, path: str) -> None:
        """Writes a timeline of the next steps, of all ranks, for Perfetto or
        chrome://tracing. Called by all ranks before the same step; rank 0 writes."""
        self.core.trace(steps, path)

    def close(self) -> None:
        """Ends its threads and connections. A hook that is registered raises from now on.

        A step that is under way is given up, on all ranks. In a process that was forked
        from the one that attached nothing ends."""
        self._hook = None
