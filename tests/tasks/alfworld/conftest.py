"""Makes TextWorld, the reference, cheaper to run."""

from collections.abc import Iterator

import pytest

from tests.tasks.alfworld.stock import keep_parses


@pytest.fixture(scope="module")
def kept_parses() -> Iterator[None]:
    """Make TextWorld parse each text only once; see `keep_parses`."""
    with pytest.MonkeyPatch.context() as patch:
        keep_parses(patch)
        yield
