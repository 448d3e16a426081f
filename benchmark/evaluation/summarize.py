"""Computes a run's summary from its manifest and records alone.

The order of the records does not matter. Every panel is summarized over its available records: a
panel's mean is the unweighted mean over episodes of the mean over each episode's plays. With all
records this is the mean over episodes, then over repeats; if some are missing, an episode with one
of three plays counts as much as any other, and an episode without plays does not count.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.summary import (
    SUMMARY_VERSION,
    CategorySummary,
    MeanInterval,
    PanelKey,
    PanelSummary,
    PassAt,
    RunSummary,
)
from benchmark.stats.intervals import Interval, clustered_wilson, mean_interval, pass_at_k
from tasks.errors import UserError
from tasks.presentation import Presentation
from tasks.registry import load_task


def summarize(
    manifest: Manifest,
    records: Iterable[EpisodeRecord],
    tasks: Mapping[str, Presentation] | None = None,
) -> RunSummary:
    """Compute all numbers of a run or of a shard.

    Args:
        manifest: The run's manifest.
        records: Its records, in any order.
        tasks: Names and units of the tasks, by task name; None for the installed ones.

    Raises:
        UserError: A record is not part of the run or occurs twice, or a task is not installed.
    """
    tallies = {(panel.task, panel.panel): _Tally() for panel in manifest.panels}
    for record in checked_records(manifest, records):
        tallies[record.task, record.panel].add(record)
    expected = expected_records(manifest)
    panels = tuple(
        _panel_summary(
            panel,
            tasks[panel.task] if tasks is not None else load_task(panel.task).info.presentation,
            expected[panel.task, panel.panel],
            tallies[panel.task, panel.panel],
        )
        for panel in manifest.panels
    )
    complete = all(panel.records == panel.expected for panel in panels)
    return RunSummary(SUMMARY_VERSION, manifest.fingerprint, complete, panels)


def expected_records(manifest: Manifest) -> dict[PanelKey, int]:
    """Number of records of every panel when the run is complete.

    Plays are numbered panel after panel; shard i of n holds every n-th from number i on
    (`benchmark.evaluation.evaluate.Plan.jobs`).
    """
    counts, start = {}, 0
    index, count = (manifest.shard.index, manifest.shard.count) if manifest.shard else (1, 1)
    for panel in manifest.panels:
        end = start + min(panel.episodes, manifest.limit or panel.episodes) * panel.repeats
        first = start + (index - 1 - start) % count
        counts[panel.task, panel.panel] = max(0, -((first - end) // count))
        start = end
    return counts


def checked_records(
    manifest: Manifest, records: Iterable[EpisodeRecord]
) -> Iterator[EpisodeRecord]:
    """Yield the records after checking that they can belong to this manifest's run.

    Raises:
        UserError: A record has a panel or repeat that the run does not play, or occurs twice, or a
            panel has more episodes than it should.
    """
    panels = {(panel.task, panel.panel): panel for panel in manifest.panels}
    plays: dict[PanelKey, dict[str, set[int]]] = {key: {} for key in panels}
    for record in records:
        key = record.task, record.panel
        name = f"{record.task}/{record.panel}, episode {record.episode}, repeat {record.repeat}"
        if key not in panels or record.repeat >= panels[key].repeats:
            raise UserError(f"{name}: the run does not play it; records and run.json do not match")
        repeats = plays[key].setdefault(record.episode, set())
        if record.repeat in repeats:
            raise UserError(f"{name}: has two records; keep one")
        repeats.add(record.repeat)
        if len(plays[key]) > panels[key].episodes:
            raise UserError(f"{name}: the panel has only {panels[key].episodes} episodes")
        yield record


@dataclass(slots=True)
class _Plays:
    """The plays of one episode."""

    solved: int = 0
    scores: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Tokens:
    """Token counts of texts, some of which may be uncounted."""

    sum: int = 0
    counted: int = 0

    def add(self, tokens: int | None) -> None:
        if tokens is not None:
            self.sum += tokens
            self.counted += 1

    @property
    def mean(self) -> float | None:
        return self.sum / self.counted if self.counted else None


class _Tally:
    """Counts from one pass over a panel's records."""

    def __init__(self) -> None:
        self.records = self.errors = 0
        self.turns = self.format_ok = self.action_ok = self.truncated = 0
        self.episodes: defaultdict[str, _Plays] = defaultdict(_Plays)
        # category -> episode -> [solved, plays]
        self.categories: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(
            lambda: defaultdict(lambda: [0, 0])
        )
        self.prompts, self.responses = _Tokens(), _Tokens()
        self.turn_counts: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.by_turn: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, record: EpisodeRecord) -> None:
        """Count one play; an error makes it a failure, whatever else the record says."""
        solved = record.solved
        self.records += 1
        self.errors += record.error is not None
        plays = self.episodes[record.episode]
        plays.solved += solved
        plays.scores.append(record.score)
        plays.returns.append(record.episode_return)
        cell = self.categories[record.category][record.episode]
        cell[0] += solved
        cell[1] += 1
        self.turn_counts[len(record.turns)][0 if solved else 1] += 1
        self._add_turns(record)

    def _add_turns(self, record: EpisodeRecord) -> None:
        self.turns += len(record.turns)
        for number, turn in enumerate(record.turns, 1):
            format_ok, action_ok = turn.format_ok, turn.action_ok
            self.format_ok += format_ok
            self.action_ok += action_ok
            self.truncated += turn.finish_reason == "length"
            self.prompts.add(turn.prompt_tokens)
            self.responses.add(turn.response_tokens)
            cell = self.by_turn[number]
            cell[0] += 1
            cell[1] += not (format_ok and action_ok)

    @property
    def total_tokens(self) -> int | None:
        """All tokens; None if some were not counted, since a partial sum would mislead."""
        counted = min(self.prompts.counted, self.responses.counted)
        complete = self.turns and counted == self.turns
        return self.prompts.sum + self.responses.sum if complete else None


def _panel_summary(
    panel: PanelProtocol, shown: Presentation, expected: int, tally: _Tally
) -> PanelSummary:
    plays = tally.episodes.values()
    turns = max(1, tally.turns)
    return PanelSummary(
        task=panel.task,
        panel=panel.panel,
        fingerprint=panel.fingerprint,
        expected=expected,
        records=tally.records,
        errors=tally.errors,
        success=_rate([(play.solved, len(play.scores)) for play in plays]),
        pass_at=_pass_at([(play.solved, len(play.scores)) for play in plays]),
        score=_mean([play.scores for play in plays]),
        score_name=shown.score_name,
        score_unit=shown.score_unit,
        episode_return=_mean([play.returns for play in plays]),
        format_valid=tally.format_ok / turns,
        action_valid=tally.action_ok / turns,
        truncated=tally.truncated / turns,
        turns=tally.turns / max(1, tally.records),
        prompt_tokens=tally.prompts.mean,
        response_tokens=tally.responses.mean,
        total_tokens=tally.total_tokens,
        category_name=shown.category_name,
        categories=tuple(
            _category(name, [(s, n) for s, n in tally.categories[name].values()])
            for name in _in_order(tally.categories)
        ),
        turn_counts=_table(tally.turn_counts),
        invalid_by_turn=_table(tally.by_turn),
    )


def _category(name: str, plays: list[tuple[int, int]]) -> CategorySummary:
    return CategorySummary(name, _rate(plays), _pass_at(plays))


def _pass_at(plays: list[tuple[int, int]]) -> tuple[PassAt, ...]:
    """pass@k of episodes, each given as (solved, plays)."""
    fewest = min((count for _, count in plays), default=0)
    powers = {2**exponent for exponent in range(1, fewest.bit_length())}
    solved, played = [solved for solved, _ in plays], [count for _, count in plays]
    return tuple(
        PassAt(k, _estimate(pass_at_k(solved, played, k), len(plays)))
        for k in sorted(powers | {fewest} - {0, 1})
    )


def _rate(plays: list[tuple[int, int]]) -> MeanInterval:
    """Success rate of episodes, each given as (solved, plays)."""
    if not plays:
        return MeanInterval(0.0, 0.0, 1.0, 0)
    interval = clustered_wilson([solved for solved, _ in plays], [count for _, count in plays])
    return _estimate(interval, len(plays))


def _mean(plays: list[list[float]]) -> MeanInterval:
    """Mean of episodes, each given as the values of its plays."""
    if not plays:
        return MeanInterval(0.0, 0.0, 0.0, 0)
    return _estimate(mean_interval([math.fsum(each) / len(each) for each in plays]), len(plays))


def _estimate(interval: Interval, episodes: int) -> MeanInterval:
    return MeanInterval(interval.value, interval.low, interval.high, episodes)


def _in_order(categories: Iterable[str]) -> list[str]:
    names = sorted(categories)
    try:
        numbers = {name: float(name) for name in names}
    except ValueError:
        return names
    return (
        names if any(map(math.isnan, numbers.values())) else sorted(names, key=numbers.__getitem__)
    )


def _table(cells: Mapping[int, list[int]]) -> tuple[tuple[int, int, int], ...]:
    return tuple((number, cells[number][0], cells[number][1]) for number in sorted(cells))
