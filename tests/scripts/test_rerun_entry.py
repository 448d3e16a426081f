"""Repeats an entry, accepted or from a pull request, with the weights that it names."""

import argparse
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baselines.inits.registry import find_model
from benchmark.engines.core import devices
from benchmark.logs.lines import Resume
from benchmark.submissions.check import read_accepted
from benchmark.submissions.reading.reruns import digest_of, read_reruns
from scripts import rerun_entry
from tasks.errors import UserError
from tests.support.submissions.small import copied

ROOT = Path(__file__).parents[2]
ENTRY = "20261125_tiny-all"
OPTIONS = ("--commit", "a" * 40, "--by", "maintainer", "--episodes", "1")


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(root), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def pull_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A clone with the entry only in a commit, not in its working tree."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "submissions" / ENTRY, clone / "submissions" / ENTRY)
    git(clone, "init", "--quiet")
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "-m", "Add an entry")
    shutil.rmtree(clone / "submissions" / ENTRY)
    monkeypatch.setattr(rerun_entry, "ROOT", clone)
    return git(clone, "rev-parse", "HEAD")


@pytest.mark.slow
def test_an_entry_is_played_again_before_it_is_merged(
    pull_request: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submissions = tmp_path / "clone" / "submissions"
    place = str(submissions / ENTRY)
    assert rerun_entry.main([place, *OPTIONS, "--head", pull_request]) == 0
    # One of each of its four panels.
    assert "4 episodes played again" in capsys.readouterr().out
    ((made,),) = read_reruns(submissions).values()
    assert made.sample is not None
    assert (made.sample.count, made.sample.equal, made.sample.published) == (4, 4, True)
    assert len(made.sample.panels) == 4
    # One episode is no evidence for a panel of hundreds.
    assert not any(panel.own_play for panel in made.sample.panels)
    assert made.submission_sha256 == digest_of(ROOT / "submissions" / ENTRY)


@pytest.mark.slow
def test_records_that_are_not_the_weights_are_recorded_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copied(ROOT / "submissions" / "20261122_tiny-sokoban", tmp_path)

    def invented(records: list[dict[str, Any]]) -> None:
        for record in records:
            record["turns"][0]["response"] = "<action>Up</action>"

    copy.records(invented)
    assert rerun_entry.main([str(copy.folder), *OPTIONS[:-2], "--episodes", "10"]) == 1
    assert "they do not hold" in capsys.readouterr().out.splitlines()[-1]
    ((made,),) = read_reruns(tmp_path).values()
    assert made.sample is not None
    assert (made.holds, made.sample.count, made.sample.equal) == (False, 10, 0)


def test_weights_of_a_track_have_the_chat_template_of_its_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record contains the template, which could name a panel's solutions."""
    entry = read_accepted(ROOT / "submissions" / "20261127_grpo-tir-math-standard")
    init = find_model("tiny-tir-math").path
    assert init is not None
    folder = tmp_path / "weights"
    shutil.copytree(init, folder)
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text() + "{# the answers #}")
    options = argparse.Namespace(model=[], episodes=1, commit="a" * 40)
    monkeypatch.setattr(rerun_entry, "_weights", lambda *given: folder)
    with pytest.raises(UserError, match="chat template or tokenizer is not that of .*tiny-tir"):
        rerun_entry.played(entry, options)


def test_what_no_rerun_can_settle_is_not_played(
    pull_request: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is loaded from an entry that would be rejected anyway."""
    submissions = tmp_path / "clone" / "submissions"
    shutil.copytree(ROOT / "submissions" / ENTRY, submissions / "20270101_other")
    place = str(submissions / ENTRY)
    assert rerun_entry.main([place, *OPTIONS, "--head", pull_request]) == 2
    assert "no rerun can settle this: " in capsys.readouterr().err
    # An accepted entry is on the base branch, so its record must not be replaced from elsewhere.
    there = str(submissions / "20270101_other")
    assert rerun_entry.main([there, *OPTIONS, "--head", pull_request]) == 2
    assert "20270101_other is accepted already; leave --head out" in capsys.readouterr().err


def test_a_commit_without_the_entry_is_a_mistake(
    pull_request: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(tmp_path / "clone" / "submissions" / "20270101_other")
    assert rerun_entry.main([other, *OPTIONS, "--head", pull_request]) == 2
    assert "20270101_other is not in the pull request" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--model", "runs/x"), "--model 'runs/x' is not SEED=MODEL"),
        (("--model", "0="), "--model '0=' is not SEED=MODEL"),
        (("--model", "7=runs/x"), "--model '7=runs/x': the entry has the seeds 0"),
        (("--updates", "1", "--model", "0=runs/x"), "leave it out with --updates"),
    ],
)
def test_a_model_that_would_be_ignored_is_a_mistake(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(ROOT / "submissions" / "20261122_tiny-sokoban")
    assert rerun_entry.main([place, *OPTIONS, *options]) == 2
    assert said in capsys.readouterr().err


def test_updates_are_not_trained_again_without_the_instructions_of_their_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Honest updates would differ."""
    (folder,) = (ROOT / "submissions").glob("*_gigpo-sokoban-stress")  # its date moves with seeds
    entry = read_accepted(folder)
    log = entry.checkpoints[0].log
    assert log is not None
    engine = {**log.start.engine, devices.DEVICE_NAME: "a CPU, AVX512"}
    log = replace(log, start=log.start.model_copy(update={"engine": engine}))
    (tmp_path / "cpuinfo").write_text("flags : fpu avx2\n")
    monkeypatch.setattr(devices, "_CPUINFO", tmp_path / "cpuinfo")
    with pytest.raises(UserError, match="seed 0: trained with AVX512, which this CPU lacks"):
        rerun_entry._begun(replace(entry.checkpoints[0], log=log), 1)


def test_updates_after_a_move_to_another_cpu_are_not_compared() -> None:
    """Honest updates would differ, and a failed rerun would stay in the record."""
    (folder,) = (ROOT / "submissions").glob("*_gigpo-sokoban-stress")
    point = read_accepted(folder).checkpoints[0]
    assert point.log is not None
    start = point.log.start
    engine = {**start.engine, devices.DEVICE_NAME: "a CPU, AVX512"}
    moved = Resume(update=2, engine=engine, versions=start.versions)
    point = replace(point, log=replace(point.log, resumes=(moved,)))
    with pytest.raises(UserError, match="device_name before update 3.*only --updates 2 or fewer"):
        rerun_entry._begun(point, 3)


def test_updates_that_differ_count_only_where_the_log_names_its_cpu() -> None:
    """Another CPU computes differently, which proves nothing about the entry."""
    (folder,) = (ROOT / "submissions").glob("*_gigpo-sokoban-stress")
    log = read_accepted(folder).checkpoints[0].log
    assert log is not None
    first, *rest = log.updates
    name, value = next(iter(first.values.items()))
    changed = replace(first, values={**first.values, name: value + 1})
    again = replace(log, updates=(changed, *rest))
    bare = {key: value for key, value in log.start.engine.items() if key != devices.DEVICE_NAME}
    nameless = replace(log, start=log.start.model_copy(update={"engine": bare}))
    named = {**bare, devices.DEVICE_NAME: "AMD EPYC, AVX2"}
    known = replace(log, start=log.start.model_copy(update={"engine": named}))
    found = rerun_entry._difference(known, again, 1)
    assert found is not None and "AMD EPYC, AVX2" in found
    assert rerun_entry._difference(nameless, log, 1) is None
    with pytest.raises(UserError, match="no rerun is recorded"):
        rerun_entry._difference(nameless, again, 1)
