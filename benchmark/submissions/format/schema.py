"""The content of `submission.json`: what a submission declares, and the list of its files.

It contains no results, which are computed from the records and the logs. `schema.json` beside the
submissions is generated from this module.
"""

import re
from collections.abc import Collection, Sequence
from datetime import date
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from benchmark.fields import Sha256
from benchmark.models import ModelIdentity
from benchmark.submissions.format.foreign_log import ForeignLog, Path
from benchmark.submissions.format.texts import (
    BADGES,
    check_claims,
    check_link,
    check_name,
    check_own,
    check_title,
    check_visible,
)
from tasks.strict import Strict

SCHEMA_VERSION: Final = 1
SUBMISSION: Final = "submission.json"
README: Final = "README.md"
MAX_CHECKPOINTS = 32
MAX_RUNS = 64
MAX_FILES = 4 * MAX_RUNS + MAX_CHECKPOINTS + 1

FOLDER_NAME: Final = re.compile(r"[0-9]{8}_[a-z0-9]+(-[a-z0-9]+)*")
"""Name of a submission's folder: `<date>_<name>`."""
_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+@-]*")
_HUB_MODEL: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_HUB_TREE: Final = re.compile(
    rf"https://huggingface\.co/({_HUB_MODEL.pattern})/tree/([0-9a-f]{{40}})"
)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")

TITLE: Final = r"^[A-Za-z0-9][A-Za-z0-9._+()/-]*( [A-Za-z0-9._+()/-]+)*$"
Title = Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=TITLE)]
"""A displayed name: ASCII with single spaces only, so that no name looks like another."""
Text = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
Bytes = Annotated[int, Field(ge=0, le=2**33)]
Link = Annotated[str, StringConstraints(min_length=9, max_length=300)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


HUB_FILE: Final = re.compile(
    r"https://huggingface\.co/datasets/[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}/"
    r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}/resolve/[0-9a-f]{40}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}){1,6}"
)


class StoredFile(Strict):
    """One file of the submission.

    Attributes:
        path: Its path in the folder, also if the file is on the hub.
        bytes: Stored size in bytes.
        sha256: SHA-256 of the stored bytes.
        content_bytes: Uncompressed size in bytes; null for a file that is not compressed.
        url: Address of a file that is not in the folder: in a dataset on the Hugging Face hub, at a
            commit.
    """

    path: Path
    bytes: Bytes
    sha256: Sha256
    content_bytes: Bytes | None = None
    url: Link | None = None

    @field_validator("url")
    @classmethod
    def _on_the_hub(cls, url: str | None) -> str | None:
        if url is not None and not HUB_FILE.fullmatch(url):
            raise ValueError(
                "not a file of a dataset on the hub at a commit: "
                "https://huggingface.co/datasets/OWNER/NAME/resolve/<40 hex digits>/PATH"
            )
        return url

    @model_validator(mode="after")
    def _compressed_or_plain(self) -> Self:
        if self.path.endswith(".zst") != (self.content_bytes is not None):
            raise ValueError("content_bytes is required for .zst files and not allowed for others")
        if self.url is not None and self.content_bytes is None:
            raise ValueError("only compressed files can be on the hub")
        return self


class Method(Strict):
    """How the checkpoints were made.

    Attributes:
        kind: `policy` for a program without weights, `init` for an unchanged starting checkpoint,
            `trained` for a checkpoint trained from one, by reinforcement learning or otherwise.
        recipe: Name of the method, the same for all checkpoints.
        description: What the method does, in a few sentences.
        code: Address of its code.
        paper: Address of its paper.
    """

    kind: Literal["policy", "init", "trained"]
    recipe: Title
    description: Text
    code: Link | None = None
    paper: Link | None = None

    @field_validator("recipe")
    @classmethod
    def _own(cls, recipe: str) -> str:
        check_own(recipe)
        check_title(recipe)
        return recipe

    @field_validator("description")
    @classmethod
    def _seen(cls, text: str) -> str:
        check_visible(text, lines=True)
        check_own(text)
        return text

    @field_validator("code", "paper")
    @classmethod
    def _address(cls, link: str | None) -> str | None:
        if link is not None:
            check_link(link)
            check_own(link)
        return link


class TrainingData(Strict):
    """The checkpoints' training data, as declared by their authors.

    Attributes:
        statement: All training data since the base model.
        training_streams: Tasks of this benchmark whose training streams were used.
        other: Whether other data was used for any of the benchmark's tasks.
        panel_episodes: Whether episodes of a panel were trained on; such a submission is rejected.
    """

    statement: Text
    training_streams: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,40}$")], ...],
        Field(max_length=20, strict=False),
    ]
    other: bool
    panel_episodes: Literal[False]

    @field_validator("panel_episodes", mode="before")
    @classmethod
    def _said(cls, value: object) -> object:
        # Pydantic also accepts 0 as the literal false.
        if not isinstance(value, bool):
            raise ValueError("must be false")
        return value

    @field_validator("statement")
    @classmethod
    def _seen(cls, text: str) -> str:
        check_visible(text, lines=True)
        return text


class Checkpoint(Strict):
    """One evaluated set of weights, or one evaluated policy.

    Attributes:
        seed: Training seed; 0 if it was not trained.
        model: Identity of its weights, the same as in each of its runs.
        runs: Its run folders.
        training_log: Its training log; null if there is none.
        foreign_log: Its training log by another trainer; null if there is none.
    """

    seed: Seed
    model: ModelIdentity
    runs: Annotated[tuple[Path, ...], Field(min_length=1, max_length=MAX_RUNS, strict=False)]
    training_log: Path | None = None
    # Without one, the field is omitted, as in entries from before it existed.
    foreign_log: ForeignLog | None = Field(None, exclude_if=lambda log: log is None)

    @property
    def logs(self) -> tuple[str, ...]:
        """Files of its training log, from any trainer."""
        own = () if self.training_log is None else (self.training_log,)
        return own if self.foreign_log is None else (*own, *self.foreign_log.files)

    @model_validator(mode="after")
    def _one_log(self) -> Self:
        if self.training_log is not None and self.foreign_log is not None:
            raise ValueError("has a training_log and a foreign_log: a training has one log")
        return self

    @field_validator("model")
    @classmethod
    def _named(cls, model: ModelIdentity) -> ModelIdentity:
        check_model(model)
        return model


class Declaration(Strict):
    """What authors declare about a submission.

    Attributes:
        schema_version: Version of this schema.
        name: Name on the leaderboard.
        date: Day of the submission, ISO 8601.
        authors: Names or handles.
        contact: Contact for questions: an address, a handle, or a sentence.
        method: How the checkpoints were made.
        base_model: The original model of the weights; null for a policy.
        parameters: Number of weights; null for a policy.
        init: Starting checkpoint of training; null for a policy or an init.
        training_data: Training data; null for a policy.
        weights: Where to download the checkpoints; null if nowhere, and for a policy. For most
            addresses, only the form is checked (`published`).
    """

    schema_version: Literal[1]
    name: Title
    date: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    authors: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...],
        Field(min_length=1, max_length=50, strict=False),
    ]
    contact: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    method: Method
    base_model: Title | None
    parameters: Annotated[int, Field(ge=1, le=10**14)] | None
    init: ModelIdentity | None
    training_data: TrainingData | None
    weights: Link | None = None

    @field_validator("date")
    @classmethod
    def _a_day(cls, day: str) -> str:
        date.fromisoformat(day)
        return day

    @field_validator("name", "base_model")
    @classmethod
    def _own(cls, name: str | None) -> str | None:
        if name is not None:
            check_own(name)
            check_title(name)
        return name

    @field_validator("authors", "contact")
    @classmethod
    def _people(cls, value: tuple[str, ...] | str) -> tuple[str, ...] | str:
        for text in (value,) if isinstance(value, str) else value:
            check_name(text)
            check_own(text)
            if text is not value:  # a contact may be an address at verified.example.org
                check_claims(text, BADGES)
        return value

    @field_validator("init")
    @classmethod
    def _named(cls, model: ModelIdentity | None) -> ModelIdentity | None:
        if model is not None:
            check_model(model)
        return model

    @field_validator("weights")
    @classmethod
    def _address(cls, link: str | None) -> str | None:
        if link is not None:
            check_link(link)
            check_own(link)
            if found := _HUB_TREE.fullmatch(link):
                check_model(ModelIdentity(name=found[1], kind="hub", revision=found[2]))
        return link

    @property
    def published(self) -> ModelIdentity | None:
        """The hub commit that `weights` names; None for any other address.

        Only hub commits are looked up, and only from there does a rerun download weights itself.
        """
        found = _HUB_TREE.fullmatch(self.weights or "")
        return found and ModelIdentity(name=found[1], kind="hub", revision=found[2])

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        given = {name for name in ABOUT_WEIGHTS if getattr(self, name) is not None}
        if problem := wrong_for_kind(self.method.kind, given):
            raise ValueError(problem)
        return self


class Submission(Declaration):
    """The content of `submission.json`: the authors' declaration and the list of files.

    Attributes:
        checkpoints: The evaluated checkpoints, one per seed of the method.
        files: All files of the folder except this one.
    """

    checkpoints: Annotated[
        tuple[Checkpoint, ...], Field(min_length=1, max_length=MAX_CHECKPOINTS, strict=False)
    ]
    files: Annotated[tuple[StoredFile, ...], Field(max_length=MAX_FILES, strict=False)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        kind = self.method.kind
        for what, values in (
            ("two files have the path", [file.path for file in self.files]),
            ("two checkpoints have the seed", [point.seed for point in self.checkpoints]),
            ("a run folder is listed twice:", [r for p in self.checkpoints for r in p.runs]),
            (
                "a training log is listed twice:",
                [log for point in self.checkpoints for log in point.logs],
            ),
        ):
            _check_distinct(what, values)
        if kind != "trained" and (len(self.checkpoints) > 1 or self.checkpoints[0].logs):
            raise ValueError(f"method.kind {kind} has one checkpoint and no training log")
        if kind != "trained" and self.checkpoints[0].seed:
            raise ValueError(f"method.kind {kind} has no training seed: it must be 0")
        return self


ABOUT_WEIGHTS: Final = ("base_model", "parameters", "training_data", "init", "weights")
"""Fields that only some kinds of methods have."""
_PLAYERS: Final = {
    "policy": "a scripted policy",
    "init": "an unchanged registered init",
    "trained": "a trained checkpoint",
}
_WANTED: Final = {
    "policy": frozenset[str](),
    "init": frozenset({"base_model", "parameters", "training_data"}),
    "trained": frozenset({"base_model", "parameters", "training_data", "init"}),
}


def wrong_for_kind(kind: Literal["policy", "init", "trained"], given: Collection[str]) -> str:
    """What is wrong with the fields about weights; empty if nothing is.

    Args:
        kind: Kind of the method.
        given: The fields of `ABOUT_WEIGHTS` that are present.
    """
    wanted = _WANTED[kind]
    allowed = wanted | {"weights"} if kind != "policy" else wanted
    surplus = [name for name in ABOUT_WEIGHTS if name in given and name not in allowed]
    missing = [name for name in ABOUT_WEIGHTS if name in wanted and name not in given]
    parts = [f"remove {', '.join(surplus)}"] if surplus else []
    parts += [f"give {', '.join(missing)}"] if missing else []
    return f"the run was played by {_PLAYERS[kind]}: {'; '.join(parts)}" if parts else ""


def _check_distinct(what: str, values: Sequence[object]) -> None:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{what} {value}")


def check_model(model: ModelIdentity) -> None:
    """Check that a model's name and revision are valid for its kind, in canonical spelling.

    Raises:
        ValueError: They are not.
    """
    if not _MODEL.fullmatch(model.name):
        raise ValueError(f"{model.name!a} is not a plain name: letters, digits and ._/+@-")
    if model.revision is not None and not _COMMIT.fullmatch(model.revision):
        raise ValueError("revision must be a commit: 40 hex digits")
    if model.adapter is not None:
        raise ValueError(
            "has a LoRA adapter: merge it (merge_and_unload of peft), and evaluate the merged model"
        )
    if model.kind != "hub":
        return
    odd = ".." in model.name or "--" in model.name or model.name.endswith((".git", ".", "-"))
    if not _HUB_MODEL.fullmatch(model.name) or odd:
        raise ValueError(f"{model.name!a} is not the name of a hub model: OWNER/NAME")
    if model.sha256 is not None:
        raise ValueError("a hub model's commit says which files it has: remove sha256")
