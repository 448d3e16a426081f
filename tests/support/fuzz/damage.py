"""Random damage to submissions, for fuzzing: of every file, as bytes and as what they mean."""

import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from benchmark.submissions.badges import badges_of
from benchmark.submissions.check import CheckResult
from benchmark.submissions.report import comment, verdict_json
from tests.support.submissions import Copy

Path = tuple[str | int, ...]

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 15, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.0, -0.0, 0.5,
    1.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"),
    "", " ", "0", "a", "expert", "random", "two_boxes", "stop", "length", "train-0-0", "0" * 40,
    "0" * 64, "../../etc/passwd", "/etc/passwd", "..\\x", "a\0b", "\u202eabc", "\u200b", "\u0410da",
    "\ud800", "<script>alert(1)</script>", "| x | y |", "[x](javascript:alert(1))", "x" * 3_000,
    "https://example.org", "http://example.org", "\x1b[2J",
    [], [None], [[]], [0, 1], ["x"], {}, {"": None}, {"a": {"b": []}},
)  # fmt: skip
"""Values that readers stumble over."""


def mutate(copy: Copy, draw: random.Random) -> str:
    """Damage a submission in one place or two.

    Returns:
        What was done.
    """
    kinds = list(_KINDS)
    first = draw.choice(kinds)
    _KINDS[first](copy, draw)
    # Reading a pipe that nobody writes to would take for ever.
    if draw.randrange(4) or any(path.is_fifo() for path in copy.folder.rglob("*")):
        return first
    second = draw.choice(kinds)
    # What is broken already may not take further damage.
    with suppress(AttributeError, IndexError, KeyError, OSError, TypeError, ValueError):
        _KINDS[second](copy, draw)
    return f"{first} + {second}"


def judged(verdict: CheckResult) -> dict[str, Any]:
    """What a check says in every form that it has; none of them may fail.

    Returns:
        The verdict for programs.
    """
    badges = badges_of(verdict, {}) if verdict.accepted else None
    comment(verdict, badges)
    assert all(finding.text.isprintable() for finding in verdict.findings)
    content: dict[str, Any] = json.loads(verdict_json(verdict, badges))
    return content


def proven(verdict: CheckResult) -> dict[str, Any]:
    """What an accepted submission shows and its authors cannot choose.

    Names and descriptions are theirs, and so is what a log says where it agrees with itself.
    """
    content = judged(verdict)
    del content["stability"], content["stability_infinite"]
    assert verdict.entry is not None
    submission = verdict.entry.submission
    content["checkpoints"] = [point.model_dump() for point in submission.checkpoints]
    content["kind"] = submission.method.kind
    content["init"] = submission.init and submission.init.model_dump()
    return content


def _files(copy: Copy, draw: random.Random) -> str:
    names = sorted(p.relative_to(copy.folder).as_posix() for p in copy.folder.rglob("*"))
    return draw.choice([name for name in names if (copy.folder / name).is_file()])


def _about(copy: Copy, draw: random.Random) -> None:
    file = copy.folder / "submission.json"
    file.write_text(_dumped(_changed(_json(file.read_bytes()), draw)), "utf-8", "surrogatepass")


def _bytes(copy: Copy, draw: random.Random) -> None:
    file = copy.folder / _files(copy, draw)
    file.write_bytes(_damaged(file.read_bytes(), draw))


def _listed_bytes(copy: Copy, draw: random.Random) -> None:
    name = _files(copy, draw)
    _bytes_of(copy, name, draw)
    if name != "submission.json":
        listed = [
            f for f in _json(copy.read("submission.json")).get("files", []) if f["path"] == name
        ]
        copy.relist(name, listed[0]["content_bytes"] if listed else None)


def _bytes_of(copy: Copy, name: str, draw: random.Random) -> None:
    (copy.folder / name).write_bytes(_damaged((copy.folder / name).read_bytes(), draw))


def _content(copy: Copy, draw: random.Random) -> None:
    name = _files(copy, draw)
    if name.endswith(".zst"):
        copy.write(name, _damaged(copy.read(name), draw))


def _records(copy: Copy, draw: random.Random) -> None:
    run = "runs/r0"
    name = f"{run}/episodes.jsonl.zst"
    copy.write(name, _lines(copy.read(name), draw))
    copy.summarize(run)


def _log(copy: Copy, draw: random.Random) -> None:
    logs = sorted((copy.folder / "training").glob("*.zst"))
    if logs:
        name = f"training/{draw.choice(logs).name}"
        copy.write(name, _lines(copy.read(name), draw))


def _plain(file: str) -> Callable[[Copy, random.Random], None]:
    def change(copy: Copy, draw: random.Random) -> None:
        name = f"runs/r0/{file}"
        changed = _changed(_json(copy.read(name)), draw)
        copy.write(name, _dumped(changed).encode("utf-8", "surrogatepass"))

    return change


def _restated(copy: Copy, draw: random.Random) -> None:
    def change(fields: dict[str, Any]) -> None:
        changed = _changed(fields, draw)
        if isinstance(changed, dict) and changed is not fields:
            fields.clear()
            fields.update(changed)

    if isinstance(_json(copy.read("runs/r0/run.json")), dict):
        copy.manifest(change)


def _tree(copy: Copy, draw: random.Random) -> None:
    name = _files(copy, draw)
    file = copy.folder / name
    match draw.randrange(6):
        case 0:
            file.unlink()
        case 1:
            file.rename(file.with_name(f"x{file.name}"))
        case 2:
            content = file.read_bytes()
            file.unlink()
            (copy.folder.parent / "outside").write_bytes(content)
            file.symlink_to(copy.folder.parent / "outside")
        case 3:
            (file.parent / draw.choice(("x", "\n", ".git", "..x", "X.JSON", "a b"))).write_bytes(
                b""
            )
        case 4:
            file.unlink()
            os.mkfifo(file)
        case _:
            file.unlink()
            file.mkdir()


_KINDS: dict[str, Callable[[Copy, random.Random], None]] = {
    "field of submission.json": _about,
    "bytes of a file": _bytes,
    "bytes of a file, listed": _listed_bytes,
    "unpacked bytes, listed": _content,
    "records": _records,
    "log": _log,
    "field of run.json": _plain("run.json"),
    "field of run.json, restated": _restated,
    "field of summary.json": _plain("summary.json"),
    "files and folders": _tree,
}


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return {}


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _damaged(content: bytes, draw: random.Random) -> bytes:
    """Other bytes: some changed, cut out, put in, or doubled."""
    at, length = draw.randrange(len(content) + 1), draw.randrange(1, 40)
    kept = content[at + length :]
    match draw.randrange(6):
        case 0:
            return content[:at] + draw.randbytes(length) + kept
        case 1:
            return content[:at] + kept
        case 2:
            return content[:at] + draw.randbytes(length) + content[at:]
        case 3:
            return content[:at]
        case 4:
            return content + content
        case _:
            changed = bytearray(content or b"x")
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
            return bytes(changed)


def _lines(content: bytes, draw: random.Random) -> bytes:
    """Other JSON lines: a field of one changed, or lines dropped, doubled or swapped."""
    lines = content.splitlines(keepends=True) or [b"{}\n"]
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(8):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case 3:
            lines[one] = lines[other]
        case _:
            text = _dumped(_changed(_json(lines[one]), draw))
            lines[one] = text.encode("utf-8", "surrogatepass") + b"\n"
    return b"".join(lines)


def _changed(value: Any, draw: random.Random) -> Any:
    """A JSON value with one change somewhere in it."""
    path = draw.choice(_paths(value))
    if not path:
        return _other(value, draw)
    parent = value
    for step in path[:-1]:
        parent = parent[step]
    key: Any = path[-1]
    match draw.randrange(6):
        case 0 if isinstance(parent, dict):
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[str(draw.choice(("x", "", "name", "success", "\x1b[31m")))] = parent[key]
        case 2 if isinstance(parent, list):
            parent.insert(0, parent[key])
        case 3 if isinstance(parent, list):
            del parent[key]
        case _:
            parent[key] = _other(parent[key], draw)
    return value


def _paths(value: Any, here: Path = ()) -> list[Path]:
    found = [here]
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            found += _paths(inner, (*here, key))
    return found


def _other(value: Any, draw: random.Random) -> Any:
    """Another value in the place of one: a neighbor of it, or anything."""
    near: list[Any] = []
    if isinstance(value, bool):
        near = [not value, int(value)]
    elif isinstance(value, int | float):
        near = [value + 1, value - 1, -value, value * 0.5, value + 1 / 256, str(value)]
    elif isinstance(value, str):
        near = [value + " ", value[1:], value.upper(), value[::-1], value + "\n", value * 2]
    return draw.choice(near) if near and draw.randrange(2) else draw.choice(ODD)
