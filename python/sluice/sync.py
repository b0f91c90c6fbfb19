"""Gradients of a model, exchanged by all ranks of a group."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import time
import warnings
import weakref
from datetime import timedelta
from typing import Any, Iterable, Iterator

import torch
import torch.distributed as dist

from . import _core, momentum, settings, state
from .usage import Usage

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


def _patience(how: dict[str, Any]) -> timedelta:
    """How long ranks wait for each other; a minute where the setting makes no sense, which
    is refused once all ranks are there."""
    try:
        seconds = float(how["timeout"])
    except (TypeError, ValueError):
        seconds = 60.0
    return timedelta(seconds=min(max(seconds, 1.0), 1e9) if seconds == seconds else 60.0)


def _meet(group: dist.ProcessGroup | None, patience: timedelta) -> None:
    """Waits until all ranks of the group have come here, as new_group() waits without an end.
    Raises CommError, naming a rank, where one does not come in time."""
    ranks = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
    store = dist.distributed_c10d._get_default_store()
    if store is None:  # of an MPI group
        return
    key = "sluice/" + "-".join(map(str, ranks))
    count = store.add(key, 1)
    place = f"{key}/{(count - 1) // len(ranks)}"
    store.set(f"{place}/{dist.get_rank()}", "")
    if count % len(ranks) == 0:
        store.set(place, "")
    try:
        store.wait([place], patience)
    except RuntimeError as e:
        if store.check([place]):
            return
        store.add(key, -1)  # so that ranks may try again
        late = [r for r in ranks if not store.check([f"{place}/{r}"])]
        raise _core.CommError(
            f"[attach] rank {dist.get_rank()} waited {patience.total_seconds():g} s for rank "
            f"{late[0] if late else ranks[0]} to attach; all ranks of the group must do so, with the same settings"
        ) from e


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


def _check_scaler(scaler: Any) -> None:
    if scaler is None or all(callable(getattr(scaler, name, None)) for name in ("is_enabled", "get_scale")):
        return
    raise TypeError(
        f"[attach] scaler must be a GradScaler, as torch.amp.GradScaler(), or None, got {type(scaler).__name__}"
    )


def _check_optimizers(pairs: list[tuple[str, torch.nn.Parameter]]) -> None:
    """They must not step before gradients are exchanged."""
    for name, p in pairs:
        if hasattr(p, "_in_backward_optimizers"):
            raise ValueError(
                f"[attach] an optimizer must step behind backward(), but that of '{name}' steps inside of it, before "
                "gradients are exchanged; leave _apply_optimizer_in_backward() out, and call its step()"
            )


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
    # Blocks of paused() that have begun and not ended.
    _pauses = 0
    # Of the rank that warns.
    _usage: Usage | None = None

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
        group: dist.ProcessGroup | None = None,
        scaler: Any = None,
        **how: Any,
    ) -> None:
        pairs = [(name, p) for name, p in _checked(named_parameters) if p.requires_grad]
        _check_scaler(scaler)
        _check_optimizers(pairs)
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
        patience = _patience(self._how)
        _meet(group, patience)
        own = _connect(group, patience)
        sums = _connect(group, patience) if device.type == "cpu" else None
        self._hook: _core.BucketHook | None = _core.BucketHook(own, sums, self.names, self.parameters, text)
        _close_at_exit()
        _alive.add(self)
        self._looked = False
        if self.rank == 0:
            momentum.watch(self)
            self._usage = Usage.watch(self)
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

        if settings.name_of(self._how["sparsifier"]) == "adtopk-threshold" and not self._how["total_steps"]:
            warnings.warn(
                '[attach] sparsifier "adtopk-threshold" takes other turns in the last quarter of the training, which '
                "it does not know without total_steps=",
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
    def closed(self) -> bool:
        """Whether close() has been called."""
        return self._hook is None

    def difference(self, **how: Any) -> str:
        """The first setting in which this sync is not as these settings ask for, as
        "density: 0.01, 0.05"; empty if there is none."""
        if how.get("timeout") is None:
            how["timeout"] = self._how["timeout"]
        asked = json.loads(settings.settings_json(self.parameters[0].device, self._by_buckets, **how))
        asked["threads"] = self._how["threads"]
        return next((f"{k}: {self._how[k]}, {v}" for k, v in asked.items() if self._how[k] != v), "")

    def set_scaler(self, scaler: Any) -> None:
        """The GradScaler in use from the next step on, or None."""
        _check_scaler(scaler)
        self._scaler = scaler

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
    def kept_sizes(self) -> list[int]:
        """How many elements of the residual belong to each parameter: none to one that is empty, one to one that
        is exchanged whole as float64 or complex numbers."""
        sizes = iter(self.core.sizes)
        return [next(sizes) if p.numel() else 0 for p in self.parameters]

    @property
    def plan(self) -> dict[str, Any]:
        """What travels together and how; attach(plan=...) takes it again."""
        return json.loads(self.core.plan)

    @property
    def skipped(self) -> bool:
        """Whether the last step was skipped: its gradients are NaN on all ranks."""
        return self.core.skipped

    def step(self) -> bool:
        """Replaces all gradients by their mean over the ranks.

        A parameter without a gradient brings zeros, and has one afterwards.
        False if a rank had values that are not finite: gradients are then NaN on
        all ranks, and residuals as before. Raises CommError if a rank is lost.
        Inside paused() gradients stay as they are, and it returns True.
        """
        if self.is_paused:
            self.core.pass_by()
            return True
        core = self.live
        if not self._looked:
            self._looked = True
            pairs = zip(self.names, self.parameters)
            self._say_sparse([n for n, p in pairs if p.grad is not None and p.grad.is_sparse])
        committed = core.step(self.scale())
        self.core.warn_of_news()
        self._note_exchange()
        return committed

    def _note_exchange(self) -> None:
        if self._usage is not None:
            self._usage.exchanged()

    def _forget_exchange(self) -> None:
        if self._usage is not None:
            self._usage.forget()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Backward passes that exchange nothing and leave nothing in residuals, on
        all ranks alike.

            with sync.paused():
                generator_loss.backward()   # p.grad is this rank's own gradient

        For gradients that are thrown away, such as a discriminator's in its
        generator's pass. If ranks pause different passes, the next step fails with a
        CommError.
        """
        self.core  # raises if it is closed
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    @property
    def is_paused(self) -> bool:
        """Whether this is inside paused()."""
        return self._pauses > 0

    @contextlib.contextmanager
    def tentative(self) -> Iterator[None]:
        """Backward passes that discard() can take back.

            with sync.tentative():
                loss.backward()
            if norm_of(gradients) < limit:
                optimizer.step()
            else:
                sync.discard()
            optimizer.zero_grad()

        Keeps a copy of the residuals from before (a float per parameter, twice that
        with momentum), until the next backward pass outside of the block.
        """
        self.live.enter_tentative()
        if self.rank == 0:
            momentum.warn_once(self._cost_of_tentative())
        try:
            yield
        finally:
            if self._hook is not None:
                self._hook.leave_tentative()

    def _cost_of_tentative(self) -> str:
        floats = sum(p.numel() for p in self.parameters) * (2 if self._how["feedback"].startswith("dgc") else 1)
        return (
            f"[tentative] each rank keeps a copy of its residuals, which takes {floats * 4 / 1e6:.3g} MB more "
            f"({floats} floats); paused() takes none, where no gradient of the pass is used"
        )

    def discard(self) -> None:
        """Takes back the steps of the last tentative() block, on all ranks.

        Residuals, momenta and what rules have learned are as before the block, bit
        for bit; gradients are not touched: zero_grad() is due. Called by all ranks,
        in the block or after it, before the next backward pass; raises RuntimeError
        if there is nothing to take back. After a CommError, recover() on all ranks
        ends the doubt: then all have discarded, or none.
        """
        self.live.discard()
        self._forget_exchange()

    def scale(self) -> torch.Tensor | None:
        """What gradients are multiplied by, if anything."""
        if self._scaler is None or not self._scaler.is_enabled():
            return None
        # Where there is a tensor, no value has to come from the device.
        tensor = getattr(self._scaler, "_scale", None)
        return tensor.clone() if tensor is not None else torch.tensor(self._scaler.get_scale())

    def recover(self) -> bool:
        """Brings all ranks back to the same step after a CommError.

        All ranks must call it. Returns True if the other ranks have committed
        the step that failed here: its gradients are the mean now. If they have
        skipped that step, stats()["recovered"] is "skipped" and the gradients
        are NaN, as on the other ranks. Otherwise no rank has made the step.
        Raises CommError if a rank is still lost.
        """
        self._forget_exchange()
        return self.live.recover()

    def stats(self) -> dict[str, Any]:
        """What the last step and all steps so far came to, on this rank."""
        return json.loads(self.core.stats)

    def state_dict(self, all_ranks: bool = False) -> dict[str, Any]:
        """All that is kept between steps on this rank; see sluice.state.

        With all_ranks=True, called by all ranks: that of all of them on rank 0, which
        writes it to one file. Other ranks get their own.
        """
        return state.save_all(self) if all_ranks else state.save(self)

    def load_state_dict(self, saved: Any, strict: bool = True) -> None:
        """Goes on from a state, or from those of all ranks; see sluice.state.

        Names may have gained or lost the prefixes of torch.compile and of
        DistributedDataParallel. With strict=False the model may have other tensors:
        those that fit by name and size go on, and a warning names the rest.
        """
        state.load(self, saved, strict)

    @property
    def all_ranks(self) -> state.AllRanks:
        """With state_dict() of all ranks, for who calls it without arguments:

            accelerator.register_for_checkpointing(sync.all_ranks)
        """
        return state.AllRanks(self)

    def set_density(self, density: float) -> None:
        """The share of entries that is sent from the next step on; ends a warm-up.

        Called by all ranks before the same step, with the same value. The plan stays;
        densities of its own change in proportion.
        set_density(1.0) for one step sends all that waits in residuals.
        """
        self.core.set_density(float(density))
        self._how["density"] = float(density)

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
