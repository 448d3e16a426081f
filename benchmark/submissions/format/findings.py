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

    Quoted text of the submission is put on one line and shortened.

    Attributes:
        file: The file, relative to the submission's folder; empty for the folder itself.
        field: Field or line in the file; empty for the whole file.
        problem: What is wrong.
        fix: What the author can do.
        until_rerun: Whether a successful rerun by maintainers removes the objection.
    """

    file: str
    field: str
    problem: str
    fix: str
    until_rerun: bool = False

    def __post_init__(self) -> None:
        """Prevent text of a submission from looking like the check's own words."""
        for name in ("file", "field", "problem"):
            object.__setattr__(self, name, on_one_line(getattr(self, name)))

    @property
    def text(self) -> str:
        """The finding for users, on one line."""
        where = ", ".join(part for part in (self.file, self.field) if part) or "the folder"
        return f"{where}: {self.problem}; {self.fix}"


class Rejected(Exception):
    """A fault that makes further checks impossible."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


@contextmanager
def as_finding(file: str, field: str, fix: str) -> Iterator[None]:
    """Turn a reader's error into a finding.

    Raises:
        Rejected: The reader raised a `UserError`.
    """
    try:
        yield
    except UserError as error:
        # Readers' messages begin with the file's name.
        problem = str(error).removeprefix(file).lstrip(" ,:")
        raise Rejected(Finding(file, field, problem, fix)) from error


def attempt(findings: list[Finding], step: Callable[..., Result], *arguments: Any) -> Result | None:
    """Run a step of a check, and collect its finding if it raises `Rejected`.

    Returns:
        The step's result; None if it rejected something.
    """
    try:
        return step(*arguments)
    except Rejected as rejected:
        findings.append(rejected.finding)
        return None
