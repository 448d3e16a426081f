"""`arlarena-bench submit check` and its output."""

import json
from pathlib import Path
from typing import Any

from baselines.inits.registry import read_registry
from benchmark.cli.main import main
from tests.support.submissions.small import Copy, Json


def real_init(copy: Copy) -> None:
    """Make a trained submission start from the shipped init."""
    digest = read_registry()["tiny-sokoban"].sha256
    copy.about(lambda about: about["init"].update(sha256=digest))
    for seed in (0, 1):
        copy.log(lambda lines: lines[0]["init"].update(sha256=digest), seed)


def verdict_of(folder: Path, *options: str) -> tuple[int, Json, str]:
    """Exit code, JSON verdict, and comment."""
    files = folder.parent.parent / "verdict.json", folder.parent.parent / "comment.md"
    written = ["--json", str(files[0]), "--comment", str(files[1])]
    code = main(["submit", "check", str(folder), *written, *options])
    content: dict[str, Any] = json.loads(files[0].read_bytes())
    return code, content, files[1].read_text("utf-8")
