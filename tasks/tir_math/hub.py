"""Public problems: AIME 2024, AIME 2025 and MATH-500.

Each is read from one file: of the Hugging Face hub, where repository, revision and the file's
SHA-256 are pinned, or the user's own. Such a file may be in another form with the same content, so
its hash cannot be pinned; what is pinned of it is the number of problems, and the hash of its
content is the panel's, which the protocol contains. All problems are played.
"""

import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tasks.errors import UserError, os_error_as, suggestion
from tasks.panels import PanelEntry
from tasks.seeding import canonical_json, sha256_text
from tasks.texts import digest_text
from tasks.tir_math.rows import read_rows, to_entries

VARIABLE = "TIR_MATH_DATA"
"""Environment variable that names a folder with custom files."""

SUFFIXES = (".jsonl", ".json", ".parquet", ".csv")
_LARGEST_FILE = 20_000_000
"""Bytes; the largest pinned file has 446,564."""


@dataclass(frozen=True, slots=True)
class FieldPanel:
    """A panel of the field, and where its file is.

    Attributes:
        name: Of the panel, and of the user's own file without its ending.
        description: One line for people.
        episodes: Number of problems; never fewer are played.
        hub_id: Repository of the data set on the hub.
        revision: Commit of the repository.
        file: Path in the repository.
        split: The data set's own name of this part.
        file_sha256: Of the file at this revision.
    """

    name: str
    description: str
    episodes: int
    hub_id: str
    revision: str
    file: str
    split: str
    file_sha256: str


# Revisions and hashes are as several independent projects recorded them; the project itself had no
# access to the hub. A file that differs is refused, so a wrong pin can do no harm.
_PANELS = (
    FieldPanel(
        name="aime24",
        description="all 30 problems of the AIME 2024, papers I and II",
        episodes=30,
        hub_id="HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        file="data/train-00000-of-00001.parquet",
        split="train",
        file_sha256="26139847601a5037c237d5928b195e7260ca8074cf4f264b794af42847f79ccf",
    ),
    FieldPanel(
        name="aime25",
        description="all 30 problems of the AIME 2025, papers I and II",
        episodes=30,
        hub_id="math-ai/aime25",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        file="test.jsonl",
        split="test",
        file_sha256="b4e273c02d3e7fe1b74b59eae768fc8230bfb0f79539890cb56f4361caac0331",
    ),
    FieldPanel(
        name="math500",
        description="all 500 problems of MATH-500",
        episodes=500,
        hub_id="HuggingFaceH4/MATH-500",
        revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        file="test.jsonl",
        split="test",
        file_sha256="35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
    ),
)
_BY_NAME = MappingProxyType({panel.name: panel for panel in _PANELS})


def field_panels() -> Mapping[str, FieldPanel]:
    """The field's panels, by name."""
    return _BY_NAME


def read_problems(name: str) -> tuple[PanelEntry, ...]:
    """Read all problems of a panel, in the order of its file.

    The user's file is read where `$TIR_MATH_DATA` names a folder; else the hub's, which is fetched
    if it is not in the cache.

    Returns:
        Entries with `question`, `answer` and `source` (the data set's own id).

    Raises:
        UserError: There is no such panel, its file is missing, cannot be fetched or read, is
            another one than the pinned, or a row of it cannot be used.
    """
    panel = _panel(name)
    folder = _folder()
    path = _hub_file(panel) if folder is None else _own_file(panel, folder)
    return to_entries(panel.name, panel.episodes, path, read_rows(path, _LARGEST_FILE))


def content_sha256(entries: tuple[PanelEntry, ...]) -> str:
    """Hash of what is asked and what is right, in order: the panel's hash.

    The form of the file does not matter to it, nor how ids are written in records.
    """
    fields = ("source", "question", "answer")
    return sha256_text(canonical_json([[entry.data[key] for key in fields] for entry in entries]))


def available(name: str) -> bool:
    """Whether a panel's file is on this machine; it is not opened and nothing is fetched."""
    panel = _panel(name)
    try:
        folder = _folder()
        if folder is not None:
            return _own_file(panel, folder).is_file()
        return _cached(panel) is not None
    except UserError:
        return False


def how_to_get(panel: FieldPanel) -> str:
    """What a user can do about a missing panel."""
    command = ["hf", "download", panel.hub_id, panel.file, "--repo-type", "dataset"]
    command += ["--revision", panel.revision]
    return (
        f"download it on a machine with network access with `{shlex.join(command)}`, "
        f"or give a folder that contains {panel.name}{', '.join(SUFFIXES[:-1])} or "
        f"{SUFFIXES[-1]} with ${VARIABLE} or --data tir_math=FOLDER"
    )


def _panel(name: str) -> FieldPanel:
    if name not in _BY_NAME:
        raise UserError(f"tir_math has no public panel {name!r}{suggestion(name, tuple(_BY_NAME))}")
    return _BY_NAME[name]


def _folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    try:
        folder = Path(named).expanduser()
        is_folder = folder.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"${VARIABLE}: {named[:300]} cannot be read: {error}") from error
    if not is_folder:
        raise UserError(
            f"${VARIABLE}: {folder} is not a folder; give the one that contains the files"
        )
    return folder


def _own_file(panel: FieldPanel, folder: Path) -> Path:
    """The one file of the folder that is named after the panel."""
    possible = [folder / (panel.name + suffix) for suffix in SUFFIXES]
    with os_error_as(f"cannot read {folder}"):
        found = [path for path in possible if path.is_file()]
    if not found:
        raise UserError(
            f"tir_math/{panel.name}: {folder} (${VARIABLE}) has none of "
            f"{', '.join(path.name for path in possible)}; put one there, or unset "
            f"${VARIABLE} to read {panel.hub_id} from the hub"
        )
    if len(found) > 1:
        raise UserError(
            f"tir_math/{panel.name}: {folder} has "
            f"{' and '.join(path.name for path in found)}; keep only one of them"
        )
    return found[0]


def _cached(panel: FieldPanel) -> Path | None:
    """The hub's file, where it was fetched before."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(
        panel.hub_id, panel.file, revision=panel.revision, repo_type="dataset"
    )
    return Path(found) if isinstance(found, str) else None


def _hub_file(panel: FieldPanel) -> Path:
    path = _cached(panel) or _fetch(panel)
    with os_error_as(f"{path} cannot be read"):
        size = path.stat().st_size
        digest = "" if size > _LARGEST_FILE else hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != panel.file_sha256:
        what = f"SHA-256 {digest_text(digest)}" if digest else f"{size} bytes"
        raise UserError(
            f"tir_math/{panel.name}: {path} is not the pinned file ({what} instead of SHA-256 "
            f"{digest_text(panel.file_sha256)}); delete it and {how_to_get(panel)}"
        )
    return path


def _fetch(panel: FieldPanel) -> Path:
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    try:
        # Without the 25 seconds of retries that a download without a network takes.
        get_hf_file_metadata(
            hf_hub_url(panel.hub_id, panel.file, repo_type="dataset", revision=panel.revision)
        )
        return Path(
            hf_hub_download(panel.hub_id, panel.file, revision=panel.revision, repo_type="dataset")
        )
    except Exception as error:  # the library and its client raise a dozen types
        reason = " ".join(str(error).split()).partition(". ")[0][:200]
        raise UserError(
            f"tir_math/{panel.name}: {panel.hub_id} is not on this machine and cannot "
            f"be downloaded ({type(error).__name__}: {reason}); {how_to_get(panel)}"
        ) from error
