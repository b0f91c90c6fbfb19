"""How gradients are exchanged, as the extension takes it."""

from __future__ import annotations

import inspect
import json
from typing import Any, Mapping

import torch

# What an exception may say of the tensors whose names match.
_KINDS = ("dense", "no_feedback")
# How GPUs exchange, and what `sluice train` calls it.
_LINKS = {"auto": "auto", "nccl": "nccl", "host": "mpi"}


def _patterns(exceptions: Mapping[str, str]) -> dict[str, str]:
    """The names per kind, as comma-separated text."""
    if not isinstance(exceptions, Mapping):
        raise TypeError(
            f"[attach] exceptions must be a dictionary, got a {type(exceptions).__name__}; "
            '{"embed": "dense"} is one'
        )
    named: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for pattern, kind in exceptions.items():
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
    values: str = "fp32",
    plan: str | Mapping[str, Any] = "auto",
    replan: str = "off",
    exceptions: Mapping[str, str] | None = None,
    dense_below: int = 0,
    dense_rank: int = 1,
    warmup: str = "",
    steps_per_epoch: int = 0,
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
        raise TypeError(f"[attach] no setting '{next(iter(unknown))}'; known: {' '.join(_names())}")
    if dense_collective is None:
        dense_collective = "dense:by=native" if device.type == "cpu" else "dense"
    # Nothing is selected beside the wire: what DDP's buckets bring is summed where it is.
    follow = plan == "auto" and sparsifier == "none" and by_buckets
    if plan == "auto" and sparsifier == "none":
        plan = "size=25M"
    if gpu_link not in _LINKS:
        raise ValueError(f"[attach] gpu_link must be one of {', '.join(_LINKS)}, got {gpu_link!r}")
    # A number that is none, and a density of 0, are refused where all ranks hear of it.
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
    return json.dumps(settings)
