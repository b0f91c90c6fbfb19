import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from pool import ON_GPUS, Pool  # noqa: E402


@pytest.fixture(scope="session")
def pool():
    if ON_GPUS and not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    ranks = Pool()
    yield ranks
    ranks.close()
