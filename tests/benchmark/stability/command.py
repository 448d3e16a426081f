"""The command `stability`, and small logs for it."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmark.cli.main import main
from tests.support.training.logs import (
    Line,
    run_lines,
    start_line,
    update_line,
    validation_line,
    write_log,
)

SUCCESS = {0: 0.25, 1: 0.5, 2: 0.75, 3: 0.75}
LATE_LOSS = (67, 88, 93, 87, 57, 6)
"""Episodes of 256 solved by a run whose last validation loses most: halved, not collapsed."""
NORMS = {1: 1.0, 2: 2.0, 3: 1.5}


def verl_log(
    path: Path, success: Mapping[int, float] = SUCCESS, norms: Mapping[int, float] = NORMS
) -> Path:
    lines = []
    for step in sorted({*success, *norms}):
        data = {"actor/grad_norm": norms[step]} if step in norms else {}
        if step in success:
            data["val/success_rate"] = success[step]
        lines.append(json.dumps({"step": step, "data": data}) + "\n")
    path.write_text("".join(lines))
    return path


def run_of(solved: Sequence[int], recipe: str = "grpo", seed: int = 0) -> list[Line]:
    """A log with a validation of the init and one after every update."""
    lines = [start_line(recipe, seed), validation_line(0, solved=solved[0])]
    for update, count in enumerate(solved[1:], 1):
        lines += [update_line(update), validation_line(update, solved=count)]
    return lines


def table(text: str) -> dict[str, list[str]]:
    """The cells of every line of the table, by its first cell."""
    lines = text.split("\n\n", maxsplit=1)[0].splitlines()
    rule = next(number for number, line in enumerate(lines) if set(line) <= {"-", " "})
    ends = [match.end() for match in re.finditer("-+", lines[rule])]
    cells = {}
    for line in lines[rule + 1 :]:
        label, *others = [
            line[start:end].strip() for start, end in zip([0, *ends], ends, strict=False)
        ]
        cells[label] = others
    return cells


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["stability", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def one_line(text: str) -> str:
    return " ".join(text.split())


def fault(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["stability", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def seeds(root: Path) -> list[Path]:
    """Three seeds of grpo, one of which collapses, and one run of sampo."""
    return [
        write_log(root / "grpo-0", run_lines("grpo", 0, updates=12)).parent,
        write_log(root / "grpo-1", run_lines("grpo", 1, updates=12, collapse_at=3)).parent,
        write_log(root / "grpo-2", run_lines("grpo", 2, updates=12)).parent,
        write_log(root / "sampo-0", run_lines("sampo", 0, updates=12)),
    ]
