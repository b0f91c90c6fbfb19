"""Sparse gradient exchange for PyTorch.

    ddp = DistributedDataParallel(model)
    sync = sluice.attach(ddp, sparsifier="adtopk", density=0.01)

and every backward pass exchanges about one gradient entry in a hundred; the rest
is kept in a residual and sent later. Without DistributedDataParallel there is
GradientSync; select, encode and decode are the methods as plain functions.
"""

from . import _check_torch

# Before the extension is loaded: with another torch it would only say which
# symbol it misses.
_check_torch.check_torch()

from ._build_info import VERSION as __version__  # noqa: E402
from ._core import CommError  # noqa: E402
from .ddp import HookState, attach, comm_hook  # noqa: E402
from .functions import decode, encode, list, select  # noqa: E402
from .state import load_checkpoint  # noqa: E402
from .sync import GradientSync  # noqa: E402

# Without `list`: `from sluice import *` must not replace Python's.
__all__ = [
    "CommError",
    "GradientSync",
    "HookState",
    "__version__",
    "attach",
    "comm_hook",
    "decode",
    "encode",
    "load_checkpoint",
    "select",
]
