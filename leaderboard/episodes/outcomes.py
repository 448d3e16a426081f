"""How the plays of an episode ended, from the board or, if it does not say, from the records."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

from leaderboard.board.rows import BoardRow, PanelKey, PanelNumbers
from leaderboard.episodes.recorded import one_at_a_time, records_of, submission_of

PlayKey = tuple[int, int]
"""(seed, number of the play, from 1)."""
Endings = Mapping[PlayKey, bool]
"""Whether plays of one episode were solved; unknown ones are missing."""


def known_endings(numbers: PanelNumbers, solved: int, keys: Sequence[PlayKey]) -> Endings:
    """How the plays of an episode ended, as far as the board alone determines it.

    It determines the plays of a checkpoint that has solved all or no episodes, and the remaining
    plays if all or none of them were solved.

    Args:
        numbers: The entry's results on the panel.
        solved: Number of solved plays of the episode.
        keys: Its plays.
    """
    rates = {each.seed: each.success for each in numbers.seeds}
    found = {key: rates[key[0]] == 1 for key in keys if rates[key[0]] in (0, 1)}
    left = [key for key in keys if key not in found]
    rest = solved - sum(found.values())
    return found | dict.fromkeys(left, rest > 0) if rest in (0, len(left)) else found


@lru_cache(maxsize=512)
def read_endings(submissions: Path, row: BoardRow, key: PanelKey, episode: str) -> Endings:
    """Read how the plays of an episode ended from the entry's records, without a replay.

    Args:
        submissions: Folder of all submissions.
        row: The entry.
        key: The panel.
        episode: The episode's id.

    Raises:
        UserError: They cannot be read, or are not those from which the board was computed.
    """
    return one_at_a_time(partial(_read, submissions / row.id, row, key, episode))


def _read(folder: Path, row: BoardRow, key: PanelKey, episode: str) -> Endings:
    submission = submission_of(folder, row)
    return {
        (point.seed, record.repeat + 1): record.solved
        for point in submission.checkpoints
        for run in point.runs
        for record in records_of(folder, submission, run, key, episode)
    }
