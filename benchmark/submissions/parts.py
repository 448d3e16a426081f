"""Groups runs and training logs into the checkpoints of a submission."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.run_folder import read_run
from benchmark.logs.foreign import Found, Meaning, find, own_words, readings, success_advice
from benchmark.logs.training_log import TrainingLog, find_log, read_training_log
from benchmark.models import ModelIdentity, folder_sha256
from benchmark.stability.runs import run_stability
from tasks.errors import UserError, suggestion

CHECKPOINTS: Final = ("best", "last")
"""Checkpoint folders that the trainer writes beside its log."""


@dataclass(frozen=True, slots=True)
class Played:
    """A run to submit."""

    path: Path
    manifest: Manifest
    records: Sequence[EpisodeRecord]


@dataclass(frozen=True, slots=True)
class RunUpload:
    """A checkpoint to submit.

    Attributes:
        seed: Seed of its training.
        model: Its weights.
        runs: Its runs.
        log: Log of its training, if there is one.
        foreign: Log of another trainer instead, if there is one.
        meanings: Meanings of fields in that log, `NAME=FIELD`.
    """

    seed: int
    model: ModelIdentity
    runs: tuple[Played, ...]
    log: TrainingLog | None
    foreign: Found | None = None
    meanings: tuple[str, ...] = ()


def parts_of(
    runs: Sequence[Path],
    logs: Sequence[Path],
    seeds: Sequence[int] | None = None,
    meanings: Sequence[str] = (),
) -> list[RunUpload]:
    """Group runs by the weights that played them, and match each group with its log.

    A log beside its training's checkpoints is matched with the weights among them. Other logs must
    be in the order of the remaining checkpoints' first runs.

    Args:
        runs: Run folders.
        logs: Training logs or folders with one; one for each checkpoint, or none.
        seeds: Training seeds in the order of the checkpoints' first runs, if no log contains them.
            Without it, a single checkpoint has seed 0.
        meanings: Meanings of fields in other trainers' logs, `NAME=FIELD`.

    Raises:
        UserError: A run or log cannot be read, a run was played with --limit, the number of logs or
            seeds is not that of the checkpoints, a log belongs to no checkpoint, or the seeds of
            several checkpoints are unknown.
    """
    played: dict[str, list[Played]] = {}
    for path in runs:
        manifest, records = read_run(path)
        if manifest.limit is not None:
            raise UserError(
                f"{path} is a quick look ({manifest.part}), which cannot be submitted: play whole "
                "panels, with the same eval command without --limit"
            )
        key = manifest.model.canonical.model_dump_json()
        played.setdefault(key, []).append(Played(path, manifest, records))
    groups = list(played.values())
    found = list(map(_found, logs))
    foreign = [log for log in found if log.format != "arlarena-bench"]
    if meanings and not foreign:
        raise UserError(f"--map {meanings[0]}: there is no log of another trainer to read with it")
    if foreign:
        _check_foreign(found, len(groups), own_words(meanings))
    paired = [] if foreign else _paired([log.files[0] for log in found], groups)
    known = _seeds([log.start.seed for log in paired], seeds, len(groups))
    return [
        RunUpload(
            known[n],
            group[0].manifest.model,
            tuple(group),
            paired[n] if paired else None,
            foreign[n] if foreign else None,
            tuple(meanings),
        )
        for n, group in enumerate(groups)
    ]


def _found(path: Path) -> Found:
    """Find the training log at a path.

    Raises:
        UserError: There is none.
    """
    try:
        return find(path)
    except UserError:
        if path.is_dir():
            raise
        return Found("arlarena-bench", (find_log(path),))  # its reader reports what is wrong


def _check_foreign(logs: Sequence[Found], count: int, own: Mapping[str, Meaning]) -> None:
    """Check that logs of another trainer can be submitted, before anything is written.

    Raises:
        UserError: They come from several trainers, their number is wrong, or one cannot be read or
            has no validation success.
    """
    kinds = sorted({log.format for log in logs})
    if len(kinds) > 1:
        raise UserError(f"there are logs of {' and '.join(kinds)}: give logs of one trainer")
    if len(logs) != count:
        raise UserError(
            f"there are runs of {count} checkpoints but {len(logs)} training "
            "logs: give one log per checkpoint"
        )
    for log in logs:
        found = readings(log, own)
        if len(found) != 1:
            raise UserError(
                f"{log.files[0]} has {len(found)} runs: export the log of each run separately"
            )
        unused = own.keys() - found[0].read_as.keys()
        if unused:
            there = found[0].run.unknown
            raise UserError(
                f"--map: {log.files[0]} has no values for {min(unused)!r}"
                f"{suggestion(min(unused), there)}"
            )
        run = found[0].run
        if run_stability(run).success_curve is None:
            raise UserError(
                f"{log.files[0]} has no validation success: {success_advice(run.unknown)}, or "
                "leave the logs out"
            )


def _paired(logs: Sequence[Path], groups: Sequence[Sequence[Played]]) -> list[TrainingLog]:
    """The logs in the order of their checkpoints; empty if there are none."""
    if not logs:
        return []
    if len(logs) != len(groups):
        raise UserError(
            f"there are runs of {len(groups)} checkpoints but {len(logs)} training "
            "logs: give one log per checkpoint"
        )
    places: dict[int, Path] = {}
    alone = []
    for log in logs:
        place = _place(log, groups)
        if place is None:
            alone.append(log)
        elif place in places:
            model = groups[place][0].manifest.model.name
            raise UserError(f"{places[place]} and {log} are both next to the weights of {model}")
        else:
            places[place] = log
    free = [place for place in range(len(groups)) if place not in places]
    places |= zip(free, alone, strict=True)
    return [read_training_log(places[place]) for place in range(len(groups))]


def _place(log: Path, groups: Sequence[Sequence[Played]]) -> int | None:
    """Index of the checkpoint beside a log; None if there are no checkpoints beside it.

    Raises:
        UserError: None of the checkpoints beside it has a run, or two of them have.
    """
    folders = [log.parent / name for name in CHECKPOINTS]
    beside = [folder for folder in folders if any(folder.glob("*.safetensors"))]
    if not beside:
        return None
    hashes = {folder_sha256(folder) for folder in beside}
    found = [n for n, group in enumerate(groups) if group[0].manifest.model.sha256 in hashes]
    if len(found) > 1:
        names = " and ".join(str(groups[place][0].path) for place in found)
        raise UserError(
            f"{names} were played by checkpoints of one training run, {log}: send one of them"
        )
    if not found:
        names = " or ".join(map(str, beside))
        raise UserError(
            f"{log}: no run was played by the weights next to it; evaluate {names}, "
            "or pass a copy of the log without weights"
        )
    return found[0]


def _seeds(logged: Sequence[int], told: Sequence[int] | None, count: int) -> Sequence[int]:
    """The seed of every checkpoint.

    Raises:
        UserError: The seeds are unknown, or two sources contradict each other.
    """
    if told is not None and len(told) != count:
        raise UserError(f"--seeds has {len(told)} seeds, but there are {count} checkpoints")
    if logged:
        if told is not None and list(told) != list(logged):
            raise UserError(
                f"--seeds {_listed(told)}: the training logs say {_listed(logged)}; remove --seeds"
            )
        return logged
    if told is None and count > 1:
        raise UserError(
            f"there are {count} checkpoints and no log that names their seeds: give their seeds in "
            "the order of their first runs, such as --seeds 0,1,2, or logs of this trainer "
            "(--training-log)"
        )
    return told or [0]


def _listed(seeds: Sequence[int]) -> str:
    return ",".join(map(str, seeds))
