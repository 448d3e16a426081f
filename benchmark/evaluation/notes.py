"""Likely problems of a run that its numbers alone do not show."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import THINKING, PanelProtocol
from benchmark.evaluation.records import EpisodeRecord, TurnRecord
from benchmark.stats.formatting import percent_text
from tasks.texts import counted, on_one_line

FIRST_LOOK: Final = 20
"""Episodes after which a run is checked for the first time."""
OFTEN_CUT: Final = 0.25
"""Share of truncated responses from which a note is given."""
SELDOM_VALID: Final = 0.5
"""Share of responses in the required format below which a note is given."""
MORE_ROOM: Final = 4096
"""Token limit to suggest; if the current one is as large, twice the current one."""
_SHOWN: Final = 160
"""Maximum characters shown of a response."""


def notes_of(manifest: Manifest, records: Iterable[EpisodeRecord]) -> list[str]:
    """Notes on each panel of a run, one per line; usually none.

    Args:
        manifest: The run's manifest.
        records: Any of its records.
    """
    of_panel: dict[tuple[str, str], list[EpisodeRecord]] = {}
    for record in records:
        of_panel.setdefault((record.task, record.panel), []).append(record)
    notes: list[str] = []
    for panel in manifest.panels:
        place, played = f"{panel.task}/{panel.panel}", of_panel.get((panel.task, panel.panel), [])
        if errors := Counter(record.error for record in played if record.error is not None):
            ((cause, count),) = errors.most_common(1)
            known = f"{errors.total()} of {counted(len(played), 'episode')} ended in an error"
            notes.append(f"{place}: {known}, {count} in this: {on_one_line(cause, _SHOWN)}")
        if turns := [turn for record in played for turn in record.turns]:
            notes += _notes(panel, turns, f"{place}: ")
    return notes


def _notes(panel: PanelProtocol, turns: Sequence[TurnRecord], place: str) -> list[str]:
    notes = []
    limit = panel.sampling.max_tokens
    cut = sum(turn.finish_reason == "length" for turn in turns) / len(turns)
    if cut >= OFTEN_CUT:
        room = MORE_ROOM if limit < MORE_ROOM else 2 * limit
        more = f"--max-tokens {room} gives room for more (a different protocol)"
        if panel.name != THINKING:
            more += "; --protocol thinking is for models that think at length"
        notes.append(
            f"{place}{percent_text(cut, 0)} of responses were cut, most at {limit} tokens: {more}"
        )
    valid = sum(turn.format_ok for turn in turns) / len(turns)
    if valid < SELDOM_VALID:
        first = next(turn for turn in turns if not turn.format_ok)
        shown = on_one_line(first.response, _SHOWN) or "(nothing)"
        notes.append(
            f"{place}{percent_text(valid, 0)} of responses follow the format; "
            f"the first that does not: {shown!r}{_advice(panel, first.response)}"
        )
    return notes


def _advice(panel: PanelProtocol, response: str) -> str:
    """Advice for a response that breaks the format, if its text shows the cause."""
    if panel.name == THINKING or "</think>" not in response.lower():
        return "; --show-prompts 1 shows what the model gets"
    return (
        "; the model uses its own thinking tags: --protocol thinking takes what follows them, "
        "and some templates can turn thinking off: --chat-template-kwargs "
        "'{\"enable_thinking\": false}'"
    )
