"""Plays equal to another run's: a copy has at least 50 episodes, including ten failures."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmark.evaluation.records import EpisodeRecord, TurnRecord
from benchmark.models import ModelIdentity
from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.accepted_entries import AcceptedEntry, AcceptedRun
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.copies import as_policy, check_copies, check_run
from benchmark.submissions.plays.likeness import Likeness, matched
from benchmark.submissions.plays.play_hash import PlayHash
from tasks.seeding import sha256_text
from tests.benchmark.submissions.conftest import Copies
from tests.benchmark.submissions.stolen import (
    other_logs,
    other_numbers,
    problems,
    renamed,
    with_answers,
)
from tests.support.submissions.small import INITS, Copy

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["{} ", "So: {}", "{}\n"])
def test_other_words_for_the_same_actions_are_a_copy(
    copies: Copies, trained: Path, answer: str
) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    entry = read_accepted(trained)
    mine = [AcceptedRun.of(run) for run in entry.runs]
    (first,) = {run.path: run for run in mine if run.path == "runs/r0"}.values()

    def other_words(play: PlayHash) -> PlayHash:
        return play._replace(answers=hash((answer, play.answers)))

    other = replace(
        first,
        model=first.model.model_copy(update={"sha256": sha256_text("another")}),
        traces={},
        plays={key: other_words(play) for key, play in first.plays.items()},
    )
    (found,) = check_run(other, first, "x/runs/r0")
    assert "failures among them, were played as in x/runs/r0" in found.problem


def reworded(turn: TurnRecord, action: str) -> TurnRecord:
    """Another answer and program with other numbers, but the same result."""
    assert turn.log_prob is not None
    return turn.model_copy(
        update={
            "response": f"{turn.response} ",
            "action": None if turn.action is None else action.format(turn.action),
            "log_prob": 0.97 * turn.log_prob,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("action", ["{}", "{}  # checked"], ids=["a blank", "a comment"])
def test_a_few_turns_are_enough_where_the_world_says_what_came_out(action: str) -> None:
    (entry,) = (ROOT / "submissions").glob("*_gspo-tir-math-standard")
    run = read_accepted(entry).runs[0]
    assert max(len(record.turns) for record in run.records) == 2
    first = AcceptedRun.of(run)

    def changed(record: EpisodeRecord) -> EpisodeRecord:
        *before, last = record.turns
        return record.model_copy(update={"turns": (*before, reworded(last, action))})

    records = tuple(map(changed, run.records))
    other = replace(
        AcceptedRun.of(replace(run, records=records)),
        model=first.model.model_copy(update={"sha256": sha256_text("another")}),
    )
    (found,) = check_run(other, first, "x/runs/r0")
    assert "failures among them, were played as in x/runs/r0" in found.problem


def walked(way: str, states: Sequence[str]) -> PlayHash:
    """An episode with different actions that visited these states."""
    turns: list[tuple[str, str | None, bool, dict[str, str]]] = [
        (f"{way}{state}", f"{way}{state}", True, {}) for state in states
    ]
    return PlayHash.made(turns, solved=False, shown=states)


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        ("abcdefgh", True),
        ("aabcdefgh", True),
        ("abcbcdefgh", True),
        ("abcdefghxy", True),
        ("abcdefghxyz", False),
        ("abcdef", False),
        ("xyz", False),
    ],
)
def test_steps_that_lead_nowhere_make_no_other_episode(other: str, alike: bool) -> None:
    """Eight states: with two more or one less, four of five are shared; with three more, fewer."""
    assert walked("a", "abcdefgh").is_like(walked("b", other)) == alike


def test_states_say_nothing_where_the_world_says_what_came_out() -> None:
    """A page that stays the same after every program."""
    turns = [("a", "print(3)", True, {"output": "3"})]
    others = [("b", "print(1)", True, {"output": "1"})]
    one = PlayHash.made(turns, solved=False, shown="s")
    assert one.states is None
    assert not one.is_like(PlayHash.made(others, solved=False, shown="s"))


def test_a_copy_with_a_needless_step_in_every_episode(copies: Copies, trained: Path) -> None:
    run = read_accepted(trained).runs[0]
    first = AcceptedRun.of(run)

    def longer(record: EpisodeRecord) -> EpisodeRecord:
        """Repeats the first answer, as if the way had been blocked once."""
        start = record.turns[0].model_copy(update={"observation_hash": record.observation_hash})
        return record.model_copy(update={"turns": (start, *record.turns)})

    copied = replace(run, records=tuple(map(longer, run.records)))
    model = first.model.model_copy(update={"sha256": sha256_text("another")})
    other = replace(AcceptedRun.of(copied), model=model, traces={})
    (found,) = check_run(other, first, "x/runs/r0")
    assert "failures among them, were played as in x/runs/r0" in found.problem


def test_two_collapsed_models_are_silent_alike() -> None:
    """Nothing was done in any episode, and the answers are the same line breaks."""
    silent = [PlayHash.made([("\n" * 60, None, False, {})], solved=False)] * 250
    assert list(check_run(run_with(silent, "a"), run_with(silent, "b"), "b")) == []
    wandering = [PlayHash.made([(f"{n}", f"{n}", True, {})], solved=False) for n in range(250)]
    assert list(check_run(run_with(wandering, "a"), run_with(wandering, "b"), "b")) != []


def test_a_silent_end_says_nothing() -> None:
    """Two programs without an answer, or an environment that shows no result of actions."""
    facts = {"status": "ok", "output": "3"}
    one = PlayHash.made([("a", "print(3)", True, facts), ("b", None, False, {})], solved=False)
    other = PlayHash.made([("c", "print(1)", True, facts), ("d", None, False, {})], solved=False)
    assert one.end is None and not one.is_like(other)
    walls = [PlayHash.made([(way, way, True, {})] * 15, solved=False) for way in ("left", "up")]
    assert not walls[0].is_like(walls[1])


def run_with(plays: list[PlayHash], name: str) -> AcceptedRun:
    model = ModelIdentity(name=name, kind="folder", sha256=sha256_text(name))
    keys = [("sokoban", "builtin", str(number), 0) for number in range(len(plays))]
    return AcceptedRun(f"runs/{name}", model, {}, dict(zip(keys, plays, strict=True)))


@pytest.mark.parametrize(
    ("alike", "failed_alike", "copied"),
    [(100, 20, True), (85, 17, True), (84, 17, False), (90, 16, False), (95, 16, True)],
)
def test_likeness_is_of_episodes_and_of_failures(
    alike: int, failed_alike: int, copied: bool
) -> None:
    """Of 100 episodes with 20 failures, this many are equal to another run's."""
    solved = [PlayHash(number, number, True) for number in range(80)]
    failed = [PlayHash(number, number, False) for number in range(80, 100)]
    changed = {*range(80 - (alike - failed_alike)), *range(80, 100 - failed_alike)}
    other = [
        PlayHash(-1 - play.answers, -1 - play.answers, True) if play.answers in changed else play
        for play in (*solved, *failed)
    ]
    found = list(check_run(run_with([*solved, *failed], "a"), run_with(other, "b"), "b"))
    assert bool(found) == copied


@pytest.mark.parametrize(
    ("errors", "failed", "alike", "copied"),
    [
        # Of 100 episodes: number of errors instead of failures, remaining failures, and how many of
        # the remaining episodes are equal.
        (11, 9, 89, True),
        (11, 9, 85, True),
        (11, 9, 84, False),
        (20, 0, 80, True),
        (20, 0, 75, False),
        (5, 15, 83, True),
    ],
)
def test_errors_do_not_hide_whose_failures_these_are(
    errors: int, failed: int, alike: int, copied: bool
) -> None:
    first = [PlayHash(number, number, number >= errors + failed) for number in range(100)]
    changed = {*range(99, 99 - (100 - errors - alike), -1)}
    other = [
        PlayHash.made([], solved=False, ended=False)
        if play.answers < errors
        else play._replace(answers=-1 - play.answers, actions=-1 - play.answers)
        if play.answers in changed
        else play
        for play in first
    ]
    for mine, theirs in ((other, first), (first, other)):
        found = list(check_run(run_with(mine, "a"), run_with(theirs, "b"), "b"))
        assert bool(found) == copied


def test_errors_alone_say_nothing() -> None:
    errors = [PlayHash.made([], solved=False, ended=False)] * 100
    assert list(check_run(run_with(errors, "a"), run_with(errors, "b"), "b")) == []


@pytest.mark.parametrize(
    ("alike", "failed_alike", "copied"),
    [(95, 15, True), (94, 14, False), (96, 16, True), (100, 20, True)],
)
def test_nearly_all_episodes_are_a_copy_whatever_some_failures_say(
    alike: int, failed_alike: int, copied: bool
) -> None:
    """Of 100 episodes with 20 failures, only failures are played differently."""
    first = [PlayHash(number, number, number >= 20) for number in range(100)]
    other = [
        PlayHash(-1 - play.answers, -1 - play.answers, False)
        if play.answers < 100 - alike
        else play
        for play in first
    ]
    assert sum(play in first for play in other[:20]) == failed_alike
    found = list(check_run(run_with(other, "a"), run_with(first, "b"), "b"))
    assert bool(found) == copied


def test_strong_models_differ_in_their_failures() -> None:
    """Of 300 episodes, both solve 288 in the same way, and each fails differently in eight."""
    solved = [PlayHash(number, number, True) for number in range(300)]

    def failing(first: int) -> list[PlayHash]:
        failed = [PlayHash(-1000 * first - n, -1000 * first - n, False) for n in range(8)]
        return [*solved[:first], *failed, *solved[first + 8 :]]

    one, other = run_with(failing(10), "a"), run_with(failing(14), "b")
    assert Likeness.of(one.plays, other.plays) == Likeness(300, 288, 8, 0, 12, 12)
    assert list(check_run(one, other, "b")) == []


def repeated(run: AcceptedRun, order: Sequence[int]) -> AcceptedRun:
    """Four repeats of 25 episodes, in a different order."""
    plays = {
        (*key[:2], str(number // 4), order[number % 4]): play
        for number, (key, play) in enumerate(run.plays.items())
    }
    traces = {key: (play.answers,) for key, play in plays.items()}
    return replace(run, plays=plays, traces=traces)


@pytest.mark.parametrize("numbers", [True, False], ids=["with numbers", "without"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 2, 3, 0), (3, 1, 0, 2)])
def test_repeats_in_another_order_are_a_copy(order: tuple[int, ...], numbers: bool) -> None:
    plays = [PlayHash(number, number, number % 3 > 0) for number in range(100)]
    one = repeated(run_with(plays, "a"), order)
    other = repeated(run_with(plays, "b"), (0, 1, 2, 3))
    if not numbers:
        one = replace(one, traces={})
    (found,) = check_run(one, other, "b")
    said = "have the answers and log-probabilities" if numbers else "100 of 100 episodes, 34 of 34"
    assert said in found.problem


def test_each_repeat_is_like_one_other() -> None:
    """Four equal plays match one of four different ones."""
    plays = [PlayHash(number, number, False) for number in range(200)]
    again = [plays[number - number % 4] for number in range(200)]
    found = Likeness.of(
        repeated(run_with(again, "a"), range(4)).plays,
        repeated(run_with(plays, "b"), range(4)).plays,
    )
    assert (found.common, found.alike, found.failed, found.alike_failed) == (200, 50, 200, 50)


def test_the_largest_part_of_the_repeats_is_compared() -> None:
    """In either order, no play takes another one's only partner."""
    both, one, other = PlayHash(1, 2, True), PlayHash(1, 7, True), PlayHash(8, 2, True)
    assert len(matched([both, one], [one, other], PlayHash.is_like)) == 2
    assert len(matched([one, both], [one, other], PlayHash.is_like)) == 2
    assert len(matched([one, both], [one, one], PlayHash.is_like)) == 2
    assert len(matched([one, both], [other], PlayHash.is_like)) == 1


def test_a_trained_run_is_not_played_again_by_an_init() -> None:
    """Weights close to an init may play like it; an init does not play like a later training."""
    plays = [PlayHash(number, number, number >= 20) for number in range(100)]
    one, other = run_with(plays, "a"), run_with(plays, "b")
    init = replace(one, model=ModelIdentity(name="i", kind="init", sha256=sha256_text("i")))
    (found,) = check_run(init, other, "b")
    assert "100 of 100 episodes, 20 of 20 failures among them, were played as in b" in found.problem
    assert list(check_run(other, init, "a")) == []
    program = replace(one, model=ModelIdentity(name="expert", kind="policy"))
    assert list(check_run(program, other, "b")) == []


def test_success_alone_is_no_copy() -> None:
    """Two strong models take the shortest way; nine failures are too few to distinguish them."""
    solved = [PlayHash(number, number, True) for number in range(91)]
    failed = [PlayHash(number, number, False) for number in range(91, 100)]
    one, other = run_with([*solved, *failed], "a"), run_with([*solved, *failed], "b")
    assert list(check_run(one, other, "b")) == []


@pytest.mark.slow
def test_a_policys_answers_need_weights_that_can_be_loaded(policy: Path, copies: Copies) -> None:
    """A program's records cannot be distinguished from those of a model cloned from it."""
    copy = copies("trained")
    expert = [json.loads(x) for x in Copy(policy).read("runs/r0/episodes.jsonl.zst").splitlines()]
    for seed in (0, 1):
        copy.records(lambda records: with_answers(records, expert), f"runs/r{seed}")
    context = Context(INITS, [AcceptedEntry.of(read_accepted(policy))])
    found = [finding.text for finding in check_copies(read_accepted(copy.folder), context)]
    said = "256 of 256 episodes were played as the policy expert plays them"
    texts = [text for text in found if "policy expert" in text]
    assert [text.partition("; ")[0] for text in texts] == [
        f"runs/r{seed}/episodes.jsonl.zst: {said}" for seed in (0, 1)
    ]
    assert [note for note in context.notes if said in note] == [
        f"runs/r{seed}: {said}; rerun the entry before it is merged" for seed in (0, 1)
    ]
    # At any other address, the existence of weights cannot be verified.
    hub = "https://huggingface.co/owner/name"
    for address, refused in (
        ("https://example.org/weights", True),
        (hub, True),
        (f"{hub}/tree/main", True),
        (f"{hub}/tree/{'a' * 40}", False),
    ):
        copy.about(partial(dict.update, weights=address))
        context = Context(INITS, [AcceptedEntry.of(read_accepted(policy))])
        found = [finding.text for finding in check_copies(read_accepted(copy.folder), context)]
        assert any("policy expert" in text for text in found) == refused, address
        assert len([note for note in context.notes if said in note]) == 2


@pytest.mark.parametrize(
    ("alike", "episodes", "found"),
    [(85, 100, "85 of 100"), (84, 100, None), (43, 50, "43 of 50"), (49, 49, None)],
)
def test_likeness_to_a_policy_is_of_episodes(alike: int, episodes: int, found: str | None) -> None:
    plays = [PlayHash(number, number, True) for number in range(episodes)]
    other = [*plays[:alike], *(PlayHash(-1, -2, False) for _ in plays[alike:])]
    model, program = run_with(other, "a"), run_with(plays, "expert")
    program = replace(program, model=ModelIdentity(name="expert", kind="policy"))
    assert as_policy(model, program) == found
    assert as_policy(program, program) is None
    assert as_policy(model, run_with(plays, "b")) is None


def test_what_the_world_said_last_is_no_likeness_to_a_policy() -> None:
    facts = {"answer": "3", "verdict": "right"}
    plays = [PlayHash.made([(f"{n}", f"{n}", True, facts)], solved=True) for n in range(100)]
    other = [PlayHash.made([(f"a{n}", f"b{n}", True, facts)], solved=True) for n in range(100)]
    program = run_with(plays, "expert")
    program = replace(program, model=ModelIdentity(name="expert", kind="policy"))
    assert as_policy(run_with(other, "a"), program) is None
