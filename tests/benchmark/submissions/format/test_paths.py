"""Paths in a submission's folder."""

import pytest
from pydantic import TypeAdapter, ValidationError

from benchmark.submissions.format.foreign_log import Path

PATHS: TypeAdapter[str] = TypeAdapter(Path)


@pytest.mark.parametrize("path", ["README.md", "runs/r0/run.json", "training/console.jsonl.zst"])
def test_paths_of_runs_and_logs(path: str) -> None:
    assert PATHS.validate_python(path) == path


@pytest.mark.parametrize(
    "path",
    ["aux", "runs/con/r0", "con/nul", "runs/nul.json", "com1/x", "readme.md/r0", "readme.md"],
)
def test_what_cannot_be_checked_out_everywhere(path: str) -> None:
    with pytest.raises(ValidationError, match="cannot be checked out on every system"):
        PATHS.validate_python(path)
