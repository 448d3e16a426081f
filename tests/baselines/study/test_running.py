"""Runs studies with real processes: killed, resumed, failing. Every start takes seconds.

`STUDY_KILLS=20` kills it 20 times; with ten kills or more the study has two recipes, so that there
is enough to do.
"""

import json
import os
import platform
import random
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from baselines.study.cells import CellFiles, Finished, init_cell, read_cell, read_plays
from baselines.study.current_tracks import current_tracks_of
from baselines.study.custom import custom_methods
from baselines.study.schema import Cell, cells_of, read_study
from baselines.study.workspace import Survey, read_state, survey
from benchmark.archive import read_compressed
from tasks.texts import digest_text
from tests.support.training.logs import without_times
from tests.support.training.plugins import RANK, RECIPE, sha256_of
from tests.support.training.tiny_study import command, make_tracks, use_tracks

KILLS = int(os.environ.get("STUDY_KILLS", "1"))
PATIENCE = 900.0
"""Maximum seconds for a study on a busy machine."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def begin(
    folder: Path, name: str, *options: str, study: str = "study.yaml"
) -> "subprocess.Popen[str]":
    """Start or continue a study with named folders for its runs and results."""
    places = ["--out", str(folder / name / "runs"), "--results", str(folder / name / "results")]
    words = ["study", "run", str(folder / study), *places, *options]
    return subprocess.Popen(
        [*command(folder), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def end(process: "subprocess.Popen[str]") -> str:
    said, _ = process.communicate(timeout=PATIENCE)
    return said


def lines_written(folder: Path) -> int:
    """Total lines in all logs and records of a study's runs."""
    lines = 0
    for path in (*folder.rglob("training_log.jsonl"), *folder.rglob("episodes.jsonl")):
        # A run killed before its first checkpoint sets its log aside and starts over.
        with suppress(FileNotFoundError):
            lines += path.read_bytes().count(b"\n")
    return lines


def kill_after_progress(
    process: "subprocess.Popen[str]", runs: Path, best: int, rng: random.Random
) -> int | None:
    """Kill a study shortly after its runs have written more lines than ever before.

    Returns:
        Number of lines at that time; None if the study ended first.
    """
    wanted, deadline = best + rng.randint(1, 2), time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < deadline, "nothing is written"
        if lines_written(runs) >= wanted:
            time.sleep(rng.uniform(0, 1.5))
            found = lines_written(runs)
            process.send_signal(signal.SIGKILL)
            process.wait()
            return found
        time.sleep(0.05)
    return None


def content(found: Finished) -> list[dict[str, Any]]:
    """The lines of a cell's log without times and memory."""
    assert found.facts.log_bytes is not None
    lines = read_compressed(found.place.log, found.facts.log_bytes).splitlines()
    return [without_times(json.loads(line)) | {"created": None} for line in lines]


RECIPES = ["grpo", "gspo"] if KILLS >= 10 else ["grpo"]
TUNED = f"tracks: [tuned], recipes: {RECIPES}"
FAILING, CUSTOM = Cell("fixed", "grpo", 0), Cell("fixed", "ranked", 0)
RUNS = 4 + 2 * len(RECIPES)
"""Including the failing run and the custom one: two inits, and two seeds of every recipe."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracks, and two studies.

    One has one seed; the other has two seeds, its own method, and a first training run that fails.
    """
    folder = tmp_path_factory.mktemp("studies")
    make_tracks(folder)
    failing = "{tracks: [fixed], recipes: [grpo], seeds: [0]}"
    custom = "{tracks: [fixed], recipes: [ranked], seeds: [0]}"
    (folder / "study.yaml").write_text(f"name: tiny\nblocks: [{{{TUNED}, seeds: [0]}}]\n")
    (folder / "failing.yaml").write_text(
        "name: tiny\nrecipes: {own/ranked.yaml: [own/rank.py]}\n"
        f"blocks: [{failing}, {{{TUNED}, seeds: [0, 1]}}, {custom}]\n"
    )
    (folder / "own").mkdir()
    (folder / "own" / "rank.py").write_text(RANK)
    (folder / "own" / "ranked.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> tuple[int, str]:
    """Exit code and output of the study with the failing run, without any kill."""
    # A folder in place of the failing run's log.
    (run_of(folder) / "training_log.jsonl").mkdir(parents=True)
    process = begin(folder, "whole", "--jobs", "2", study="failing.yaml")
    said = end(process)
    return process.returncode, said


def run_of(folder: Path) -> Path:
    """The folder of the failing run."""
    return folder / "whole" / "runs" / "fixed" / "grpo-s0"


def test_a_failing_run_is_reported_and_the_rest_goes_on(
    folder: Path, whole: tuple[int, str]
) -> None:
    code, said = whole
    assert code == 1
    assert f"0 of {RUNS} runs are finished" in said
    results, run = folder / "whole" / "results", run_of(folder)
    assert not CellFiles(results, FAILING).facts.exists()
    tuned = [Cell("tuned", recipe, seed) for recipe in RECIPES for seed in (0, 1)]
    cells = [read_cell(results, cell) for cell in tuned]
    assert all(cells)
    assert all(cell.facts.later_commits == () for cell in cells if cell)
    # Both seeds share the tuning runs, whose cost is not included in a run's.
    costs = [cell.facts.cpu_seconds.get("tune", 0.0) for cell in cells if cell]
    assert sum(cost > 1 for cost in costs) == len(RECIPES)
    (line,) = (line for line in said.splitlines() if line.startswith("fixed grpo seed 0 failed: "))
    assert "train ended with exit code" in line
    assert str(run / "output.txt") in line
    assert (read_state(run).failure or "").startswith("train ended with exit code")
    assert (run / "output.txt").stat().st_size > 0
    assert f"1 of {RUNS} runs failed; run the same command to retry them" in said


def test_runs_of_a_custom_method_are_of_its_code_and_outdated_when_it_changes(
    folder: Path, whole: tuple[int, str], own_choices: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del whole, own_choices
    use_tracks(folder, monkeypatch)
    file, own = folder / "failing.yaml", folder / "own"

    def as_it_is_now() -> Survey:
        study = read_study(file)
        custom = custom_methods(study, file)
        tracks = current_tracks_of(cells_of(study), str(file), custom)
        return survey([CUSTOM], tracks, folder / "whole" / "results", custom)

    (finished,) = as_it_is_now().finished
    assert finished.log is not None
    assert finished.log.start.plugins == {"rank.py": sha256_of(RANK)}
    was, now = RANK, f"{RANK}\n# Another version.\n"
    (own / "rank.py").write_text(now)
    digests = [digest_text(sha256_of(code)) for code in (was, now)]
    said = f"plug-in rank.py was {digests[0]} and is {digests[1]}"
    assert as_it_is_now().outdated == {CUSTOM: said}
    (own / "rank.py").write_text(was)
    (own / "ranked.yaml").write_text(RECIPE.replace("token-mean", "seq-mean-token-mean"))
    said = "recipe ranked has another aggregation now"
    assert as_it_is_now().outdated == {CUSTOM: said}
    (own / "ranked.yaml").write_text(RECIPE)
    assert as_it_is_now().finished


def test_a_study_that_is_stopped_and_killed_ends_with_the_logs_of_one_that_was_not(
    folder: Path, whole: tuple[int, str]
) -> None:
    assert f"{RUNS - 1} of {RUNS}: " in whole[1]
    runs = folder / "killed" / "runs"
    best, rng = stop_at_the_first_line(folder), random.Random(17)
    for kills in range(KILLS):
        process = begin(folder, "killed", "--jobs", "2")
        found = kill_after_progress(process, runs, best, rng)
        if found is None:
            pytest.fail(f"the study ended after {kills} kills: {end(process)}")
        best = max(best, found)
    last = begin(folder, "killed", "--jobs", "2")
    said = end(last)
    assert last.returncode == 0, said

    for cell in (init_cell("tuned"), *cells_of(read_study(folder / "study.yaml"))):
        one = read_cell(folder / "whole" / "results", cell)
        other = read_cell(folder / "killed" / "results", cell)
        assert one is not None
        assert other is not None
        assert one.facts.weights == other.facts.weights
        assert one.facts.commit == other.facts.commit
        # Not the bytes: a resumed evaluation uses other batches, which changes the last bits.
        assert read_plays(one) == read_plays(other)
        if one.log is not None:
            assert content(one) == content(other)
            name = content(one)[0]["engine"]["device_name"]
            assert name.endswith(", AVX2") == (platform.machine() == "x86_64")
    rates = [folder / name / "results" / "tuned" / "rates.yaml" for name in ("whole", "killed")]
    assert rates[0].read_bytes() == rates[1].read_bytes()
    once_more = begin(folder, "whole")
    runs_of_one_seed = 1 + len(RECIPES)
    there = f"{runs_of_one_seed} of {runs_of_one_seed} runs are finished; nothing left to do"
    assert there in end(once_more)
    assert once_more.returncode == 0


def stop_at_the_first_line(folder: Path) -> int:
    """Start a study and stop it, which leaves no process; returns the number of lines written."""
    process = begin(folder, "killed")
    runs = folder / "killed" / "runs"
    deadline = time.monotonic() + PATIENCE
    while not lines_written(runs):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    children = {
        pid
        for path in runs.glob("*/*/study.json")
        if (pid := json.loads(path.read_bytes())["pid"]) is not None
    }
    process.send_signal(signal.SIGTERM)
    said = end(process)
    assert process.returncode == 130
    assert "stopped; run the same command to resume from the last checkpoints" in said
    assert re.search(r" begins; its output: .*output.txt$", said, re.MULTILINE), said
    assert children
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert all(json.loads(path.read_bytes())["pid"] is None for path in runs.glob("*/*/study.json"))
    return lines_written(runs)
