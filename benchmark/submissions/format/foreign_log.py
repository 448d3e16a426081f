"""The part of `submission.json` on another trainer's log."""

import re
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from benchmark.logs.foreign.mapping import Source, own_words
from benchmark.submissions.format.texts import check_visible
from tasks.errors import UserError
from tasks.strict import Strict

_DEVICE: Final = re.compile(r"(^|/)(aux|con|nul|prn|com[0-9]|lpt[0-9])(\.|/|$)")
"""A name that Windows reserves for a device."""
_PART: Final = r"[a-z0-9][a-z0-9_]*(\.[a-z0-9]+)*"
_PATH: Final = rf"^(README\.md|{_PART}(/{_PART}){{0,3}})$"


def _portable(path: str) -> str:
    """Check that a path can be checked out on all systems.

    Raises:
        ValueError: It contains a name that Windows reserves for a device, or differs from the
            README's only in case.
    """
    if _DEVICE.search(path) or path.partition("/")[0] == "readme.md":
        raise ValueError("cannot be checked out on every system: rename it")
    return path


Path = Annotated[str, StringConstraints(max_length=120, pattern=_PATH), AfterValidator(_portable)]
"""Path of a file in a submission's folder."""


class ForeignLog(Strict):
    """The unchanged log of another trainer.

    Attributes:
        format: The program that wrote it.
        files: Its file, or several event files of TensorBoard, oldest first.
        meanings: The meanings of fields, declared by the authors as `NAME=FIELD` (see `--map`).
    """

    format: Source
    files: Annotated[tuple[Path, ...], Field(min_length=1, max_length=4, strict=False)]
    meanings: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=400)], ...],
        Field(max_length=64, strict=False),
    ] = ()

    @field_validator("meanings")
    @classmethod
    def _known(cls, meanings: tuple[str, ...]) -> tuple[str, ...]:
        for meaning in meanings:
            check_visible(meaning)
        try:
            own_words(meanings)
        except UserError as error:
            raise ValueError(str(error)) from error
        return meanings

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        if self.format != "tensorboard" and len(self.files) > 1:
            raise ValueError(f"a log of {self.format} is one file")
        return self
