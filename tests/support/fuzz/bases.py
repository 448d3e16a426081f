"""The submissions that fuzzing damages: one of every kind, on panels with few levels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.cli.from_baselines import method_fault
from benchmark.evaluation.evaluate import Plan
from benchmark.submissions.check import CheckResult, check_submission, read_accepted
from benchmark.submissions.checks.accepted_entries import AcceptedEntry
from benchmark.submissions.checks.context import Context
from benchmark.submissions.parts import parts_of
from benchmark.submissions.prepare import prepare
from benchmark.submissions.reading.replays import Replays
from tasks.sokoban.task import SokobanTask
from tests.support.fuzz.oracle import proven
from tests.support.submissions.foreign_logs import MAP, run_folder, trainer_state
from tests.support.submissions.on_tracks import TRACK, on_track
from tests.support.submissions.small import (
    INITS,
    SEEDS,
    Copy,
    about,
    as_init,
    copied,
    play_policy,
    policy_submission,
    trained_submission,
)
from tests.support.training.tiny_study import first_entries

LEVELS = 12
"""Levels of every panel; with fewer, validations of two runs may be equal by chance."""


@dataclass(frozen=True, slots=True)
class Base:
    """A submission that is accepted unchanged.

    Attributes:
        name: Description of its kind.
        folder: Its folder.
        others: Entries with which it is compared.
        replays: Results of earlier successful replays.
        proven: What its check establishes.
        weight: Relative probability of being drawn.
    """

    name: str
    folder: Path
    others: Sequence[AcceptedEntry]
    replays: Replays
    proven: dict[str, Any]
    weight: float = 1.0

    def check(self, folder: Path) -> CheckResult:
        """Check a damaged copy of the submission."""
        return check_submission(folder, _context(self.others, self.replays))


def make_bases(root: Path) -> list[Base]:
    """Make all submissions; from then on, every Sokoban panel consists of its first levels only."""
    SokobanTask.panel = first_entries(SokobanTask, LEVELS)  # type: ignore[method-assign, assignment]
    plan = Plan.of([("sokoban", "builtin")])
    both = Plan.of([("sokoban", "builtin"), ("sokoban", "two_boxes")])
    expert = play_policy(root / "expert", "expert", plan)
    at_random = play_policy(root / "random", "random", plan)
    policy = policy_submission(root, expert)
    trained = trained_submission(root, expert, at_random)
    two_panels = policy_submission(_folder(root, "both"), play_policy(root / "two", "random", both))
    bare = trained_submission(_folder(root, "bare"), expert, at_random, logs=False)
    on_a_track = on_track(_copy(trained, root, "track")).folder
    foreign = _foreign(_folder(root, "foreign"), expert, at_random)
    init = _copy(trained, root, "init")
    as_init(init, INITS["tiny-sokoban"])
    made = {
        "a policy": (policy, trained),
        "a policy on two panels": (two_panels, trained),
        "trainings": (trained, policy),
        "trainings on a track": (on_a_track, policy),
        "checkpoints without logs": (bare, policy),
        "another trainer's logs": (foreign, policy),
        "an init": (init.folder, policy),
    }
    replays = Replays(root / "replays.json")
    bases = []
    for name, (folder, other) in made.items():
        others = [AcceptedEntry.of(read_accepted(other))]
        verdict = check_submission(folder, _context(others, replays))
        assert verdict.accepted, (name, [finding.text for finding in verdict.findings])
        bases.append(Base(name, folder, others, replays, proven(verdict)))
    return bases


def _foreign(root: Path, expert: Path, at_random: Path) -> Path:
    """A submission of two seeds with another trainer's logs."""
    runs = [run_folder(root, seed, expert, at_random) for seed in SEEDS]
    logs = [trainer_state(root / f"log-{seed}", seed) for seed in SEEDS]
    folder = root / "20260102_trained"
    prepare(parts_of(runs, logs, list(SEEDS), [MAP]), about("trained"), folder)
    return folder


def _context(others: Sequence[AcceptedEntry], replays: Replays) -> Context:
    return Context(
        INITS,
        others,
        shipped={"tiny-sokoban": 442_272},
        tracks={TRACK.name: TRACK},
        method_fault=method_fault,
        env_processes=1,
        replays=replays,
    )


def _folder(root: Path, name: str) -> Path:
    (root / name).mkdir()
    return root / name


def _copy(folder: Path, root: Path, name: str) -> Copy:
    return copied(folder, root / name)
