"""Replay: the recorded responses, fed to the same world without a model, must do the same again."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from benchmark.manifest import Manifest
from benchmark.protocol import PanelProtocol
from benchmark.records import (
    EpisodeRecord,
    Totals,
    messages_sha256,
    observation_sha256,
    totals_of,
)
from tasks.base import Outcome, Panel, PanelEntry, Step, Task, View
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.seeding import canonical_json


@dataclass(frozen=True, slots=True)
class Difference:
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
    """

    record: EpisodeRecord
    start: View | None
    steps: tuple[Step, ...]
    differences: tuple[Difference, ...]


def replay_run(manifest: Manifest, records: Iterable[EpisodeRecord]) -> Iterator[Replay]:
    """Re-execute records, in order.

    Raises:
        UserError: The run was played under a protocol that is not the installed one, or a record
            names an episode that its panel does not have.
    """
    panels = {}
    for protocol in manifest.panels:
        task, panel = installed_panel(protocol)
        entries = {entry.id: entry for entry in panel.entries}
        panels[protocol.task, protocol.panel] = protocol, task, entries
    for record in records:
        if (record.task, record.panel) not in panels:
            raise UserError(f"record {record.key}: the run does not play {record.panel}")
        protocol, task, entries = panels[record.task, record.panel]
        if record.episode not in entries:
            raise UserError(f"{record.task}/{record.panel} has no episode {record.episode}")
        yield replay_record(record, protocol, task, entries[record.episode])


def installed_panel(protocol: PanelProtocol) -> tuple[Task, Panel]:
    """The task and panel that a protocol names, if they are the same here.

    Raises:
        UserError: They are not there, or differ in a way that the protocol pins.
    """
    task = load_task(protocol.task)
    panel = task.panel(protocol.panel)
    here = PanelProtocol.of(task, panel, protocol.sampling, protocol.repeats, protocol.seed)
    for field in fields(PanelProtocol):
        recorded, installed = getattr(protocol, field.name), getattr(here, field.name)
        if recorded != installed:
            raise UserError(
                f"{protocol.task}/{protocol.panel} was played with {field.name} {recorded!r}, "
                f"installed is {installed!r}: install the version that made the run"
            )
    return task, panel


def replay_record(
    record: EpisodeRecord, protocol: PanelProtocol, task: Task, entry: PanelEntry
) -> Replay:
    """Re-execute one record.

    Args:
        record: What is claimed.
        protocol: What it was played under.
        task: The task.
        entry: The panel's entry that the record names.
    """
    differences: list[Difference] = []

    def check(turn: int | None, field: str, recorded: Any, replayed: Any) -> None:
        if recorded != replayed:
            differences.append(Difference(turn, field, recorded, replayed))

    check(None, "category", record.category, entry.category)
    check(None, "repeat", record.repeat in range(protocol.repeats), True)
    episode = task.episode(entry, protocol.max_turns)
    steps: list[Step] = []
    try:
        if record.observation_sha256 is None:
            check(None, "turns", len(record.turns), 0)
            return Replay(record, None, (), (*differences, *_totals(record, protocol, task, None)))
        start = view = episode.reset()
        check(None, "observation_sha256", record.observation_sha256, observation_sha256(start))
        outcome: Outcome | None = None
        for number, turn in enumerate(record.turns, 1):
            if outcome is not None:
                check(None, "turns", len(record.turns), number - 1)
                break
            check(number, "prompt_sha256", turn.prompt_sha256, messages_sha256(view))
            step = episode.step(turn.response)
            steps.append(step)
            check(number, "action", turn.action, step.action)
            check(number, "format_ok", turn.format_ok, step.format_ok)
            check(number, "action_ok", turn.action_ok, step.action_ok)
            check(number, "reward", turn.reward, step.reward)
            check(number, "info", canonical_json(turn.info), canonical_json(dict(step.info)))
            observed = observation_sha256(step.view)
            check(number, "observation_sha256", turn.observation_sha256, observed)
            view, outcome = step.view, step.outcome
        differences.extend(_totals(record, protocol, task, outcome))
        return Replay(record, start, tuple(steps), tuple(differences))
    finally:
        episode.close()


def _totals(
    record: EpisodeRecord, protocol: PanelProtocol, task: Task, outcome: Outcome | None
) -> Iterator[Difference]:
    """Compare the episode's own fields with what follows from its turns and its outcome."""
    if record.error is None and outcome is None:
        yield Difference(None, "outcome", "the episode ended", "it goes on after the last turn")
    if record.error is not None and outcome is not None:
        yield Difference(None, "error", record.error, "the episode ended without an error")
    totals = totals_of(protocol, task, record.turns, outcome)
    for field in fields(Totals):
        recorded, replayed = getattr(record, field.name), getattr(totals, field.name)
        if recorded != replayed:
            yield Difference(None, field.name, recorded, replayed)
