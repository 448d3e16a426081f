"""The command that pins tracks after an edit."""

from pathlib import Path

import pytest
import yaml

from baselines.tracks import registry as tracks
from scripts.pin_tracks import main, measured_minutes
from tests.support.training.small_track import small, small_track


def test_costs_in_the_index_are_those_of_the_finished_runs() -> None:
    index = tracks.read_index()
    measured = {name: measured_minutes(name, pin.sha256) for name, pin in index.items()}
    assert any(measured.values())
    assert {name: index[name].cpu_minutes for name, minutes in measured.items() if minutes} == {
        name: minutes for name, minutes in measured.items() if minutes
    }


def test_the_index_is_rewritten_unless_a_track_is_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tracks, "TRACKS", tmp_path)
    content = small_track()
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(content))
    assert main() == 0
    said = "1 tracks pinned; without measured CPU minutes: small\n"
    assert capsys.readouterr().out == said
    assert tracks.load_track("small") == small()
    before = (tmp_path / tracks.INDEX).read_bytes()
    del content["settings"]["unit"]
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(content))
    assert main() == 2
    assert "settings lack unit (None); a track needs all of them" in capsys.readouterr().err
    assert (tmp_path / tracks.INDEX).read_bytes() == before
