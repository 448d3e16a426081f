"""TextWorld as the reference, at less cost."""

from collections.abc import Iterator

import pytest

from tests.tasks.alfworld.stock import keep_parses


@pytest.fixture(scope="module")
def kept_parses() -> Iterator[None]:
    """TextWorld parses each text once; see `keep_parses`."""
    with pytest.MonkeyPatch.context() as patch:
        keep_parses(patch)
        yield
