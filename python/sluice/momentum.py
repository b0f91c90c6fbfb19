"""Where momentum belongs.

An optimizer's momentum is of what was sent: an entry that waited in the residual
for ten steps comes as one push, which momentum then repeats. DGC's feedback
keeps a momentum per rank instead, of what was not sent yet as well, and the
optimizer must then have none.
"""

from __future__ import annotations

import warnings
from typing import Any, Mapping

import torch


def advice(how: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> str:
    """What to change, in a sentence; empty if nothing."""
    factor = max((group.get("momentum", 0) or 0 for group in optimizer.param_groups), default=0)
    if factor == 0 or how["sparsifier"] == "none":
        return ""
    name = type(optimizer).__name__
    if how["feedback"].startswith("dgc"):
        return (
            f"[sluice] feedback 'dgc' has the momentum, so the optimizer must have none: "
            f"{name}(..., momentum=0) instead of {factor:g}"
        )
    if how["feedback"].startswith("none"):
        return ""
    return (
        f"[sluice] {name} repeats with momentum {factor:g} what waited in residuals, which may cost accuracy: "
        f'feedback="dgc:momentum={factor:g}" with {name}(..., momentum=0) keeps a momentum of everything, or use '
        "momentum=0 with a higher learning rate"
    )


_said: set[str] = set()


def warn_once(text: str) -> None:
    """Warns, if there is anything to say that was not said before."""
    if text and text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=3)
