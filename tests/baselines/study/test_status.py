"""The status of a study of which some data is missing here."""

import json
from pathlib import Path

import pytest

from baselines.study.cells import CellFiles
from baselines.study.schema import Cell
from benchmark.cli.main import main

STUDY = """
name: some
blocks:
  - {tracks: [paper-alfworld, sokoban-standard, paper-webshop], recipes: [grpo], seeds: [0, 1]}
"""


@pytest.mark.parametrize("as_json", [False, True])
def test_tracks_without_data_are_all_named_and_the_others_shown(
    as_json: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for task in ("ALFWORLD", "WEBSHOP"):
        monkeypatch.setenv(f"{task}_DATA", str(tmp_path / "nowhere"))
    (tmp_path / "study.yaml").write_text(STUDY)
    results = tmp_path / "results"
    facts = CellFiles(results, Cell("paper-alfworld", "grpo", 1)).facts
    facts.parent.mkdir(parents=True)
    facts.write_text("{}")
    words = ["study", "status", str(tmp_path / "study.yaml"), "--results", str(results)]
    words += ["--out", str(tmp_path / "runs")]
    assert main([*words, *(["--json"] if as_json else [])]) == 0
    said = capsys.readouterr().out
    if not as_json:
        lines = said.splitlines()
        assert sum(" cannot be read here: " in line for line in lines) == 2
        assert "paper-alfworld grpo has files that were not checked: seeds 1" in lines
        assert any(line.split()[:2] == ["sokoban-standard", "grpo"] for line in lines)
        assert lines[-1].startswith("0 of 9 runs are finished; ")
        assert lines[-1].endswith(", and 6 runs on tracks whose panels cannot be read here")
        return
    found = json.loads(said)
    assert found["out"] == str(tmp_path / "runs")
    assert set(found["unread"]) == {"paper-alfworld", "paper-webshop"}
    assert "alfworld/valid_seen: folder " in found["unread"]["paper-alfworld"]
    rows = {(row["track"], row["recipe"]): row for row in found["rows"]}
    assert rows["sokoban-standard", "grpo"]["missing"] == [0, 1]
    assert rows["paper-webshop", "grpo"]["missing"] == [0, 1]
    alfworld = rows["paper-alfworld", "grpo"]
    assert (alfworld["missing"], alfworld["unchecked"]) == ([0], [1])


def test_where_runs_in_progress_were_looked_for_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default in the working directory, which may be another than the one of `study run`."""
    (tmp_path / "study.yaml").write_text(
        "name: mine\nblocks: [{tracks: [sokoban-stress], recipes: [grpo], seeds: [7]}]\n"
    )
    started, elsewhere = tmp_path / "started", tmp_path / "elsewhere"
    out = started / "runs" / "study-mine"
    out.mkdir(parents=True)
    elsewhere.mkdir()
    words = [
        "study",
        "status",
        str(tmp_path / "study.yaml"),
        "--results",
        str(tmp_path / "results"),
    ]
    said = []
    for folder in (started, elsewhere):
        monkeypatch.chdir(folder)
        assert main(words) == 0
        said.append(capsys.readouterr().out.splitlines()[-2])
    assert said == [
        f"runs in progress are in {out}",
        f"no run was started in {elsewhere / 'runs' / 'study-mine'} yet; "
        "if some were started elsewhere, name their folder with --out",
    ]
    assert main([*words, "--out", str(out)]) == 0
    assert f"runs in progress are in {out}\n" in capsys.readouterr().out


def test_a_study_whose_data_is_not_here_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    (tmp_path / "study.yaml").write_text(STUDY)
    assert main(["study", "run", str(tmp_path / "study.yaml"), "--out", str(tmp_path)]) == 2
    assert "paper-alfworld grpo: alfworld/valid_seen: folder " in capsys.readouterr().err
