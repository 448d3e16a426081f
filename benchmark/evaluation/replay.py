"""Replay: feeds recorded responses to the same environment, without a model, and compares.

The world does it again where the task wants it (`execute`, in worker processes if need be); the
comparison with the record is made here.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import tee
from types import MappingProxyType
from typing import Any, TypeAlias

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import PanelProtocol, SamplingOverrides
from benchmark.evaluation.records import (
    EpisodeRecord,
    EpisodeTotals,
    image_hashes,
    messages_hash,
    observation_hash,
    totals_of,
)
from benchmark.evaluation.response_part import read_by_world
from benchmark.hosts.base import WorkerDied
from benchmark.hosts.choose import parallel_map
from benchmark.hosts.worker import EpisodeExecution, execute
from tasks.base import Task
from tasks.episode import Outcome, Step, View
from tasks.errors import UserError
from tasks.options import Settings
from tasks.panels import Panel, PanelEntry
from tasks.registry import load_task
from tasks.seeding import canonical_json


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something that the record says and the world does not.

    Attributes:
        turn: Number of the turn, from 1; None for the episode as a whole.
        field: Name of the record's field.
        recorded: What the record says.
        replayed: What the world did.
    """

    turn: int | None
    field: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        """One line for people."""
        where = "episode" if self.turn is None else f"turn {self.turn}"
        return f"{where}, {self.field}: recorded {self.recorded!r}, replayed {self.replayed!r}"


@dataclass(frozen=True, slots=True)
class Replay:
    """One record, re-executed.

    Attributes:
        record: The record.
        start: The first view.
        steps: What each recorded response did, as far as the replay came.
        differences: Where record and world disagree; empty for a record that holds.
        doubts: What the world could neither confirm nor refute, as (turn from 1, why).
    """

    record: EpisodeRecord
    start: View | None
    steps: tuple[Step, ...]
    differences: tuple[Mismatch, ...]
    doubts: tuple[tuple[int, str], ...]


Claim: TypeAlias = tuple[EpisodeRecord, PanelProtocol, Task, PanelEntry]
"""A record, what it was played under, its task, and the panel's entry that it names."""


def replay_run(
    manifest: Manifest,
    records: Iterable[EpisodeRecord],
    env_processes: int | None = None,
    settings: Settings = MappingProxyType({}),
) -> Iterator[Replay]:
    """Re-execute records, in order.

    Args:
        manifest: The run.
        records: Some or all of its records.
        env_processes: Worker processes for tasks that want them, at most; None for one for each
            usable core.
        settings: What the user of this machine has chosen; only dangerous settings need it.

    Raises:
        UserError: The run was played under a protocol that is not the installed one, or with a
            dangerous setting that was not chosen here, episodes cannot be played here, or a record
            names an episode that its panel does not have.
    """
    yield from replay_records(claims_of(manifest, records, settings), env_processes)


def claims_of(
    manifest: Manifest,
    records: Iterable[EpisodeRecord],
    settings: Settings = MappingProxyType({}),
) -> Iterator[Claim]:
    """What records of a run claim, in order; arguments and errors are those of `replay_run`."""
    panels = {}
    for protocol in manifest.panels:
        task, panel = installed_panel(protocol)
        refuse_dangerous(
            task,
            f"{protocol.task}/{protocol.panel} was played",
            "replay",
            settings.get(protocol.task, {}),
        )
        task.require()
        entries = {entry.id: entry for entry in panel.entries}
        panels[protocol.task, protocol.panel] = protocol, task, entries
    for record in records:
        if (record.task, record.panel) not in panels:
            raise UserError(f"record {record.key}: the run does not play {record.panel}")
        protocol, task, entries = panels[record.task, record.panel]
        if record.episode not in entries:
            raise UserError(f"{record.task}/{record.panel} has no episode {record.episode}")
        yield record, protocol, task, entries[record.episode]


def replay_records(
    claims: Iterable[Claim], env_processes: int | None = None, trust: bool = False
) -> Generator[Replay]:
    """Re-execute records, in order; only a few of them are held in memory at a time.

    Args:
        claims: The records.
        env_processes: See `replay_run`.
        trust: What takes long to repeat is taken from the records: to show them, not to prove them.
    """
    # What is to be compared is kept beside what is being executed ahead of it.
    to_execute, to_compare = tee(claims)
    calls = (
        (task, (entry, protocol.max_turns, _recorded(record, protocol), trust))
        for record, protocol, task, entry in to_execute
    )
    with closing(parallel_map(execute, calls, env_processes, _died)) as executions:
        for execution, claim in zip(executions, to_compare, strict=True):
            yield _compare(*claim, execution)


def _recorded(
    record: EpisodeRecord, protocol: PanelProtocol
) -> tuple[tuple[str, dict[str, Any]], ...] | None:
    """What is fed to the world; None for a record whose world was never set up."""
    if record.observation_hash is None:
        return None
    return tuple((read_by_world(protocol, turn.response), turn.info) for turn in record.turns)


def _died(error: WorkerDied) -> EpisodeExecution:
    return EpisodeExecution(None, (), (), f"{type(error).__name__}: {error}")


def installed_panel(protocol: PanelProtocol) -> tuple[Task, Panel]:
    """The task and panel that a protocol names, if they are the same here.

    Raises:
        UserError: They are not there, or differ in a way that the protocol pins.
    """
    task = load_task(protocol.task).configured(protocol.settings)
    panel = task.panel(protocol.panel)
    here = PanelProtocol.of(task, panel, SamplingOverrides.of(protocol))
    for field in fields(PanelProtocol):
        recorded, installed = getattr(protocol, field.name), getattr(here, field.name)
        if recorded != installed:
            raise UserError(
                f"{protocol.task}/{protocol.panel} was played with {field.name} "
                f"{recorded!r}, but here it is {installed!r}: install the version of "
                "the run"
            )
    return task, panel


def refuse_dangerous(
    task: Task, what: str, again: str, chosen: Mapping[str, str] | None = None
) -> None:
    """Refuse settings from outside that only the user of this machine may choose.

    Args:
        task: As the run had configured it.
        what: The run, as the beginning of a sentence.
        again: What would do the same here, such as `replay`.
        chosen: Settings that the user has chosen here; None where nobody can.

    Raises:
        UserError: One of them is dangerous and was not chosen.
    """
    for name, value in task.settings().items():
        setting = task.info.settings[name]
        if value in setting.dangerous and (chosen is None or chosen.get(name) != value):
            choice = f"{task.info.name}.{name}={value}"
            allowed = "" if chosen is None else f"; if you trust the run, pass --set {choice}"
            raise UserError(
                f"{what} with {choice}, and a {again} would do the same on this machine "
                f"({setting.description}){allowed}"
            )


def _compare(
    record: EpisodeRecord,
    protocol: PanelProtocol,
    task: Task,
    entry: PanelEntry,
    execution: EpisodeExecution,
) -> Replay:
    """Compare a record with what the world did."""
    differences: list[Mismatch] = []

    def check(turn: int | None, field: str, recorded: Any, replayed: Any) -> None:
        if recorded != replayed:
            differences.append(Mismatch(turn, field, recorded, replayed))

    check(None, "category", record.category, entry.category)
    check(None, "repeat", record.repeat in range(protocol.repeats), True)
    if record.observation_hash is None:
        check(None, "turns", len(record.turns), 0)
    view, outcome = execution.start, None
    if view is not None:
        check(None, "observation_hash", record.observation_hash, observation_hash(view))
        check(None, "images", record.images, image_hashes(view))
        for number, (turn, step) in enumerate(zip(record.turns, execution.steps, strict=False), 1):
            check(number, "prompt_hash", turn.prompt_hash, messages_hash(view))
            check(number, "action", turn.action, step.action)
            check(number, "format_ok", turn.format_ok, step.format_ok)
            check(number, "action_ok", turn.action_ok, step.action_ok)
            check(number, "reward", turn.reward, step.reward)
            check(number, "info", canonical_json(turn.info), _json(step.info))
            observed = observation_hash(step.view)
            check(number, "observation_hash", turn.observation_hash, observed)
            check(number, "images", turn.images, image_hashes(step.view))
            view, outcome = step.view, step.outcome
    for fault in _sequence_faults(record, task):
        differences.append(Mismatch(None, "sequence", fault, "what follows from the turns"))
    if execution.error is not None:
        # Where the episode was played, the world took this response.
        check(len(execution.steps) + 1, "error", None, execution.error)
    elif execution.start is not None:
        check(None, "turns", len(record.turns), len(execution.steps))
    differences.extend(_totals(record, protocol, task, outcome))
    doubts = tuple((turn, doubt) for turn, doubt in enumerate(execution.doubts, 1) if doubt)
    return Replay(record, execution.start, execution.steps, tuple(differences), doubts)


def _sequence_faults(record: EpisodeRecord, task: Task) -> Iterator[str]:
    """What a record's token sequence says that its turns do not; token ids mean nothing here."""
    sequence = record.sequence
    if sequence is None:
        return
    if task.info.unit == "turn":
        yield "one sequence, but in this task every turn is a sequence"
    last = record.turns[-1] if record.turns else None
    counted = last and last.prompt_tokens is not None and last.response_tokens is not None
    if not last or not counted:
        yield "one sequence, but no tokens of turns"
    elif len(sequence.token_ids) != (last.prompt_tokens or 0) + (last.response_tokens or 0):
        yield f"{len(sequence.token_ids)} tokens"
    if len(sequence.written) > len(record.turns):
        yield f"{len(sequence.written)} responses"


def _json(info: Mapping[str, Any]) -> str:
    try:
        return canonical_json(dict(info))
    except (TypeError, ValueError) as error:
        return f"not JSON: {error}"


def _totals(
    record: EpisodeRecord, protocol: PanelProtocol, task: Task, outcome: Outcome | None
) -> Iterator[Mismatch]:
    """Compare the episode's own fields with what follows from its turns and its outcome."""
    if record.error is None and outcome is None:
        yield Mismatch(None, "outcome", "the episode ended", "it goes on after the last turn")
    if record.error is not None and outcome is not None:
        yield Mismatch(None, "error", record.error, "the episode ended without an error")
    totals = totals_of(protocol, task, record.turns, outcome)
    for field in fields(EpisodeTotals):
        recorded, replayed = getattr(record, field.name), getattr(totals, field.name)
        if recorded != replayed:
            yield Mismatch(None, field.name, recorded, replayed)
