"""Pages of results in users' own folders."""

from pathlib import Path

import pytest

from baselines.study.pages.markdown import write_page
from baselines.tracks import registry


def test_links_of_a_page_elsewhere_lead_to_the_shipped_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "RESULTS", tmp_path / "my clone" / "baselines" / "results")
    page = tmp_path / "mine" / "t" / "README.md"
    page.parent.mkdir(parents=True)
    text = "[a](../../tracks/t.yaml#b), [claims](../claims.md), [curves](curves.svg)\n"
    write_page(page, text, tmp_path / "mine")
    # Markdown links cannot contain spaces; links within a copy of the results stay unchanged.
    assert page.read_text() == (
        "[a](../../my%20clone/baselines/tracks/t.yaml#b), [claims](../claims.md), "
        "[curves](curves.svg)\n"
    )
