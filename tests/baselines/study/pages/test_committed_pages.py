"""The committed pages match the committed cells."""

import re
import shutil
from pathlib import Path

import pytest

from baselines.study.claims import read_claims
from baselines.study.current_tracks import current_tracks_of, without_sweeps
from baselines.study.pages.claims_page import CLAIMS as CLAIMS_PAGE
from baselines.study.pages.claims_page import claims_page
from baselines.study.pages.early_warning import PAGE as EARLY_WARNING
from baselines.study.pages.early_warning import early_warning_page
from baselines.study.pages.overview import (
    BEGIN,
    END,
    OVERVIEW,
    overview_block,
    overview_page,
)
from baselines.study.pages.track_pages import results_by_track
from baselines.study.pages.watched import halved_runs, watched_runs
from baselines.study.schema import cells_of, read_study
from baselines.study.verdicts import verdicts, verdicts_with_noise_once
from baselines.study.workspace import survey, with_inits
from baselines.tracks import registry
from benchmark.cli.main import main

REPOSITORY = Path(__file__).parents[4]
STUDIES, RESULTS = (REPOSITORY / "baselines" / name for name in ("studies", "results"))


@pytest.mark.slow
def test_readme_overview_claims_and_early_warning_show_what_the_committed_cells_say() -> None:
    planned = cells_of(read_study(STUDIES / "table.yaml"))
    cells, current_tracks = with_inits(planned), current_tracks_of(planned, "table.yaml")
    finished = survey(cells, current_tracks, RESULTS).finished
    found = results_by_track(cells, finished, current_tracks)
    listed = read_claims(STUDIES / "claims.yaml")
    judged = verdicts(listed.claims, found, listed.pilots)
    block = overview_block(
        found,
        current_tracks,
        judged,
        len(listed.withdrawn),
        ("standard", "stress"),
        "baselines/results",
    )
    assert block.count("\n") > 10
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    assert f"{BEGIN.format(' of standard, stress')}\n\n{block}\n\n{END}" in readme
    assert overview_page(found, current_tracks) == (RESULTS / OVERVIEW).read_text("utf-8")
    apart = without_sweeps(found, current_tracks)
    warned = early_warning_page(watched_runs(apart), halved_runs(apart))
    assert warned == (RESULTS / EARLY_WARNING).read_text("utf-8")
    # The answer as summarized in prose on the first page.
    said = " ".join(readme.split())
    within = "more frequent than false alarms, but within recipes these runs do not show it"
    assert (within in " ".join(warned.split())) == (
        "A rule warns more often than it gives false alarms" in said
        and "Within recipes, nothing has been shown to warn" in said
    )
    assert (", 95 are above 0," in warned) == ("by the smallest margin that counts" in said)
    assert ("No signal has been shown to warn" in warned) == ("none has been shown to:" in said)
    short = r"in only \d+ of 100 other splits of the runs, and 95 are asked for"
    assert re.findall(short, " ".join(warned.split())) == re.findall(short, said)
    once = verdicts_with_noise_once(listed.claims, found, listed.pilots)
    assert claims_page(judged, once, listed, STUDIES / "claims.yaml", RESULTS) == (
        RESULTS / CLAIMS_PAGE
    ).read_text("utf-8")


@pytest.mark.slow
def test_pages_of_the_shipped_results_show_the_shipped_study_whatever_file_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "results" / "webshop-standard"
    shutil.copytree(RESULTS / "webshop-standard", place)
    monkeypatch.setattr(registry, "RESULTS", place.parent)
    own = tmp_path / "own.yaml"
    own.write_text(
        "name: own\nblocks:\n- {tracks: [webshop-standard], recipes: [grpo], seeds: [0]}\n"
    )
    assert main(["study", "page", str(own)]) == 0
    assert f"{place / 'README.md'}\n" in capsys.readouterr().out
    shown = (RESULTS / "webshop-standard" / "README.md").read_text("utf-8")
    assert (place / "README.md").read_text("utf-8") == shown
    assert "## Claims" in shown and "## Missing" in shown
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["study", "page", str(own), "--results", str(tmp_path / "empty")]) == 2
    assert f"no finished run of this study is in {tmp_path / 'empty'}" in capsys.readouterr().err
