"""Uses the tracks of `tests.support.training.tiny_study` in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from baselines.algorithms.advantage.base import Advantage
from baselines.study.current_tracks import CurrentTrack, current_tracks_of
from baselines.study.schema import Cell
from tests.support.training.tiny_study import make_tracks, use_tracks


@pytest.fixture(scope="session")
def made_tracks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tracks")
    make_tracks(folder)
    return folder


@pytest.fixture
def tiny_tracks(made_tracks: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the tracks, which this process treats as the shipped ones."""
    use_tracks(made_tracks, monkeypatch)
    yield made_tracks


@pytest.fixture
def own_choices() -> Iterator[None]:
    """Remove advantages that a test's plug-ins registered after the test."""
    before = dict(Advantage.choices)
    yield
    Advantage.choices.clear()
    Advantage.choices.update(before)


@pytest.fixture
def current_track(tiny_tracks: Path) -> CurrentTrack:
    """The track `fixed`."""
    return current_tracks_of([Cell("fixed", "grpo", 0)], "study.yaml")["fixed"]
