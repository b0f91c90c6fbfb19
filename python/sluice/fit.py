"""Which tensors of a saved state are which of a model's: by their names."""

from __future__ import annotations

import json
from typing import Any, Sequence

import torch

# What torch.compile puts into names, at any place, and DistributedDataParallel in front.
_COMPILED = "_orig_mod"
_WRAPPED = "module"


def _plain(name: str) -> str:
    parts = [part for part in name.split(".") if part != _COMPILED]
    while len(parts) > 1 and parts[0] == _WRAPPED:
        parts = parts[1:]
    return ".".join(parts)


def _plain_names(names: Sequence[str]) -> list[str]:
    plain = [_plain(name) for name in names]
    # A module of the user's own may be called that.
    return plain if len(set(plain)) == len(plain) else list(names)


def _some(names: Sequence[str]) -> str:
    return f"'{names[0]}'" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _check(names: Any, sizes: Any) -> None:
    """A file may say anything."""
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    counts = sizes is None or isinstance(sizes, list) and all(type(n) is int and n >= 0 for n in sizes)
    if not texts or not counts or (sizes is not None and len(sizes) != len(names)):
        raise ValueError(
            "[load_state_dict] a state must name each tensor once, with its number of elements, but this one does not; "
            "it is damaged, or not of sluice"
        )


class Fit:
    """Where each tensor of a model is in flat tensors that have all of a saved one."""

    def __init__(self, info: dict[str, Any], names: Sequence[str], sizes: Sequence[int]) -> None:
        saved: list[str] = info["names"]
        _check(saved, info.get("sizes"))
        at = {name: i for i, name in enumerate(_plain_names(saved))}
        self._from = [at.get(name) for name in _plain_names(names)]
        self._sizes = list(sizes)
        self._saved_sizes = self._sizes_of(info)
        for i, j in enumerate(self._from):
            if j is not None and self._saved_sizes and self._saved_sizes[j] != sizes[i]:
                self._from[i] = None
        taken = set(self._from)
        self.missing = [name for name, j in zip(names, self._from) if j is None]
        self.left = [name for j, name in enumerate(saved) if j not in taken]
        self._names = {saved[j]: name for name, j in zip(names, self._from) if j is not None}

    def _sizes_of(self, info: dict[str, Any]) -> list[int]:
        """Of the saved tensors. States of version 0.2 do not say: then they are those of the
        model, if it has the same names."""
        if "sizes" in info:
            return list(info["sizes"])
        if None in self._from or len(self._from) != len(info["names"]):
            return []
        sizes = [0] * len(self._from)
        for size, j in zip(self._sizes, self._from):
            sizes[j] = size
        return sizes

    @property
    def whole(self) -> bool:
        """Whether both have the same tensors."""
        return not self.missing and not self.left

    def differences(self) -> str:
        parts = []
        if self.missing:
            parts.append(f"has nothing that fits {_some(self.missing)} of the model")
        if self.left:
            parts.append(f"has {_some(self.left)}, which the model does not have in that size")
        return " and ".join(parts)

    def check(self, strict: bool) -> None:
        """Raises ValueError if it does not fit."""
        if self.whole:
            return
        if strict:
            raise ValueError(
                "[load_state_dict] the state must be of a model with the same parameters, but it "
                f"{self.differences()}; strict=False takes what fits"
            )
        if not self._saved_sizes:
            raise ValueError(
                "[load_state_dict] strict=False needs a state that says how large its tensors are, but this one is of "
                f"an earlier version, and {self.differences()}; load it into the model that it is of, and save it again"
            )
        if not self._names:
            raise ValueError(f"[load_state_dict] some tensor of the state must fit, but none does: it {self.differences()}")

    def flat(self, values: torch.Tensor) -> torch.Tensor:
        """The same of the model's tensors, with zeros for those that are missing."""
        if values.numel() == 0:
            return values
        if values.numel() != sum(self._saved_sizes):
            raise ValueError(
                f"[load_state_dict] the residual of the state must have {sum(self._saved_sizes)} elements, got {values.numel()}"
            )
        parts = values.split(self._saved_sizes)
        return torch.cat(
            [values.new_zeros(n) if j is None else parts[j] for n, j in zip(self._sizes, self._from)]
        )

    def plan(self, text: str) -> Any:
        """A plan, or a decision, with the model's names."""
        return self._renamed(json.loads(text))

    def _renamed(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._renamed(item) for item in node]
        if not isinstance(node, dict):
            return node
        return {
            key: [self._names.get(name, name) for name in value] if key == "tensors" else self._renamed(value)
            for key, value in node.items()
        }
