"""Whether the torch that is imported is the one that this build was made for."""

import torch

from . import _build_info


def check_torch() -> None:
    """Raises ImportError unless it is."""
    if torch.__version__ != _build_info.TORCH:
        raise ImportError(
            f"[sluice] this build of sluice is for torch {_build_info.TORCH}, but torch "
            f"{torch.__version__} is installed; build it anew in its sources: "
            "pip install --no-build-isolation --force-reinstall --no-deps ."
        )
    if not torch.distributed.is_available():
        raise ImportError("[sluice] torch must be built with torch.distributed, but this one is not")
