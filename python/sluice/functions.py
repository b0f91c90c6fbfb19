"""The methods as plain functions on tensors, for who studies them."""

from __future__ import annotations

import json
from typing import Any

import torch

from . import _core


def _check_same(residual: torch.Tensor, gradient: torch.Tensor) -> None:
    for name, tensor in (("residual", residual), ("gradient", gradient)):
        taken = tensor.device.type in ("cpu", "cuda") and tensor.is_contiguous()
        if tensor.dtype != torch.float32 or not taken:
            raise ValueError(
                f"[select] the {name} must be contiguous float32 on the CPU or a GPU, got "
                f"{tensor.dtype} on {tensor.device}; .float().contiguous() makes such a one"
            )
    if residual.shape != gradient.shape:
        raise ValueError(
            f"[select] residual and gradient must have one shape, got {tuple(residual.shape)} "
            f"and {tuple(gradient.shape)}"
        )
    if residual.device != gradient.device:
        raise ValueError(
            f"[select] residual and gradient must be on one device, got {residual.device} and {gradient.device}"
        )


def select(
    residual: torch.Tensor,
    gradient: torch.Tensor,
    *,
    sparsifier: str = "topk",
    density: float = 0.01,
    step: int = 0,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of error feedback: which entries would be sent.

        residual = torch.zeros(1000)
        indices, values = sluice.select(residual, gradient, sparsifier="topk", density=0.01)

    Adds the gradient to `residual`, in place, takes the selected entries out of
    it, and returns their flat indices, ascending, and values, on the same device.
    """
    _check_same(residual, gradient)
    return _core.select(residual.detach(), gradient.detach(), sparsifier, density, step, seed)


def encode(indices: torch.Tensor, values: torch.Tensor, size: int, codec: str = "auto") -> torch.Tensor:
    """Entries of a tensor of `size` elements as the bytes that would travel.

        message = sluice.encode(indices, values, gradient.numel())
        indices, values = sluice.decode(message, gradient.numel())
    """
    return _core.encode(indices, values, size, codec)


def decode(message: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What encode() was given. Raises ValueError for anything else than a message
    of a tensor of `size` elements."""
    return _core.decode(message, size)


def list() -> dict[str, Any]:
    """Everything that has a name: sparsifiers, feedback, collectives, planners...

        [row["name"] for row in sluice.list()["sparsifiers"]]
    """
    return json.loads(_core.list_methods())
