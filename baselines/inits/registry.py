"""The registry of inits: fixed behavior-cloned starting checkpoints, by name."""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from benchmark.logs.training_log import LOG, read_training_log
from benchmark.models import ModelSource, from_folder, from_hub
from benchmark.stats.formatting import percent_text
from tasks.errors import UserError, suggestion
from tasks.strict import parse_yaml

INITS = Path(__file__).parent
REGISTRY = INITS / "registry.yaml"
LAST, BEST = "last", "best"
"""Folders of a training's checkpoints."""


class Init(BaseModel):
    """One init.

    Attributes:
        tasks: Tasks that it was cloned for.
        task_settings: Settings of these tasks that it was cloned with, by task; where they are not
            chosen, it plays with them.
        role: `tiny` (shipped with this project) or `paper` (published with ARLArena).
        folder: Where its files are; None if it lives on the hub.
        hub: Hub id; None if it lives in a folder.
        revision: Commit of the hub model; None where none is pinned.
        sha256: Hash of its files; None where none is pinned.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: tuple[str, ...] = Field(min_length=1)
    task_settings: dict[str, dict[str, str]] = Field(default_factory=dict)
    role: Literal["tiny", "paper"]
    folder: Path | None = None
    hub: str | None = None
    revision: str | None = None
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.folder is None) == (self.hub is None):
            raise ValueError("an init is in a folder or on the hub, not both")
        if self.folder is not None and self.sha256 is None:
            raise ValueError("a shipped init needs a pinned hash")
        return self


@cache
def read_registry() -> dict[str, Init]:
    """Read all inits, in the order of the file; folders are made absolute."""
    content = parse_yaml(REGISTRY.read_text("utf-8"))
    inits = {name: Init.model_validate(fields) for name, fields in content.items()}
    return {
        name: init.model_copy(update={"folder": INITS / init.folder}) if init.folder else init
        for name, init in inits.items()
    }


def find_model(name: str) -> ModelSource:
    """Find a model by an init's name, a folder, or a hub id.

    Raises:
        UserError: It is none of them (near matches are named), or its files are not usable.
    """
    registry = read_registry()
    if name in registry:
        init = registry[name]
        if init.folder is not None:
            return from_folder(init.folder, name, init.sha256, init.tasks)
        pinned = f"@{init.revision}" if init.revision else ""
        return from_hub(f"{init.hub}{pinned}", name, init.tasks, init.sha256)
    path = Path(name)
    if path.exists():
        return from_folder(path)
    if path.name == BEST and (reason := _never_better(path.parent)):
        raise UserError(f"model folder {path} does not exist: {reason}")
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        try:
            return from_hub(name)
        except UserError as error:
            raise UserError(f"folder {name} does not exist, and {error}") from error
    guess = suggestion(name, tuple(registry))
    if "/" not in name and not guess.startswith("; did"):
        guess += "; `eval` reaches a model behind a server with --endpoint URL"
    raise UserError(f"there is no init or folder {name!r}{guess}")


def _never_better(run: Path) -> str:
    """Why a training's folder has no best model; empty if its log does not say so."""
    if not ((run / LOG).exists() and (run / LAST).exists()):
        return ""
    means: dict[int, list[float]] = {}
    for line in read_training_log(run / LOG, allow_torn=True).validations:
        means.setdefault(line.update, []).append(line.success)
    curve = {update: sum(values) / len(values) for update, values in means.items()}
    if 0 not in curve or max(curve.values()) > curve[0]:
        return ""
    later = {update: success for update, success in curve.items() if update}
    found = f"; its best validation has {percent_text(max(later.values()))}" if later else ""
    return (
        f"the training never beat its init ({percent_text(curve[0])}{found}), so there is no "
        f"best/; use {run / LAST}, as for every other seed"
    )
