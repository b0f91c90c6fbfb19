"""Whether gradients that were exchanged are used.

What is not sent of a gradient waits in the residual and comes back in later steps,
also if the gradient itself is thrown away: a discriminator's in its generator's
pass, a spike that the user drops, the first pass of SAM.
"""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, Any, Iterator

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from .sync import GradientSync

# Parameters that may be asked whether they have a gradient, before one is taken.
_CANDIDATES = 8


class Usage:
    """Warns, once, if gradients of a sync are zeroed or replaced between their
    exchange and the next backward pass, and no optimizer has made a step with any of
    its parameters in between.

    Looks at one small parameter, from the first step of an optimizer on: before that,
    a loop may update parameters by itself.
    """

    @classmethod
    def watch(cls, sync: GradientSync) -> Usage | None:
        """None where a gradient leaves nothing behind."""
        how = sync._how
        if how["sparsifier"] == "none" or how["feedback"].startswith("none"):
            return None
        return cls(sync)

    def __init__(self, sync: GradientSync) -> None:
        self._sync = weakref.ref(sync)
        self._mine = {id(p) for p in sync.parameters}
        self._probe: torch.Tensor | None = None
        self._left: torch.Tensor | None = None  # the probe's gradient, exchanged and not used
        self._stepping = False
        self._handles: list[Any] = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        weakref.finalize(sync, self._stop)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of its sync has hooks of its own, or none.
        return type(None), ()

    def exchanged(self) -> None:
        """Behind the last bucket of a step."""
        # Inside an optimizer's step, as in a closure, it is the optimizer that asks for it.
        if self._probe is not None and not self._stepping:
            self._left = self._probe.grad

    def forget(self) -> None:
        """What was exchanged has been taken back, or has failed."""
        self._left = None

    def _stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._probe = self._left = None

    def _owned(self, optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
        return (p for group in optimizer.param_groups for p in group["params"] if id(p) in self._mine)

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if next(self._owned(optimizer), None) is None:
            return
        self._stepping = True
        self._left = None
        if self._probe is None:
            self._choose(optimizer)

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._stepping and next(self._owned(optimizer), None) is not None:
            self._stepping = False

    def _choose(self, optimizer: torch.optim.Optimizer) -> None:
        """The smallest parameter whose gradient is not zero: it is zero later only if
        somebody has zeroed it."""
        candidates = sorted((p for p in self._owned(optimizer) if p.grad is not None), key=torch.Tensor.numel)
        for p in candidates[:_CANDIDATES]:
            if p.grad.is_sparse or not p.grad.any():
                continue
            self._probe = p
            # Called in front of what adds to p.grad.
            self._handles.append(p.register_hook(self._before_accumulation))
            return

    def _before_accumulation(self, _: torch.Tensor) -> None:
        if self._probe is None or self._left is None:
            return
        now, left, owner = self._probe.grad, self._left, self._sync()
        # DDP itself replaces gradients that are views of its buckets.
        stays = owner is not None and getattr(owner, "buckets_are_copies", True)
        zeroed = now is None or not now.any()
        if not zeroed and (now is left or not stays):
            return
        self._left = None
        if owner is None or owner._hook is None or owner.skipped:
            return
        self._warn("zeroed" if zeroed else "replaced")

    def _warn(self, what: str) -> None:
        self._stop()
        warnings.warn(
            f"[sluice] gradients that were exchanged have been {what} before any optimizer used them, but what was "
            "not sent of them is in the residual and comes back in later steps; run a backward pass whose gradients "
            "are not used in `with sync.paused():`, or one that may be dropped in `with sync.tentative():` and drop it "
            "by sync.discard()",
            stacklevel=2,
        )
