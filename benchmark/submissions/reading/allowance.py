"""Memory limit for the parsed content of a submission.

A few bytes of JSON can become an object fifty times as large, so limits on file sizes do not bound
the memory of a check. This module estimates the memory of parsed objects in CPython, as measured
with tracemalloc (3.11, pydantic 2.13).
"""

import sys
from typing import Any, Final

from benchmark.evaluation.records import EpisodeRecord, TurnRecord
from benchmark.logs.curves import RunCurves
from benchmark.logs.training_log import TrainingLog
from benchmark.submissions.format.findings import Finding, Rejected

MAX_MEMORY: Final = 2**29
"""Maximum memory of all records and logs in bytes, enough for 250,000 turns of a few words or
200,000 turns of 500 letters."""

_RECORD = 1_500
_TURN = 1_650
_VALUE = 72
_TOKEN = 8
_NEW_TOKEN = 200
_RANGE = 120
_UPDATE = 350
_NUMBER = 30
_VALIDATION = 2_300
_RESUME = 700
_POINT = 16
_CURVE = 600


class Allowance:
    """The remaining memory for one submission."""

    def __init__(self, limit: int = MAX_MEMORY) -> None:
        self._limit = self._left = limit
        self._tokens: dict[int, int] = {}

    def keep(self, record: EpisodeRecord) -> EpisodeRecord:
        """Count a record.

        Returns:
            The record, in which equal token ids are shared with other records.

        Raises:
            Rejected: The limit is exceeded.
        """
        weight = _RECORD + sum(map(_turn, record.turns))
        for text in (record.task, record.panel, record.episode, record.category, record.error):
            weight += 0 if text is None else sys.getsizeof(text)
        sequence = record.sequence
        if sequence is not None:
            known = len(self._tokens)
            ids = tuple(map(self._tokens.setdefault, sequence.token_ids, sequence.token_ids))
            weight += _TOKEN * len(ids) + _NEW_TOKEN * (len(self._tokens) - known)
            weight += _RANGE * len(sequence.written)
            slim = sequence.model_copy(update={"token_ids": ids})
            record = record.model_copy(update={"sequence": slim})
        self._take(weight)
        return record

    def add(self, log: TrainingLog) -> None:
        """Count a log.

        Raises:
            Rejected: The limit is exceeded.
        """
        start = log.start
        facts = [start.configuration, start.engine, start.versions, start.plugins]
        facts += [part for line in log.resumes for part in (line.engine, line.versions)]
        weight = sum(map(_values, facts)) + _RESUME * len(log.resumes)
        weight += _VALIDATION * len(log.validations)
        self._take(weight + sum(_UPDATE + _NUMBER * len(line.values) for line in log.updates))

    def add_curves(self, run: RunCurves) -> None:
        """Count the curves of another trainer's log.

        Raises:
            Rejected: The limit is exceeded.
        """
        weight = sum(_CURVE + _POINT * points.steps.size for points in run.curves.values())
        self._take(weight + sum(map(sys.getsizeof, run.unknown)))

    def _take(self, weight: int) -> None:
        self._left -= weight
        if self._left < 0:
            problem = f"records and logs take more than {self._limit // 2**20} MiB of memory"
            raise Rejected(Finding("", "size", problem, "send less: fewer panels, shorter logs"))


def _turn(turn: TurnRecord) -> int:
    weight = _TURN + sys.getsizeof(turn.response)
    if turn.action is not None:
        weight += sys.getsizeof(turn.action)
    return weight + (_values(turn.info) if turn.info else 0)


def _values(value: Any) -> int:
    """Memory of a JSON value, including everything in it."""
    weight, rest = 0, [value]
    while rest:
        one = rest.pop()
        weight += _VALUE
        if isinstance(one, dict):
            rest.extend(one.keys())
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif isinstance(one, str):
            weight += sys.getsizeof(one)
    return weight
