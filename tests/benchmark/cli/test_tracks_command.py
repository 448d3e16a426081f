"""`arlarena-bench tracks` lists every track with its cost, and shows a single one in full."""

import json
import re

import pytest

from baselines.tracks import registry as tracks
from baselines.tracks.registry import Pin, load_track, read_index, track_names
from benchmark.cli.main import main
from benchmark.flat import flat


def test_the_list_says_what_a_track_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = dict(read_index())
    sha256 = pins["sokoban-standard"].sha256
    pins["sokoban-standard"] = Pin(sha256=sha256, cpu_minutes=12.4)
    monkeypatch.setattr(tracks, "read_index", lambda: pins)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["tracks"]) == 0
    printed = capsys.readouterr().out.splitlines()
    track = load_track("sokoban-standard")
    (line,) = [line for line in printed if line.startswith("sokoban-standard")]
    rollout, optimization = track.settings["rollout"], track.settings["optimization"]
    rates = ", ".join(f"{rate:g}" for rate in track.learning_rate.rates)
    assert line.split() == [
        "sokoban-standard",
        track.init.name,
        str(optimization["updates"]),
        str(rollout["groups"] * rollout["group_size"]),
        *f"best of {rates}".split(),
        "12",
        sha256[:12],
    ]
    (paper,) = [line for line in printed if line.startswith("paper-tir_math")]
    assert paper.split()[1:-1] == ["Qwen/Qwen3-4B-Base", "17", "2560", "1e-06", "-"]


def test_the_list_for_programs_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tracks", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found] == list(track_names())
    paper = next(each for each in found if each["name"] == "paper-sokoban")
    assert paper["learning_rate"] == {"fixed": 1e-6}
    assert (paper["updates"], paper["episodes_per_update"]) == (200, 256)
    assert paper["init"]["sha256"] is None and paper["cpu_minutes"] is None
    assert paper["sha256"] == load_track("paper-sokoban").sha256


def test_one_bad_track_does_not_hide_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = dict(read_index())
    pins["sokoban-stress"] = Pin(sha256="0" * 64, cpu_minutes=None)
    monkeypatch.setattr(tracks, "read_index", lambda: pins)
    assert main(["tracks", "--json"]) == 1
    shown = capsys.readouterr()
    names = [each["name"] for each in json.loads(shown.out)]
    assert names == [name for name in track_names() if name != "sokoban-stress"]
    assert shown.err.startswith("arlarena-bench tracks: track sokoban-stress was changed: ")


def test_one_track_is_shown_with_all_that_it_pins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tracks", "sokoban-standard"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    shown = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines)
    track = load_track("sokoban-standard")
    assert first == track.name
    assert shown["SHA-256"] == track.sha256
    assert shown["init"] == "tiny-sokoban (SHA-256 d72e802cf652...)"
    rule = "best of 0.0002, 0.0005, by the rollouts of the last 5 of 10 updates with seed 1000"
    assert shown["learning rate"] == rule
    minutes = read_index()[track.name].cpu_minutes
    assert shown["cost"] == f"{minutes:.0f} CPU minutes for one run on one thread"
    assert "grpo (seeds 0, 1, 2" in shown["results"]  # more may come
    assert shown["rollout.group_size"] == "8" and shown["tis_cap"] == "null"
    assert set(flat(track.settings)) <= set(shown)


def test_one_track_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tracks", "paper-sokoban", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    track = load_track("paper-sokoban")
    assert (found["sha256"], found["settings"]) == (track.sha256, track.settings)
    assert (found["recipes"], found["results"]) == (track.recipes, {})
