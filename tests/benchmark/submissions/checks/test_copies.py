"""Parts copied from other entries: records, logs, weights and names."""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.accepted_entries import AcceptedEntry
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.copies import check_copies
from tasks.seeding import sha256_text
from tests.benchmark.submissions.conftest import Copies, OtherPlays
from tests.benchmark.submissions.few_levels import EPISODES
from tests.benchmark.submissions.stolen import other_logs, problems, renamed
from tests.support.submissions.small import INITS, Copy, Json, as_init, check
from tests.support.training.logs import Line


def test_records_of_another_submission_under_a_new_name(copies: Copies, trained: Path) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    assert problems(copy) == []
    text = f"{EPISODES} of {EPISODES} episodes have the answers and log-probabilities of "
    text += "20260102_trained/runs/r"
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
    other_plays(copy, 0, EPISODES // 2 - 1)
    found = problems(copy, trained)
    assert [problem.partition(" episodes")[0] for problem in found] == [
        f"runs/r{seed}/episodes.jsonl.zst: {EPISODES // 2 + 1} of {EPISODES}" for seed in (0, 1)
    ]
    other_plays(copy, EPISODES // 2 - 1, EPISODES // 2)
    assert problems(copy, trained) == []


def test_a_run_from_episodes_of_several_others_is_a_copy(copies: Copies, trained: Path) -> None:
    """Half of each seed's episodes are used, so neither contributes more than half."""
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    played: list[list[Json]] = []
    for seed in (0, 1):
        copy.records(lambda records: played.append(deepcopy(records)), f"runs/r{seed}")

    def joined(seed: int, mine: int) -> Callable[[list[Json]], None]:
        def change(records: list[Json]) -> None:
            for place in range(EPISODES):
                records[place] = played[seed if place < mine else 1 - seed][place]

        return change

    for seed in (0, 1):
        copy.records(joined(seed, EPISODES // 2), f"runs/r{seed}")
    text = f"{EPISODES} of {EPISODES} episodes have the answers and log-probabilities of other runs"
    assert problems(copy) == []
    assert problems(copy, trained) == [
        f"runs/r{seed}/episodes.jsonl.zst: {text}, taken together" for seed in (0, 1)
    ]


@pytest.mark.slow
def test_logs_of_another_submission(copies: Copies, trained: Path, other_plays: OtherPlays) -> None:
    """Ten of twenty updates may be alike; eleven make a copy."""
    copy = copies("trained")
    renamed(copy)
    other_plays(copy)
    for run in ("runs/r0", "runs/r1"):  # whose plays do not match the validations
        copy.manifest(lambda manifest: manifest["engine"].update(dtype="bfloat16"), run)
    logs = [f"training/s{seed}.jsonl.zst" for seed in (0, 1)]
    text = "updates have the same numbers as 20260102_trained"
    assert problems(copy, trained) == [f"{log}: 20 {text}/{log}" for log in logs]
    other_logs(copy, 9 / 20)
    assert problems(copy, trained) == [f"{log}: 11 {text}/{log}" for log in logs]
    other_logs(copy, 1 / 2)
    assert problems(copy, trained) == []


def test_a_submission_under_a_new_name(copies: Copies, trained: Path) -> None:
    """Only the names of folder, entry and authors are changed."""
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


def test_one_changed_number_of_many_makes_nothing_new(copies: Copies, trained: Path) -> None:
    """In every episode and update, one number is changed by a billionth."""
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
    assert (
        sum(f"{EPISODES} of {EPISODES} episodes have the answers" in problem for problem in found)
        == 2
    )
    assert sum("20 updates have the same numbers" in problem for problem in found) == 2


def test_a_log_with_noise_on_every_number_is_a_copy(
    copies: Copies, trained: Path, other_plays: OtherPlays
) -> None:
    """No digit is equal, but all numbers rise and fall as in the other log."""
    copy = copies("trained")
    renamed(copy)
    other_plays(copy)
    for run in ("runs/r0", "runs/r1"):  # whose plays do not match the validations
        copy.manifest(lambda manifest: manifest["engine"].update(dtype="bfloat16"), run)

    def change(lines: list[Line]) -> None:
        draw = random.Random(0)
        for line in lines:
            if line["kind"] == "update":
                fractions = {n: v for n, v in line.items() if "/" in n and v and v % 1}
                line |= {
                    n: v * (1 - 0.01 * draw.random())
                    for n, v in fractions.items()
                    if not n.startswith(("rollout/", "policy/learning_rate"))
                }
            elif line["kind"] == "validation":
                line["score"] += 0.01

    for seed in (0, 1):
        copy.log(change, seed)
    found = [problem for problem in problems(copy, trained) if "training/" in problem]
    assert len(found) == 2
    for seed, problem in enumerate(found):
        name = f"training/s{seed}.jsonl.zst"
        assert f"validations after the init's are those of {trained.name}/{name}" in problem

    def also_validations(lines: list[Line]) -> None:
        for line in lines:
            if line["kind"] == "validation":
                turns = round(line["turns"] * EPISODES) + 1
                line["turns"] = turns / EPISODES
                for name in ("format_ok", "action_ok"):
                    line[name] = round(turns * line[name]) / turns

    for seed in (0, 1):
        copy.log(also_validations, seed)
    found = [problem for problem in problems(copy, trained) if "training/" in problem]
    assert len(found) == 2
    for seed, problem in enumerate(found):
        assert problem.startswith(f"training/s{seed}.jsonl.zst: ")
        name = f"{trained.name}/training/s{seed}.jsonl.zst"
        assert f"numbers rise and fall from update to update as in {name}" in problem


def test_weights_play_a_panel_once_whatever_they_are_called(copies: Copies, trained: Path) -> None:
    """An init under another name, with somebody else's records."""
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


@pytest.mark.slow
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
    """A policy can be submitted only once; another policy may give the same answers."""
    copy = copies("policy")
    copy.about(lambda about: about.update(name="Mine"))
    assert problems(copy, policy) == [
        "submission.json: expert (policy): 20260102_policy has the same weights"
    ]


def test_all_others_are_asked_for_whatever_comes_out(copies: Copies, trained: Path) -> None:
    """Entries are read one at a time, and reading them also collects information."""
    asked = []

    def others() -> Iterator[AcceptedEntry]:
        for number in range(3):
            asked.append(number)
            yield AcceptedEntry.of(read_accepted(trained))

    assert (
        len(check_copies(read_accepted(copies("trained").folder), Context({}, others()))) == 3 * 5
    )
    assert asked == [0, 1, 2]


def test_a_log_of_many_panels_is_compared_with_no_start(copies: Copies) -> None:
    """The check used to go through all lines for each of them: 20 minutes for a log of 32 MiB."""

    def many(lines: list[Line]) -> list[Line]:
        (first, *_) = [line for line in lines if line["kind"] == "validation"]
        return [lines[0], *({**first, "panel": f"p{number}"} for number in range(15_000))]

    copy = copies("trained")
    copy.log(many)
    began = time.process_time()
    found = check(copy.folder).findings
    assert any("have 15000 panels, but at most 32 are read" in each.problem for each in found)
    assert time.process_time() - began < 8
