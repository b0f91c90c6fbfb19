"""Where momentum belongs.

An optimizer's momentum is of what was sent: an entry that waited in the residual
for ten steps comes as one push, which momentum then repeats. DGC's feedback
keeps a momentum per rank instead, of what was not sent yet as well, and the
optimizer must then have none.
"""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, Any, Mapping

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .settings import name_of

if TYPE_CHECKING:
    from .sync import GradientSync


def _momentum_of(optimizer: torch.optim.Optimizer) -> tuple[float, str]:
    """The largest of its groups, and what it is called there."""
    found = [(group.get("momentum", 0) or 0, "momentum={:g}") for group in optimizer.param_groups]
    found += [(group["betas"][0], "betas=({}, ...)") for group in optimizer.param_groups if "betas" in group]
    return max(found, default=(0, ""))


def advice(how: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> str:
    """What to change, in a sentence; empty if nothing."""
    factor, form = _momentum_of(optimizer)
    feedback = name_of(how["feedback"])
    if factor == 0 or "none" in (name_of(how["sparsifier"]), feedback):
        return ""
    name = type(optimizer).__name__
    given, without = form.format(factor), form.format(0.0)
    if feedback == "dgc":
        return (
            f"[sluice] feedback 'dgc' has the momentum, so the optimizer must have none: "
            f"{name}(..., {without}) instead of {given}"
        )
    if form.startswith("betas"):
        return (
            f"[sluice] {name} with {given} repeats what waited in residuals, which may cost accuracy: "
            f"{name}(..., {without}) does not, at the same learning rate"
        )
    return (
        f"[sluice] {name} with {given} repeats what waited in residuals, which may cost accuracy: "
        f'feedback="dgc:momentum={factor:g}" with {name}(..., {without}) keeps a momentum of everything, or use '
        f"{without} with a learning rate 1 / (1 - {factor:g}) times as high"
    )


_said: set[str] = set()


def warn_once(text: str) -> None:
    """Warns, if there is anything to say that was not said before."""
    if text and text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=3)


def watch(sync: GradientSync) -> None:
    """Warns, once, when an optimizer of its parameters makes its first step and
    its momentum does not go with the feedback."""
    mine = {id(p) for p in sync.parameters}
    alive = weakref.ref(sync)
    seen = False

    def look(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        nonlocal seen
        owner = alive()
        if seen or owner is None or all(id(p) not in mine for g in optimizer.param_groups for p in g["params"]):
            return
        seen = True
        warn_once(owner.momentum_advice(optimizer))

    # Not from inside the hook: torch walks over the list of them.
    weakref.finalize(sync, register_optimizer_step_pre_hook(look).remove)
