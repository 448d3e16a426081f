"""What is another entry's: records, logs, weights and names."""

import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.models import ModelIdentity
from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.copies import check_copies, check_run
from benchmark.submissions.checks.known import Known, KnownRun, Play
from tasks.seeding import sha256_text
from tests.benchmark.submissions.conftest import Copies, OtherPlays
from tests.support.submissions import INITS, Copy, Json, as_init, check
from tests.support.training_logs import Line


def renamed(copy: Copy) -> None:
    """Gives the entry another name, and both seeds' weights other hashes."""
    hashes = [sha256_text(f"stolen {seed}") for seed in (0, 1)]

    def change(about: Json) -> None:
        about["name"] = "Mine"
        for point, digest in zip(about["checkpoints"], hashes, strict=True):
            point["model"]["sha256"] = digest

    copy.about(change)
    copy.manifest(lambda run: run["model"].update(sha256=hashes[0]), "runs/r0")
    copy.manifest(lambda run: run["model"].update(sha256=hashes[1]), "runs/r1")


def other_numbers(copy: Copy, change: Callable[[float], float]) -> None:
    """Changes all log-probabilities; what was played stays."""

    def records(records: list[Json]) -> None:
        for record in records:
            for turn in record["turns"]:
                turn["log_prob"] = change(turn["log_prob"])

    for run in ("runs/r0", "runs/r1"):
        copy.records(records, run)


def other_logs(copy: Copy, share: float = 1.0) -> None:
    """Makes all numbers of some updates that are no counts a little smaller."""

    def change(lines: list[Line]) -> None:
        updates = [line for line in lines if line["kind"] == "update"]
        for line in updates[: round(share * len(updates))]:
            for name in line:
                if name.startswith(("policy/", "kl", "ratio/", "engine/", "advantage/")):
                    line[name] = None if line[name] is None else line[name] * 0.999

    for seed in (0, 1):
        copy.log(change, seed)


def problems(copy: Copy, *others: Path) -> list[str]:
    verdict = check(copy.folder, [Known.of(read_accepted(other)) for other in others])
    return [f"{finding.file}: {finding.problem}" for finding in verdict.findings]


def test_records_of_another_submission_under_a_new_name(copies: Copies, trained: Path) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    assert problems(copy) == []
    text = "256 of 256 episodes have the answers and log-probabilities of 20260102_trained/runs/r"
    model = [f"grpo-s{seed} (folder, SHA-256 {sha256_text(f's{seed}')[:12]}...)" for seed in (0, 1)]
    assert problems(copy, trained) == [
        f"runs/r{seed}/episodes.jsonl.zst: {text}{seed}, played by {model[seed]}" for seed in (0, 1)
    ]


def test_half_of_the_records_may_be_alike_and_not_more(
    copies: Copies, trained: Path, other_plays: OtherPlays
) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    other_plays(copy, 0, 127)
    found = problems(copy, trained)
    assert [problem.partition(" episodes")[0] for problem in found] == [
        f"runs/r{seed}/episodes.jsonl.zst: 129 of 256" for seed in (0, 1)
    ]
    other_plays(copy, 127, 128)
    assert problems(copy, trained) == []


def test_logs_of_another_submission(copies: Copies, trained: Path, other_plays: OtherPlays) -> None:
    """Twenty updates: ten may be alike, eleven are a copy."""
    copy = copies("trained")
    renamed(copy)
    other_plays(copy)
    logs = [f"training/s{seed}.jsonl.zst" for seed in (0, 1)]
    text = "updates have the numbers of 20260102_trained"
    assert problems(copy, trained) == [f"{log}: 20 {text}/{log}" for log in logs]
    other_logs(copy, 9 / 20)
    assert problems(copy, trained) == [f"{log}: 11 {text}/{log}" for log in logs]
    other_logs(copy, 1 / 2)
    assert problems(copy, trained) == []


def test_a_submission_under_a_new_name(copies: Copies, trained: Path) -> None:
    """Names alone, of folder, entry and authors, are changed."""
    copy = copies("trained")
    copy.about(lambda about: about.update(name="Better", authors=["Mallory"]))
    copy = Copy(copy.folder.rename(copy.folder.with_name("20260102_mallory")))
    assert problems(copy) == []
    found = problems(copy, trained)
    model = [f"grpo-s{seed} (folder, SHA-256 {sha256_text(f's{seed}')[:12]}...)" for seed in (0, 1)]
    assert found[:2] == [
        f"submission.json: {text}: 20260102_trained has the same weights" for text in model
    ]
    assert [problem.partition(":")[0] for problem in found[2:]] == [
        "training/s0.jsonl.zst",
        "training/s1.jsonl.zst",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda _: -5e-5,
        lambda _: -2.0,
        lambda value: value * 1.00002,
        lambda value: value - 0.5,
        lambda value: value * 3,
        lambda value: math.floor(10 * value) / 10,
    ],
    ids=["tiny", "one value", "scaled a little", "moved", "scaled", "rounded"],
)
def test_what_was_played_is_a_copy_whatever_the_numbers_say(
    copies: Copies, trained: Path, change: Callable[[float], float]
) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    other_numbers(copy, change)
    found = problems(copy, trained)
    assert sum("failures among them, were played as in" in problem for problem in found) == 2


@pytest.mark.parametrize("answer", ["{} ", "So: {}", "{}\n"])
def test_other_words_for_the_same_actions_are_a_copy(
    copies: Copies, trained: Path, answer: str
) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    entry = read_accepted(trained)
    mine = [KnownRun.of(run) for run in entry.runs]
    (first,) = {run.path: run for run in mine if run.path == "runs/r0"}.values()

    def reworded(play: Play) -> Play:
        return play._replace(answers=hash((answer, play.answers)))

    other = replace(
        first,
        model=first.model.model_copy(update={"sha256": sha256_text("another")}),
        traces={},
        plays={key: reworded(play) for key, play in first.plays.items()},
    )
    (found,) = check_run(other, first, "x/runs/r0")
    assert "failures among them, were played as in x/runs/r0" in found.problem


def run_with(plays: list[Play], name: str) -> KnownRun:
    model = ModelIdentity(name=name, kind="folder", sha256=sha256_text(name))
    keys = [("sokoban", "builtin", str(number), 0) for number in range(len(plays))]
    return KnownRun(f"runs/{name}", model, {}, dict(zip(keys, plays, strict=True)))


@pytest.mark.parametrize(
    ("alike", "failed_alike", "copied"),
    [(100, 20, True), (85, 17, True), (84, 17, False), (90, 16, False), (72, 11, False)],
)
def test_likeness_is_of_episodes_and_of_failures(
    alike: int, failed_alike: int, copied: bool
) -> None:
    """Of 100 episodes, 20 of them failures, so many are as in another run."""
    solved = [Play(number, number, True) for number in range(80)]
    failed = [Play(number, number, False) for number in range(80, 100)]
    changed = {*range(80 - (alike - failed_alike)), *range(80, 100 - failed_alike)}
    other = [
        Play(-1 - play.answers, -1 - play.answers, True) if play.answers in changed else play
        for play in (*solved, *failed)
    ]
    found = list(check_run(run_with([*solved, *failed], "a"), run_with(other, "b"), "b"))
    assert bool(found) == copied


def test_success_alone_is_no_copy() -> None:
    """Two strong models go the shortest way; nine failures are too few to tell them apart by."""
    solved = [Play(number, number, True) for number in range(91)]
    failed = [Play(number, number, False) for number in range(91, 100)]
    one, other = run_with([*solved, *failed], "a"), run_with([*solved, *failed], "b")
    assert list(check_run(one, other, "b")) == []


def test_one_changed_number_of_many_makes_nothing_new(copies: Copies, trained: Path) -> None:
    """Of every episode and of every update one number is a billionth other."""
    copy = copies("trained")
    renamed(copy)

    def answers(records: list[Json]) -> None:
        for record in records:
            record["turns"][0]["log_prob"] -= 1e-9

    def updates(lines: list[Line]) -> None:
        for line in lines:
            if line["kind"] == "update":
                line["policy/entropy"] += 1e-9

    for seed in (0, 1):
        copy.records(answers, f"runs/r{seed}")
        copy.log(updates, seed)
    found = problems(copy, trained)
    assert sum("256 of 256 episodes have the answers" in problem for problem in found) == 2
    assert sum("20 updates have the numbers" in problem for problem in found) == 2


def test_weights_play_a_panel_once_whatever_they_are_called(copies: Copies, trained: Path) -> None:
    """An init under another name, and with the records of somebody else."""
    copy = copies("trained")
    other = Copy(shutil.copytree(trained, copy.folder.parent / "20260102_other"))
    digest = INITS["tiny-sokoban"] or ""
    for each in (copy, other):
        as_init(each, digest)
    copy.about(lambda about: about.update(name="Another one"))
    model = f"tiny-sokoban (init, SHA-256 {digest[:12]}...)"
    assert problems(copy, other.folder) == [
        f"submission.json: {model}: 20260102_other has the same weights"
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("A policy entry", "A POLICY entry", "a Policy Entry", "A p0licy entry", "A po1icy entry"),
        *("A policy entry.", "A policy-entry", "A pol icy entry", "Apolicyentry", "A poIicy entry"),
        *("A policy (entry)", "A/policy_entry", "A poL1cy entry"),
    ],
)
def test_a_name_is_there_once(copies: Copies, trained: Path, name: str) -> None:
    copy = copies("policy")
    copied = Copy(shutil.copytree(trained, copy.folder.parent / "20260102_other"))
    copied.about(lambda about: about.update(name=name))
    assert problems(copy, copied.folder) == [
        f"submission.json: A policy entry is the name of 20260102_other, or looks like it: {name}"
    ]
    copied.about(lambda about: about.update(name=f"{name} 2"))
    assert problems(copy, copied.folder) == []


def test_answers_of_policies_are_not_compared(policy: Path, copies: Copies) -> None:
    """A policy is sent once; whoever sends another one may answer as it does."""
    copy = copies("policy")
    copy.about(lambda about: about.update(name="Mine"))
    assert problems(copy, policy) == [
        "submission.json: expert (policy): 20260102_policy has the same weights"
    ]


def test_all_others_are_asked_for_whatever_comes_out(copies: Copies, trained: Path) -> None:
    """They are read one by one, and who reads them notes them."""
    asked = []

    def others() -> Iterator[Known]:
        for number in range(3):
            asked.append(number)
            yield Known.of(read_accepted(trained))

    assert (
        len(check_copies(read_accepted(copies("trained").folder), Context({}, others()))) == 3 * 5
    )
    assert asked == [0, 1, 2]
