"""Builds catalogues once per session, in a folder of the session."""

from collections.abc import Iterator

import pytest

from tasks.webshop.data.catalogues import CACHE_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield
