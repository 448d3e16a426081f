"""Evaluation results for model pages on the Hugging Face hub: `.eval_results/*.yaml`.

The hub shows them on the model's page and in the table of the benchmark's dataset. Format:
https://huggingface.co/docs/hub/eval-results (read as docs/hub/eval-results.md of hub-docs at commit
064c7548; the page calls the feature work in progress). Every item needs the dataset's id, a task id
from that dataset's `eval.yaml`, and a value; date, source, framework and notes are optional. The
hub's own `verifyToken` is left out: it certifies an evaluation in the hub's jobs, which a replay is
not.

The files are meant for the models' owners, who add them to their repositories, or for a pull
request there. Values are success rates in percent.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from benchmark.files import write_atomically
from leaderboard.board.file import BoardContent
from leaderboard.board.rows import BoardCheckpoint, FullRow, PanelNumbers
from tasks.errors import UserError, os_error_as

FOLDER: Final = ".eval_results"
FRAMEWORK: Final = "arlarena-bench"
"""Required value of `evaluation_framework` in the dataset's `eval.yaml`."""
MAX_PART: Final = 96
_PART: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the results are shown.

    Attributes:
        dataset: The benchmark's dataset on the hub, `OWNER/NAME`.
        url: Web address of the board; None to leave it out.
        hubs: Hub repositories of registered inits, by the init's name.
    """

    dataset: str
    url: str | None = None
    hubs: Mapping[str, str] = field(default_factory=dict)


def task_id(task: str, panel: str) -> str:
    """The id of a panel in the dataset's `eval.yaml`."""
    return f"{task}_{panel}"


def result_files(content: BoardContent, source: Source) -> tuple[dict[Path, bytes], list[str]]:
    """The files of all entries of the standard protocol whose models are on the hub.

    Every checkpoint is a separate model with its own success instead of the mean over seeds. There
    is one file per entry and model repository; if two seeds are two commits of one repository, it
    has the items of both.

    Args:
        content: The board.
        source: Where the results are shown.

    Returns:
        Contents by path, `OWNER/NAME/.eval_results/<entry>.yaml`; and models without a file,
        because their name is not a valid repository name.

    Raises:
        UserError: `source.dataset` is not a valid dataset name.
    """
    if not _is_repository(source.dataset):
        raise UserError(f"--dataset {source.dataset}: not a dataset on the hub; give OWNER/NAME")
    standard = content.facts.protocols[0].name
    items: dict[Path, list[dict[str, Any]]] = {}
    odd = []
    for row in content.rows:
        if row.protocol != standard or not row.badges.replayed:
            continue
        for point in row.checkpoints:
            repository = _repository(point, source)
            if repository is None:
                continue
            if not _is_repository(repository):
                odd.append(f"{row.id}: {repository} is not a repository on the hub")
                continue
            path = Path(repository) / FOLDER / f"{row.id}.yaml"
            items.setdefault(path, []).extend(_items(row, point, source))
    return {path: _yaml(each) for path, each in sorted(items.items())}, odd


def write_files(files: Mapping[Path, bytes], out: Path) -> None:
    """Write the files from `result_files` to a folder.

    Raises:
        UserError: They cannot be written.
    """
    for path, content in files.items():
        with os_error_as(f"{out / path} cannot be written"):
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(out / path, content)


def _repository(point: BoardCheckpoint, source: Source) -> str | None:
    """The hub repository of a checkpoint's weights; None if there is none."""
    if point.model.kind == "init":
        return source.hubs.get(point.model.name)
    return point.model.name if point.model.kind == "hub" else None


def _is_repository(name: str) -> bool:
    """Whether a name is a valid `OWNER/NAME` on the hub; no part of it can leave a folder."""
    parts = name.split("/")
    odd = "--" in name or ".." in name or any(len(part) > MAX_PART for part in parts)
    return len(parts) == 2 and not odd and all(_PART.fullmatch(part) for part in parts)


def _items(row: FullRow, point: BoardCheckpoint, source: Source) -> list[dict[str, Any]]:
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries = [
        EvalResultEntry(
            dataset_id=source.dataset,
            task_id=task_id(panel.task, panel.panel),
            value=100 * seed.success,
            date=row.date,
            source_url=source.url,
            source_name=f"{FRAMEWORK}: {row.id}" if source.url else None,
            notes=_notes(row, point, panel, 100 * seed.low, 100 * seed.high),
        )
        for panel in row.panels
        for seed in panel.seeds
        if seed.seed == point.seed
    ]
    items: Sequence[dict[str, Any]] = eval_result_entries_to_yaml(entries)
    return [{**item, "evaluation_framework": FRAMEWORK} for item in items]


def _notes(
    row: FullRow, point: BoardCheckpoint, panel: PanelNumbers, low: float, high: float
) -> str:
    return (
        f"success rate in percent, 95% interval {low:.1f} to {high:.1f} over {panel.episodes} "
        f"episodes; protocol {row.protocol} ({panel.fingerprint[:12]}); weights at commit "
        f"{point.model.revision}; training seed {point.seed}; every episode was replayed"
    )


def _yaml(items: Sequence[dict[str, Any]]) -> bytes:
    text: str = yaml.safe_dump(list(items), sort_keys=False, allow_unicode=True, width=10_000)
    return text.encode()
