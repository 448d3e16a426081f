"""Findings: the objections of a check."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from tasks.errors import UserError
from tasks.texts import on_one_line

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Finding:
    """One objection; a submission with any is not accepted.

    Texts of the submission that stand in it are put on one line and shortened.

    Attributes:
        file: The file, relative to the submission's folder; empty for the folder itself.
        field: Field or line in it; empty for all of it.
        problem: What is wrong.
        fix: What its author can do.
        until_rerun: It stands only until maintainers have played the entry again.
    """

    file: str
    field: str
    problem: str
    fix: str
    until_rerun: bool = False

    def __post_init__(self) -> None:
        """Keep what a submission says from looking like the check's own words."""
        for name in ("file", "field", "problem"):
            object.__setattr__(self, name, on_one_line(getattr(self, name)))

    @property
    def text(self) -> str:
        """For people, on one line."""
        where = ", ".join(part for part in (self.file, self.field) if part) or "the folder"
        return f"{where}: {self.problem}; {self.fix}"


class Rejected(Exception):
    """What is wrong keeps the rest from being looked at."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


@contextmanager
def as_finding(file: str, field: str, fix: str) -> Iterator[None]:
    """Turn a reader's complaint into a finding.

    Raises:
        Rejected: The reader has raised a `UserError`.
    """
    try:
        yield
    except UserError as error:
        # Readers name the file themselves.
        problem = str(error).removeprefix(file).lstrip(" ,:")
        raise Rejected(Finding(file, field, problem, fix)) from error


def attempt(findings: list[Finding], step: Callable[..., Result], *arguments: Any) -> Result | None:
    """Take a step of a check, and keep what it rejects.

    Returns:
        What the step gives; None if it rejects something.
    """
    try:
        return step(*arguments)
    except Rejected as rejected:
        findings.append(rejected.finding)
        return None
