"""What a GradientSync keeps between steps, for checkpoints.

state_dict() is of one rank. All ranks' together are a state of the job, from
which any number of ranks can go on: what is still owed to the weights, the mean
over the ranks of their residuals, stays the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from . import _core

if TYPE_CHECKING:
    from .sync import GradientSync

_VERSION = 1


def save(sync: GradientSync) -> dict[str, Any]:
    """Tensors, numbers and text only, so that torch.load(weights_only=True) reads it."""
    core = sync.core
    return {
        "version": _VERSION,
        "rank": core.rank,
        "world_size": core.size,
        "steps": core.steps,
        "plan": core.plan,
        "names": sync._names,
        **core.save(),
    }


def _check(sync: GradientSync, states: list[dict[str, Any]]) -> None:
    for s in states:
        if not isinstance(s, dict) or s.get("version") != _VERSION:
            raise ValueError(f"[load_state_dict] the state must be one that state_dict() made, got {type(s).__name__}")
        if s["names"] != sync._names:
            raise ValueError("[load_state_dict] the state must be of the same parameters, but is of another model's")
    world = states[0]["world_size"]
    ranks = [s["rank"] for s in states]
    if any(s["world_size"] != world for s in states):
        raise ValueError("[load_state_dict] all states must be of one job, but their world sizes differ")
    if sync.world_size == world and sync.rank in ranks:
        return
    missing = sorted(set(range(world)) - set(ranks))
    if missing:
        raise ValueError(
            f"[load_state_dict] {sync.world_size} ranks go on from the states of all {world} ranks, as a list, "
            f"but that of rank {missing[0]} is missing"
        )


def load(sync: GradientSync, saved: Any) -> None:
    """From one state, or a list of all ranks'. Called by all ranks."""
    states = saved if isinstance(saved, (list, tuple)) else [saved]
    if not states:
        raise ValueError("[load_state_dict] there must be a state, got an empty list")
    _check(sync, states)
    by_rank = {s["rank"]: s for s in states}
    world = states[0]["world_size"]
    mine = dict(by_rank[sync.rank]) if world == sync.world_size else _inherited(sync, by_rank, world)
    if mine["plan"] != sync.core.plan:
        # Rules and collectives learn per bucket; residuals belong to tensors.
        mine["rules"] = []
        mine["collectives"] = []
    sync.core.load(mine, states[0]["steps"])


def _inherited(sync: GradientSync, by_rank: dict[int, dict[str, Any]], world: int) -> dict[str, Any]:
    parts = _core.inherit(world, sync.rank, sync.world_size)
    residual = sum(by_rank[old]["residual"].double() * factor for old, factor in parts)
    momentum = sum(by_rank[old]["momentum"].double() for old, _ in parts) / len(parts)
    return {
        "residual": torch.as_tensor(residual).float(),
        "momentum": torch.as_tensor(momentum).float(),
        "rules": [],
        "collectives": [],
        "plan": sync.core.plan,
    }
