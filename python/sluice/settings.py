"""How gradients are exchanged, as the extension takes it."""

from __future__ import annotations

import inspect
import json
import math
import numbers
import os
from datetime import timedelta
from typing import Any, Mapping

import torch

# What an exception may say of the tensors whose names match.
_KINDS = ("dense", "no_feedback")
# How GPUs exchange, and what `sluice train` calls it.
_LINKS = {"auto": "auto", "nccl": "nccl", "host": "mpi"}
# Forms of values, as torch has them.
_VALUES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def name_of(method: str) -> str:
    """The name of a method that is given as "name", "name:key=value" or JSON."""
    if method.startswith("{"):
        try:
            return str(json.loads(method).get("name", ""))
        except ValueError:
            return method  # which is refused with the other settings
    return method.split(":")[0]


def _plain(value: Any) -> Any:
    """A setting as JSON has it. What JSON has no form for is refused, as text, with the
    other settings, where all ranks hear of it."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, torch.dtype):
        return _VALUES.get(value, str(value))
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else str(float(value))
    return repr(value)


def _patterns(exceptions: Mapping[str, str]) -> dict[str, str]:
    """The names per kind, as comma-separated text."""
    if not isinstance(exceptions, Mapping):
        raise TypeError(
            f"[attach] exceptions must be a dictionary, got a {type(exceptions).__name__}; "
            '{"embed": "dense"} is one'
        )
    named: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for pattern, kind in exceptions.items():
        if not isinstance(pattern, str) or not pattern:
            raise ValueError(
                "[attach] a key of exceptions must be the name of a parameter or a module, or a pattern such as "
                f'"head.*", got {pattern!r}'
            )
        if kind not in named:
            raise ValueError(
                f"[attach] exceptions must be one of {', '.join(_KINDS)}, got {kind!r} for {pattern!r}"
            )
        if "," in pattern:
            raise ValueError(
                f"[attach] a pattern of exceptions must have no comma, got {pattern!r}; give one entry each"
            )
        named[kind].append(pattern)
    return {kind: ",".join(names) for kind, names in named.items()}


def _names() -> list[str]:
    kinds = inspect.signature(settings_json).parameters.values()
    return [p.name for p in kinds if p.kind is inspect.Parameter.KEYWORD_ONLY]


def settings_json(
    device: torch.device,
    by_buckets: bool,
    *,
    sparsifier: str = "topk",
    density: float = 0.01,
    feedback: str = "residual",
    collective: str = "auto",
    dense_collective: str | None = None,
    values: str | torch.dtype = "fp32",
    plan: str | os.PathLike[str] | Mapping[str, Any] = "auto",
    replan: str = "off",
    exceptions: Mapping[str, str] | None = None,
    dense_below: int = 0,
    dense_rank: int = 1,
    warmup: str = "",
    steps_per_epoch: int = 0,
    total_steps: int = 0,
    network: str = "nominal",
    emulate: str = "",
    gpu_link: str = "auto",
    nonfinite: str = "skip",
    timeout: float | None = None,
    seed: int = 1,
    **unknown: Any,
) -> str:
    """All of it as one JSON object; see attach() for what it means. `by_buckets`:
    gradients come in buckets of DistributedDataParallel."""
    if unknown:
        hint = "; values=torch.bfloat16 is the form of what is sent" if "dtype" in unknown else ""
        raise TypeError(f"[attach] no setting '{next(iter(unknown))}'; known: {' '.join(_names())}{hint}")
    if isinstance(plan, os.PathLike):
        plan = os.fspath(plan)
    if dense_collective is None:
        dense_collective = "dense:by=native" if device.type == "cpu" else "dense"
    # Nothing is selected beside the wire: what DDP's buckets bring is summed where it is.
    dense = isinstance(sparsifier, str) and name_of(sparsifier) == "none"
    follow = plan == "auto" and dense and by_buckets
    if plan == "auto" and dense:
        plan = "size=25M"
    if gpu_link not in _LINKS:
        raise ValueError(f"[attach] gpu_link must be one of {', '.join(_LINKS)}, got {gpu_link!r}")
    settings = {
        "sparsifier": sparsifier,
        "density": density,
        "feedback": feedback,
        "collective": collective,
        "dense_collective": dense_collective,
        "values": values,
        "plan": plan if isinstance(plan, str) else "auto",
        "replan": replan,
        "plan_json": "" if isinstance(plan, str) else json.dumps(plan),
        "dense_below": dense_below,
        "dense_rank": dense_rank,
        "density_schedule": warmup,
        "steps_per_epoch": steps_per_epoch,
        "total_steps": total_steps,
        "follow": follow,
        "network": network,
        "net": emulate,
        "gpu_link": _LINKS[gpu_link],
        "nonfinite": nonfinite,
        "timeout": timeout,
        "seed": seed,
        "device": device.type,
        "threads": torch.get_num_threads(),
        **_patterns(exceptions or {}),
    }
    return json.dumps({name: _plain(value) for name, value in settings.items()})
