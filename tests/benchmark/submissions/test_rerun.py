"""A sample of an entry is played again, and its record earns the badge."""

import asyncio
import math
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import yaml

from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import EpisodeRecord
from benchmark.logs.training_log import parse_training_log
from benchmark.models import folder_sha256
from benchmark.submissions.badges import badges_of
from benchmark.submissions.check import read_accepted
from benchmark.submissions.reading.entry import ReadRun
from benchmark.submissions.reading.reruns import (
    EPISODES,
    RERUN,
    TOGETHER,
    Rerun,
    RerunSample,
    read_reruns,
)
from benchmark.submissions.report_rows import badges_text
from benchmark.submissions.rerun import (
    Key,
    RerunOutcome,
    add_rerun,
    differences,
    drawn,
    folder_of,
    hold,
    new_nonce,
    play_again,
    same_start,
)
from tasks.errors import UserError
from tasks.registry import load_task
from tests.benchmark.submissions.conftest import Copies
from tests.support.runs.factories import make_record
from tests.support.submissions.small import check

COMMIT, NONCE, DAY = "a" * 40, "b" * 32, date(2026, 3, 1)


def run_of(folder: Path) -> ReadRun:
    return read_accepted(folder).runs[0]


def keys_of(run: ReadRun, nonce: str, count: int) -> list[Key]:
    """The sample of a run on one panel."""
    (keys,) = drawn(run, nonce, count).values()
    return keys


def test_a_sample_is_drawn_from_what_nobody_knows_before(policy: Path) -> None:
    run = run_of(policy)
    keys = keys_of(run, NONCE, 8)
    assert keys == keys_of(run, NONCE, 8)
    assert len(set(keys)) == 8
    assert {record.key for record in run.records} >= set(keys)
    assert keys != keys_of(run, new_nonce(), 8)
    assert new_nonce() != new_nonce()
    assert len(keys_of(run, NONCE, 10_000)) == len(run.records)


def test_who_has_played_plays_the_same_again(policy: Path) -> None:
    run = run_of(policy)
    keys = keys_of(run, NONCE, 8)
    again = asyncio.run(play_again(run, ScriptedEngine("expert"), keys, env_processes=1))
    assert (again.equal, hold([again])) == (8, True)
    assert again.text == "runs/r0, sokoban/builtin: 8 episodes, 8 with equal answers"


def test_a_run_does_not_turn_the_sandbox_off_here(policy: Path) -> None:
    run = run_of(policy)
    task = load_task("tir_math").configured({"sandbox": "unsafe"})
    panel = task.panel("builtin")
    manifest = run.manifest.model_copy(update={"panels": (PanelProtocol.of(task, panel),)})
    key = ("tir_math", "builtin", panel.entries[0].id, 0)
    unsafe = replace(run, manifest=manifest)
    with pytest.raises(UserError, match="played with tir_math.sandbox=unsafe"):
        asyncio.run(play_again(unsafe, ScriptedEngine("expert"), [key], env_processes=1))


def test_who_has_not_played_does_not(policy: Path) -> None:
    """The expert's records, attributed to a policy that plays at random."""
    run = run_of(policy)
    keys = keys_of(run, NONCE, 16)
    again = asyncio.run(play_again(run, ScriptedEngine("random"), keys, env_processes=1))
    assert again.equal == 0
    assert differences([again])["sokoban", "builtin"].high < 0
    assert not hold([again])


def test_where_tokens_are_sampled_all_runs_are_one_sample() -> None:
    """One of five small samples would often differ by chance, and each has little power."""

    def outcome(recorded: int, played: int) -> RerunOutcome:
        before, again = (
            [make_record(f"e{n}", n < k) for n in range(32)] for k in (recorded, played)
        )
        return RerunOutcome("runs/r0", ("sokoban", "builtin"), 256, before, again, greedy=False)

    assert hold([outcome(16, 13)])
    assert not hold([outcome(16, 13)] * 5)
    # Chance works both ways.
    assert hold([outcome(16, 10), outcome(13, 16), outcome(16, 18)])


@pytest.mark.parametrize(
    ("episodes", "claimed", "low", "high"),
    [
        (TOGETHER, 0.3, 0.0, 0.08),  # honest records that fail: 4%
        (TOGETHER, 0.45, 0.83, 0.97),  # 15 points too much: 90%
        (EPISODES, 0.45, 0.18, 0.38),  # by 32 episodes: 28%
    ],
)
def test_how_often_a_sample_does_not_hold(
    episodes: int, claimed: float, low: float, high: float
) -> None:
    """The rates stated for `TOGETHER`, for weights that solve 30%."""
    random = np.random.default_rng(0)

    def solved(rate: float, difficulty: npt.NDArray[np.float64]) -> list[EpisodeRecord]:
        odds = {0.3: -1.18, 0.45: -0.28}[rate] + difficulty  # with this mean over episodes
        won = random.random(episodes) < 1 / (1 + np.exp(-odds))
        return [make_record(f"e{n}", bool(one)) for n, one in enumerate(won)]

    def once() -> bool:
        difficulty = random.normal(0.0, 1.5, episodes)
        claims, again = solved(claimed, difficulty), solved(0.3, difficulty)
        return hold([RerunOutcome("r", ("sokoban", "builtin"), 256, claims, again, greedy=False)])

    share = 1 - np.mean([once() for _ in range(200)])
    assert low <= share <= high


@pytest.mark.parametrize(
    ("episodes", "solved", "low", "high"),
    [(TOGETHER, 53, 0.9, 0.92), (TOGETHER, 10, 0.81, 0.83), (EPISODES, 10, 0.0, 0.08)],
)
def test_how_often_five_points_too_much_are_found_in_greedy_records(
    episodes: int, solved: int, low: float, high: float
) -> None:
    """The rates stated for `TOGETHER`, if one in twenty episodes has a forged outcome."""

    def holds(forged: int) -> bool:
        claims = [make_record(f"e{n}", n < solved + forged) for n in range(episodes)]
        again = [
            make_record(f"e{n}", n < solved, turns=2 if solved <= n < solved + forged else 1)
            for n in range(episodes)
        ]
        return hold([RerunOutcome("r", ("sokoban", "builtin"), 256, claims, again, greedy=True)])

    missed = sum(
        math.comb(episodes, forged) * 0.05**forged * 0.95 ** (episodes - forged)
        for forged in range(20)
        if holds(forged)
    )
    assert low <= 1 - missed <= high


def test_the_first_updates_of_a_training_are_compared(copies: Copies) -> None:
    copy = copies("trained")
    content = copy.read("training/s0.jsonl.zst")
    theirs = parse_training_log(content, Path("theirs"))
    lines = content.splitlines(keepends=True)
    ours = parse_training_log(b"".join(lines[:12]), Path("ours"))
    assert same_start(theirs, ours, 3) is None
    changed = [line.replace(b'"policy/entropy": 0.05', b'"policy/entropy": 0.06') for line in lines]
    other = parse_training_log(b"".join(changed), Path("other"))
    assert (same_start(theirs, other, 3) or "").startswith("update 1, policy/entropy: 0.05")
    with pytest.raises(UserError, match="ours has 5 updates, 6 are compared"):
        same_start(theirs, ours, 6)


def test_published_weights_are_found_by_their_hash(tmp_path: Path) -> None:
    for name, content in (("", b"one"), ("seed1/last", b"two"), ("seed2", b"three")):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "model.safetensors").write_bytes(content)
    (tmp_path / "README.md").write_text("Says nothing of the weights.")
    for name in ("", "seed1/last", "seed2"):
        assert folder_of(tmp_path, folder_sha256(tmp_path / name)) == tmp_path / name
    with pytest.raises(
        UserError, match="none of 3 folders with published weights has SHA-256 eeee"
    ):
        folder_of(tmp_path, "e" * 64)
    # The adapter would be applied to the weights, so `eval` rejects the folder.
    (tmp_path / "seed2" / "adapter_config.json").write_text("{}")
    (tmp_path / "seed2" / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"seed2 has a LoRA adapter .* beside its weights"):
        folder_of(tmp_path, folder_sha256(tmp_path / "seed2"))


def sample(**changes: object) -> RerunSample:
    fields = {"commit": COMMIT, "what": "episodes", "count": 32, "equal": 31, "holds": True}
    return RerunSample.model_validate(fields | changes)


@pytest.mark.slow
def test_the_record_is_what_the_badge_is_made_of(copies: Copies) -> None:
    older, entry = copies("trained").folder, copies("policy").folder
    add_rerun(older, "Ada", DAY, sample(what="updates", equal=32))
    made = add_rerun(entry, "maintainer", DAY, sample())
    assert made.note == "32 episodes played again at commit aaaaaaaaaaaa, 31 equal: they hold"
    reruns = read_reruns(entry.parent)
    assert sorted(reruns) == sorted([older.name, entry.name])
    assert reruns[entry.name] == (made,)
    verdict = check(entry)
    assert badges_of(verdict, reruns).rerun


@pytest.mark.slow
def test_a_rerun_that_fails_is_on_record_and_the_last_one_decides(copies: Copies) -> None:
    entry = copies("policy").folder
    verdict = check(entry)
    held = add_rerun(entry, "maintainer", DAY, sample())
    failed = add_rerun(entry, "maintainer", DAY, sample(holds=False, equal=0))
    assert failed.note.endswith("0 equal: they do not hold")
    reruns = read_reruns(entry.parent)
    assert reruns[entry.name] == (held, failed)
    badges = badges_of(verdict, reruns)
    assert (badges.rerun, badges.contradicted) == (False, True)
    assert badges_text(badges) == "replayed, stability: none, rerun failed"
    again = add_rerun(entry, "maintainer", DAY, sample(equal=32))
    reruns = read_reruns(entry.parent)
    assert reruns[entry.name] == (failed, again)
    badges = badges_of(verdict, reruns)
    assert (badges.rerun, badges.contradicted) == (True, False)


@pytest.mark.slow
def test_updates_that_were_trained_again_are_another_badge(copies: Copies) -> None:
    """The weights were not played again, so it is not called `re-run`."""
    entry = copies("policy").folder
    verdict = check(entry)
    add_rerun(entry, "maintainer", DAY, sample(what="updates", count=6, equal=6))
    badges = badges_of(verdict, read_reruns(entry.parent))
    assert (badges.rerun, badges.retrained) == (False, 6)
    assert badges_text(badges) == "replayed, stability: none, first updates trained again"
    add_rerun(entry, "maintainer", DAY, sample(what="updates", count=6, equal=3, holds=False))
    badges = badges_of(verdict, read_reruns(entry.parent))
    assert (badges.rerun, badges.retrained) == (False, 0)
    add_rerun(entry, "maintainer", DAY, sample())
    badges = badges_of(verdict, read_reruns(entry.parent))
    assert (badges.rerun, badges.retrained) == (True, 0)
    assert badges_text(badges) == "replayed, stability: none, re-run"


@pytest.mark.slow
def test_a_record_stays_beside_one_of_another_kind(copies: Copies) -> None:
    """Training an entry's updates again does not revoke its other record."""
    copy = copies("policy")
    played = add_rerun(copy.folder, "maintainer", DAY, sample())
    trained = add_rerun(copy.folder, "maintainer", DAY, sample(what="updates", count=6, equal=6))
    assert read_reruns(copy.folder.parent) == {copy.folder.name: (played, trained)}
    badges = badges_of(check(copy.folder), read_reruns(copy.folder.parent))
    assert (badges.rerun, badges.retrained) == (True, 6)
    again = add_rerun(copy.folder, "another", DAY, sample())
    assert read_reruns(copy.folder.parent)[copy.folder.name] == (trained, again)
    # Records for other content are removed as well.
    copy.about(lambda about: about.update(contact="Someone else"))
    last = add_rerun(copy.folder, "maintainer", DAY, sample())
    assert read_reruns(copy.folder.parent) == {copy.folder.name: (last,)}


@pytest.mark.slow
def test_a_record_that_a_person_wrote_stays(copies: Copies) -> None:
    copy = copies("policy")
    written = Rerun(date="2026-01-02", by="maintainer", note="all episodes played again, equal")
    content = {copy.folder.name: [written.model_dump(mode="json", exclude_defaults=True)]}
    (copy.folder.parent / RERUN).write_text(yaml.safe_dump(content))
    trained = add_rerun(copy.folder, "maintainer", DAY, sample(what="updates", count=6, equal=6))
    assert read_reruns(copy.folder.parent) == {copy.folder.name: (written, trained)}


@pytest.mark.slow
def test_a_record_does_not_pass_to_another_entry_of_the_name(copies: Copies) -> None:
    """An entry that replaces a removed one has to earn its own badge."""
    copy = copies("policy")
    add_rerun(copy.folder, "maintainer", DAY, sample())
    reruns = read_reruns(copy.folder.parent)
    assert badges_of(check(copy.folder), reruns).rerun
    copy.about(lambda about: about.update(contact="Someone else"))
    verdict = check(copy.folder)
    assert verdict.accepted
    assert not badges_of(verdict, reruns).rerun


@pytest.mark.parametrize("commit", ["a" * 39, "main", "A" * 40])
def test_a_record_names_a_commit(tmp_path: Path, commit: str) -> None:
    (tmp_path / RERUN).write_text(
        f"20260102_policy: {{date: '2026-03-01', by: a, note: b, sample: {{commit: {commit}, "
        "what: episodes, count: 1, equal: 1, holds: true}}\n"
    )
    with pytest.raises(UserError, match="commit"):
        read_reruns(tmp_path)
