"""Nothing that a file or an argument says moves the terminal."""

from pathlib import Path

import pytest

from benchmark.cli.main import main
from benchmark.evaluation.compare import compare, comparison_text
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.run_folder import read_run

ESCAPES = ["\x1b]52;c;aGk=\x07", "\x1b]0;title\x07", "\x1b[2J", "\x9b2J", "\r", "\u202e", "\x08"]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("command", ["replay", "compare", "report"])
def test_errors_hold_no_escape(
    command: str, escape: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"no{escape}where"
    assert main([command, name, *([name] if command == "compare" else [])]) == 2
    said = capsys.readouterr().err
    assert said.endswith("\n") and said[:-1].isprintable()
    assert f"U+{ord(escape[0]):04X}" in said


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_comparison_holds_no_escape(escape: str, expert_run: Path) -> None:
    manifest, records = read_run(expert_run)
    model = manifest.model.model_copy(update={"name": f"a{escape}b"})
    other: Manifest = manifest.model_copy(update={"model": model})
    text = comparison_text(compare((manifest, records), (other, records)), "A", f"B{escape}")
    assert all(line.isprintable() for line in text.split("\n"))
    assert f"aU+{ord(escape[0]):04X}" in text
