"""What a GradientSync keeps between steps, for checkpoints.

A state has one entry per rank, "rank0" and so on, of tensors and one text, so
that torch.load(weights_only=True) reads it. state_dict() has the entry of its
own rank; those of all ranks, in one dictionary or a list of them, are the state
of the job, from which any number of ranks can go on: what is still owed to the
weights, the mean over the ranks of their residuals, stays the same.
"""

from __future__ import annotations

import inspect
import io
import json
import warnings
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import torch

from . import _core
from .fit import Fit

if TYPE_CHECKING:
    from .sync import GradientSync

_VERSION = 1
_PARTS = ("rules", "collectives")

State = Mapping[str, Mapping[str, Any]]


def _joined(parts: list[torch.Tensor], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """One tensor, and the sizes to take it apart by: files like few tensors."""
    sizes = torch.tensor([p.numel() for p in parts], dtype=torch.long)
    return torch.cat([torch.empty(0, dtype=dtype), *parts]), sizes


def save(sync: GradientSync) -> dict[str, dict[str, Any]]:
    """The entry of this rank. Between two steps."""
    core = sync.core
    kept = core.save()
    info = {
        "version": _VERSION,
        "world_size": core.size,
        "steps": core.steps,
        "plan": core.plan,
        "decision": core.decision,
        "names": sync.names,
        "sizes": sync.kept_sizes,
    }
    entry = {"info": json.dumps(info), "residual": kept["residual"], "momentum": kept["momentum"]}
    for part, dtype in zip(_PARTS, (torch.uint8, torch.double)):
        entry[part], entry[f"{part}_sizes"] = _joined(kept[part], dtype)
    return {f"rank{core.rank}": entry}


def save_all(sync: GradientSync) -> dict[str, dict[str, Any]]:
    """The entries of all ranks on the first one, that of this rank on the others. A
    call of all of them between two steps."""
    file = io.BytesIO()
    torch.save(save(sync), file)
    out: dict[str, dict[str, Any]] = {}
    for data in sync.core.gather("state_dict", file.getvalue()):
        out.update(torch.load(io.BytesIO(data), weights_only=True))
    return out


class AllRanks:
    """A sync for who saves one file per job by its objects' state_dict(), called on
    all ranks, as Accelerate does."""

    def __init__(self, sync: GradientSync) -> None:
        self._sync = sync

    def state_dict(self) -> dict[str, Any]:
        return self._sync.state_dict(all_ranks=True)

    def load_state_dict(self, saved: Any, strict: bool = True) -> None:
        self._sync.load_state_dict(saved, strict)


def _merged(saved: State | Sequence[State]) -> dict[str, Mapping[str, Any]]:
    states = [saved] if isinstance(saved, Mapping) else list(saved)
    out: dict[str, Mapping[str, Any]] = {}
    for state in states:
        out.update(state)
    if not out or any(not isinstance(e, Mapping) or "info" not in e for e in out.values()):
        raise ValueError(
            "[load_state_dict] a state must be what state_dict() gave, or a list of what it gave on all "
            f"ranks, got the keys {sorted(out)[:4]}"
        )
    return out


def _checked(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the job was, which all entries must say alike."""
    infos = [json.loads(e["info"]) for e in entries.values()]
    first = infos[0]
    if any(i["version"] != _VERSION for i in infos):
        raise ValueError(f"[load_state_dict] states must be of version {_VERSION}, got {first['version']}")
    if any(i != first for i in infos):
        raise ValueError("[load_state_dict] states must be of one job and step, but these differ")
    return first


def _needed(entries: Mapping[str, Any], old: int, world: int, rank: int) -> Mapping[str, Any]:
    name = f"rank{rank}"
    if name not in entries:
        raise ValueError(
            f"[load_state_dict] {world} ranks that go on from {old} need the states of all of these, in one "
            f"dictionary or a list, but {name} is missing, there are: {', '.join(sorted(entries))}; "
            "state_dict(all_ranks=True) has all of them on the first rank, for one file"
        )
    return entries[name]


def _fitted(entries: Mapping[str, Mapping[str, Any]], fit: Fit) -> dict[str, dict[str, Any]]:
    moved = ("residual", "momentum")
    return {name: {**entry, **{key: fit.flat(entry[key]) for key in moved}} for name, entry in entries.items()}


def load(sync: GradientSync, saved: State | Sequence[State], strict: bool = True) -> None:
    """Goes on from a state. Called by all ranks before the same step. With
    strict=False residuals of tensors that the state does not have start empty."""
    entries = _merged(saved)
    info = _checked(entries)
    fit = Fit(info, sync.names, sync.kept_sizes)
    fit.check(strict)
    if not fit.whole and sync.rank == 0:
        warnings.warn(
            f"[load_state_dict] the state {fit.differences()}: residuals of what is new start empty, and what the "
            "others still owed is dropped",
            stacklevel=3,
        )
    entries = _fitted(entries, fit)
    old = info["world_size"]
    if old == sync.world_size:
        entry = _needed(entries, old, sync.world_size, sync.rank)
        # What that run has measured and decided, this one repeats.
        if info.get("decision") and sync.core.decides_live and fit.whole:
            sync.core.repeat(json.dumps(fit.plan(info["decision"])), info["steps"])
        kept = {key: entry[key] for key in ("residual", "momentum")}
        for part in _PARTS:
            # Rules and collectives learn per bucket; residuals belong to tensors.
            same = fit.whole and fit.plan(info["plan"]) == json.loads(sync.core.plan)
            kept[part] = list(entry[part].split(entry[f"{part}_sizes"].tolist())) if same else []
    else:
        kept = _inherited(sync, entries, old)
    sync.core.load(kept, info["steps"])


def _inherited(sync: GradientSync, entries: Mapping[str, Any], old: int) -> dict[str, Any]:
    """As checkpoints of the program do: see inherit() in sluice/run/rank_part.h."""
    parts = _core.inherit(old, sync.rank, sync.world_size)
    residual = torch.zeros_like(entries[next(iter(entries))]["residual"], dtype=torch.double)
    momenta = []
    for rank, factor in parts:
        entry = _needed(entries, old, sync.world_size, rank)
        residual += factor * entry["residual"].double()
        momenta.append(entry["momentum"].double())
    momentum = torch.stack(momenta).mean(0)
    return {"residual": residual.float(), "momentum": momentum.float(), "rules": [], "collectives": []}


def load_checkpoint(sync: GradientSync, checkpoint_id: Any, key: str = "sluice", strict: bool = True) -> None:
    """Goes on from a checkpoint of torch.distributed.checkpoint, written by any
    number of ranks. `strict` is that of load_state_dict().

        dcp.save({"model": model.state_dict(), "sluice": sync.state_dict()}, checkpoint_id=path)
        ...
        sluice.load_checkpoint(sync, path)
    """
    import torch.distributed.checkpoint as dcp

    reader = dcp.FileSystemReader(checkpoint_id)
    flat: dict[str, Any] = {}
    for name, about in reader.read_metadata().state_dict_metadata.items():
        if not name.startswith(f"{key}.rank"):
            continue
        is_tensor = hasattr(about, "size")
        flat[name] = torch.empty(about.size, dtype=about.properties.dtype) if is_tensor else ""
    if not flat:
        raise ValueError(
            f"[load_checkpoint] '{checkpoint_id}' must have been saved with sync.state_dict() under the key "
            f"'{key}', but has nothing of that name"
        )
    with warnings.catch_warnings():
        # Each rank reads what it likes: nothing to coordinate, which torch warns of.
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        warnings.filterwarnings("ignore", ".*deprecated", FutureWarning)
        alone = "no_dist" in inspect.signature(dcp.load).parameters
        load_alone = dcp.load if alone else dcp.load_state_dict  # torch 2.4
        load_alone(flat, storage_reader=reader, no_dist=True)
    entries: dict[str, dict[str, Any]] = {}
    for name, value in flat.items():
        rank, field = name.removeprefix(f"{key}.").split(".", 1)
        entries.setdefault(rank, {})[field] = value
    load(sync, entries, strict)
