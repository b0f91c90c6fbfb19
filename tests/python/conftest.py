import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from pool import Pool  # noqa: E402


@pytest.fixture(scope="session")
def pool():
    ranks = Pool()
    yield ranks
    ranks.close()
