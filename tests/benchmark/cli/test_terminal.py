"""No text from a file or an argument can control the terminal."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.console import Console

from benchmark.cli.main import main
from benchmark.cli.say import PlainFormatter, say
from benchmark.cli.tables import PlainTable, plain
from benchmark.evaluation.evaluate import Plan
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import overrides_of, run_fingerprint
from benchmark.evaluation.run_folder import read_manifest
from tasks.errors import UserError
from tasks.sokoban.task import SokobanTask
from tasks.texts import is_seen
from tests.support.submissions.small import play_policy, training_lines
from tests.support.training.logs import write_log
from tests.support.training.tiny_study import use_first_entries

ESCAPES = ["\x1b]52;c;aGk=\x07", "\x1b]0;title\x07", "\x1b[2J", "\x9b2J", "\r", "\u202e", "\x08"]
ALL = "".join(ESCAPES) + "X\u2066\u200b\u2028\u00ad"
Json = dict[str, Any]
Capture = pytest.CaptureFixture[str]


def unseen(text: str) -> set[str]:
    return {character for character in text if not is_seen(character) and character != "\n"}


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("command", ["replay", "compare", "report"])
def test_errors_hold_no_escape(command: str, escape: str, capsys: Capture) -> None:
    name = f"no{escape}where"
    assert main([command, name, *([name] if command == "compare" else [])]) == 2
    said = capsys.readouterr().err
    assert said.endswith("\n") and said[:-1].isprintable()
    assert f"U+{ord(escape[0]):04X}" in said


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The expert and the random policy on the first three levels, in folders with these names."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        use_first_entries(patch, SokobanTask, 3)
        plan = Plan.of([("sokoban", "builtin")])
        folders = [play_policy(root / f"{name}{ALL}", name, plan) for name in ("expert", "random")]
        yield folders[0], folders[1]


def everywhere(value: Any) -> Any:
    """The same with escape sequences appended to every text."""
    if isinstance(value, dict):
        return {key: everywhere(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [everywhere(inner) for inner in value]
    return value + ALL if isinstance(value, str) else value


def free_texts(manifest: Json, records: list[Json]) -> None:
    """Every free-text field of the run contains escape sequences."""
    manifest["model"]["name"] += ALL
    manifest["command"] = everywhere(manifest["command"] or ["a"])
    manifest["versions"] |= {f"a{ALL}": ALL}
    manifest["engine"] |= {f"a{ALL}": ALL, "versions": {ALL: ALL}}
    for record in records:
        for turn in record["turns"]:
            turn["response"] += ALL
    records[0] |= {"error": ALL, "success": False}


def field(*path: str) -> Callable[[Json, list[Json]], None]:
    """A text of the manifest with escape sequences."""

    def change(manifest: Json, _: list[Json]) -> None:
        *before, last = path
        place = manifest
        for name in before:
            place = place[name]
        place[last] = everywhere(place[last]) if last in place else ALL

    return change


def panel(**changes: Any) -> Callable[[Json, list[Json]], None]:
    """Change a protocol and the fields derived from it, so that it can still be read."""

    def change(manifest: Json, _: list[Json]) -> None:
        manifest["panels"][0] |= changes
        with suppress(ValidationError, UserError):
            panels = Manifest.model_validate_json(json.dumps(manifest)).panels
            manifest |= {"fingerprint": run_fingerprint(panels), "overrides": overrides_of(panels)}

    return change


def record(**changes: Any) -> Callable[[Json, list[Json]], None]:
    return lambda _, records: records[0].update(changes)


CHANGES: dict[str, Callable[[Json, list[Json]], None]] = {
    "free texts": free_texts,
    "unknown field": field(f"field{ALL}"),
    "created": field("created"),
    "fingerprint": field("fingerprint"),
    "kind": field("model", "kind"),
    "hash": field("model", "sha256"),
    "overrides": lambda manifest, _: manifest.update(overrides={ALL: ALL}),
    "task": panel(task=f"sokoban{ALL}"),
    "panel": panel(panel=ALL),
    "contract": panel(contract=ALL),
    "version": panel(task_version=ALL),
    "settings": panel(settings={ALL: ALL}),
    "packages": panel(packages={ALL: ALL}),
    "episode": record(episode=ALL),
    "category": record(category=ALL),
    "record's unknown field": record(**{ALL: ALL}),
    "record's task": record(task=ALL),
    "action": lambda _, records: records[0]["turns"][0].update(action=ALL),
    "information": lambda _, records: records[0]["turns"][0].update(info={ALL: ALL}),
    "reason": lambda _, records: records[0]["turns"][0].update(finish_reason=ALL),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_run_says_holds_no_escape(
    change: Callable[[Json, list[Json]], None],
    runs: tuple[Path, Path],
    tmp_path: Path,
    capsys: Capture,
) -> None:
    expert, random = runs
    manifest = json.loads((expert / "run.json").read_bytes())
    records = [json.loads(line) for line in (expert / "episodes.jsonl").read_bytes().splitlines()]
    change(manifest, records)
    run = tmp_path / f"run{ALL}"
    run.mkdir()
    (run / "run.json").write_text(json.dumps(manifest), "utf-8")
    lines = "".join(f"{json.dumps(record)}\n" for record in records)
    (run / "episodes.jsonl").write_text(lines, "utf-8")
    shown = ""
    for words in (
        ["replay", "--env-processes", "1", run],
        ["report", "--env-processes", "1", run],
        ["compare", run, random],
        ["compare", random, run, expert],
        ["merge", run, "--out", tmp_path / f"merged{ALL}"],
        ["submit", "init", run, "--out", tmp_path / f"about{ALL}.yaml"],
        ["submit", "check", run],
    ):
        main([str(word) for word in words])
        said = capsys.readouterr()
        assert said.out + said.err
        assert unseen(said.out + said.err) == set(), words
        shown += said.out + said.err
    assert "U+001B" in shown
    for file in (run / "report.html", run / "summary.json", *tmp_path.glob("*.yaml")):
        if file.exists():
            assert unseen(file.read_text("utf-8")) <= {"\t"}


@pytest.mark.parametrize("number", [0, 1, 2], ids=["start", "validation", "update"])
def test_what_a_log_says_holds_no_escape(
    number: int, runs: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    expert, _ = runs
    lines = training_lines(0, read_manifest(expert))[:5]
    lines[number] = everywhere(lines[number]) | {ALL: ALL}
    path = write_log(tmp_path / f"log{ALL}.jsonl", lines)
    for words in (
        ["plot", path, "--out", tmp_path / f"a{ALL}.svg"],
        ["stability", path],
        ["submit", "init", expert, "--training-log", path, "--out", tmp_path / "a.yaml"],
    ):
        main([str(word) for word in words])
        said = capsys.readouterr()
        assert said.out + said.err
        assert unseen(said.out + said.err) == set(), words


@given(st.text(), st.text())
def test_what_is_said_is_seen(one: str, other: str) -> None:
    shown = io.StringIO()
    with redirect_stdout(shown):
        say(one, other, sep="|")
    assert unseen(shown.getvalue()) == set()
    if not unseen(one + other):
        assert shown.getvalue() == f"{one}|{other}\n"


@given(st.text(st.characters(codec="utf-8")))
def test_tables_hold_texts(text: str) -> None:
    table = PlainTable()
    table.add_column(text)
    table.add_row(text)
    shown = io.StringIO()
    console = Console(file=shown, width=500)
    console.print(table)
    console.print(plain(text))
    assert unseen(shown.getvalue()) == set()


def test_markup_is_a_text() -> None:
    shown = io.StringIO()
    table = PlainTable()
    table.add_column("[bold]head[/bold]")
    table.add_row("[red]a[/red]")
    Console(file=shown, width=80).print(table, plain("[link=x]b[/link]"))
    for text in ("[bold]head[/bold]", "[red]a[/red]", "[link=x]b[/link]"):
        assert text in shown.getvalue()


def test_messages_of_the_log_hold_no_escape() -> None:
    line = logging.LogRecord("a", logging.WARNING, "a.py", 1, "%s\nb", (ALL,), None)
    shown = PlainFormatter().format(line)
    assert unseen(shown) == set()
    assert shown.endswith("\nb")
