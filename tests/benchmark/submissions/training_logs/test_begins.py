"""Compares the start of a log with other logs and entries of the same init."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmark.engines.core.base import Sampling
from benchmark.evaluation.protocol import PanelProtocol, joint_fingerprint
from benchmark.evaluation.summarize import summarize
from benchmark.logs.training_log import TrainingLog, parse_training_log
from benchmark.models import ModelIdentity
from benchmark.submissions.format.schema import Checkpoint
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint, ReadRun
from benchmark.submissions.training_logs.begins import KnownStart, check_begins, known_starts
from tests.support.runs.factories import TASKS, make_manifest, make_protocol, make_record
from tests.support.training.logs import start_line, validation_line

GREEDY = make_protocol(episodes=256)
DRAWN = make_protocol(episodes=256, sampling=Sampling(temperature=0.6))
FLOAT32 = {"kind": "transformers", "dtype": "float32", "device": "cpu"}
BF16 = {"kind": "vllm", "dtype": "bfloat16", "device": "cuda"}
INIT = ModelIdentity(name="tiny-sokoban", kind="init", sha256="1" * 64)
OTHER = INIT.model_copy(update={"sha256": "2" * 64})


def run_of(panel: PanelProtocol, model: ModelIdentity, solved: int, **errors: Any) -> ReadRun:
    manifest = make_manifest(panel).model_copy(update={"model": model, "engine": FLOAT32})
    records = [
        make_record(f"e{number}", number < solved, **(errors if number == 255 else {}))
        for number in range(panel.episodes)
    ]
    return ReadRun("runs/r0", manifest, tuple(records), summarize(manifest, records, TASKS))


def log_of(panel: PanelProtocol, solved: int, **start: Any) -> TrainingLog:
    fields = {"init": INIT.model_dump(), "engine": FLOAT32, **start}
    lines = [start_line(fingerprint=joint_fingerprint([panel.fingerprint]), **fields)]
    lines.append(validation_line(0, solved, 256, fingerprint=panel.fingerprint))
    return parse_training_log(
        "".join(json.dumps(line) + "\n" for line in lines).encode(), Path("l")
    )


def point_of(run: ReadRun, log: TrainingLog | None = None) -> ReadCheckpoint:
    named = Checkpoint(seed=0, model=run.manifest.model, runs=("runs/r0",))
    return ReadCheckpoint(named, (run,), log)


def starts(*points: ReadCheckpoint) -> tuple[KnownStart, ...]:
    # From an entry, only its name and its checkpoints are read.
    return known_starts(Entry(Path("entry"), None, points))  # type: ignore[arg-type]


def problems(panel: PanelProtocol, log: TrainingLog, known: tuple[KnownStart, ...]) -> list[str]:
    return [found.problem for found in check_begins(point_of(run_of(panel, INIT, 128)), log, known)]


@pytest.mark.parametrize(("solved", "fits"), [(100, True), (102, True), (103, False), (0, False)])
def test_greedy_plays_of_an_init_are_those_of_its_entry(solved: int, fits: bool) -> None:
    known = starts(point_of(run_of(GREEDY, INIT, 100)))
    (start,) = known
    assert (start.success, start.episodes, start.said_by) == (100 / 256, 256, "entry/runs/r0")
    assert problems(GREEDY, log_of(GREEDY, solved), known) == [
        f"begins with success {100 * solved / 256:.1f}% on builtin, but tiny-sokoban has 39.1% "
        "in entry/runs/r0"
    ] * (not fits)


def test_logs_of_other_entries_say_it_too() -> None:
    known = starts(point_of(run_of(GREEDY, OTHER, 9), log_of(GREEDY, 100)))
    assert [start.model for start in known] == [INIT]
    assert len(problems(GREEDY, log_of(GREEDY, 90), known)) == 1
    assert not problems(GREEDY, log_of(GREEDY, 90, init=OTHER.model_dump()), known)
    assert not problems(GREEDY, log_of(DRAWN, 90), known)


def test_errors_of_an_engine_are_not_the_inits() -> None:
    assert not starts(point_of(run_of(GREEDY, INIT, 100, error="EngineError: gone")))


def test_starts_of_several_engines_and_inits_are_all_kept() -> None:
    logs = [
        log_of(GREEDY, 100, engine=BF16),
        log_of(GREEDY, 100),
        log_of(GREEDY, 100, init=OTHER.model_dump()),
    ]
    run = run_of(GREEDY, INIT, 128)
    known = starts(*(point_of(run, log) for log in [*logs, *logs]))
    assert [(start.model, start.engine) for start in known] == [
        (OTHER, FLOAT32),
        (INIT, FLOAT32),
        (INIT, BF16),
    ]
    assert len(problems(GREEDY, log_of(GREEDY, 90), known)) == 1
    # If engines compute differently, only the sampling variation is known.
    assert not problems(GREEDY, log_of(GREEDY, 90, engine=BF16), known)
    assert len(problems(GREEDY, log_of(GREEDY, 20, engine=BF16), known)) == 1


def test_one_odd_entry_does_not_decide_what_an_init_solves() -> None:
    """Runs are pooled: ten at 30%, and one at 60%."""
    run = run_of(DRAWN, INIT, 77)
    others = starts(point_of(run, log_of(DRAWN, 77)))
    known = tuple(replace(others[0], said_by=f"e{number}") for number in range(10))
    odd = replace(others[0], success=0.6)
    for solved, fits in ((77, True), (60, True), (100, True), (20, False), (154, False)):
        found = list(check_begins(point_of(run), log_of(DRAWN, solved), (*known, odd)))
        assert (not found) == fits, solved
