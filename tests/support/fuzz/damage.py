"""Random damage to submissions for fuzzing: to the bytes and to the content of every file."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmark.models import ModelIdentity
from benchmark.submissions.about import Kind, read_about
from tasks.errors import UserError, suggestion
from tests.support.fuzz.archives import ARCHIVES
from tests.support.fuzz.lines import changed_lines
from tests.support.fuzz.values import changed, damaged, dumped, parsed, rewritten
from tests.support.fuzz.yaml_texts import changed_yaml
from tests.support.submissions.small import INIT, Copy, about

Damage = Callable[[Copy, random.Random], None]
_BROKEN = (
    *(AttributeError, IndexError, KeyError, OSError, RecursionError, TypeError, ValueError),
    UserError,
)
"""Errors from changing something that is already broken."""


@dataclass(frozen=True, slots=True)
class Done:
    """The damage done to a submission.

    Attributes:
        file: Kind of the first damaged file.
        kinds: Kinds of damage, in order.
        refused: Error with which `about.yaml` was rejected, which leaves nothing to check.
    """

    file: str
    kinds: tuple[str, ...]
    refused: str | None = None


def mutate(copy: Copy, draw: random.Random) -> Done:
    """Damage a submission in one place, or occasionally in two.

    Returns:
        The damage done.
    """
    before = after = _snapshot(copy)
    # Not every submission has a file of each kind, and some changes change nothing.
    while after == before:
        file = draw.choice(list(KINDS))
        first = draw.choice(list(KINDS[file]))
        try:
            KINDS[file][first](copy, draw)
        except UserError as error:
            return Done(file, (first,), str(error))
        after = _snapshot(copy)
    # Reading a pipe without a writer would block forever.
    if draw.randrange(4) or any(path.is_fifo() for path in copy.folder.rglob("*")):
        return Done(file, (first,))
    other = draw.choice(list(KINDS))
    second = draw.choice(list(KINDS[other]))
    # Something broken may not support further damage.
    with suppress(*_BROKEN):
        KINDS[other][second](copy, draw)
    return Done(file, (first, second))


def _snapshot(copy: Copy) -> dict[str, bytes | None]:
    """Every path of a submission, with the content of regular files."""
    return {
        str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in copy.folder.rglob("*")
    }


def _named(copy: Copy, draw: random.Random, part: str) -> str | None:
    """A file whose name contains this part; None if there is none."""
    names = [name for name in _names(copy) if part in name]
    return draw.choice(names) if names else None


def _names(copy: Copy) -> list[str]:
    found = (path for path in copy.folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(copy.folder).as_posix() for path in found)


def _stored_bytes(part: str, listed: bool) -> Damage:
    """Damages a file as stored, and updates its hash."""

    def change(copy: Copy, draw: random.Random) -> None:
        if (name := _named(copy, draw, part)) is None:
            return
        before = _content_bytes(copy, name)
        file = copy.folder / name
        file.write_bytes(damaged(file.read_bytes(), draw))
        if listed and name != "submission.json":
            copy.relist(name, before)

    return change


def _content_bytes(copy: Copy, name: str) -> int | None:
    files = parsed(copy.read("submission.json")).get("files", [])
    return next((file["content_bytes"] for file in files if file["path"] == name), None)


def _frames(copy: Copy, draw: random.Random) -> None:
    """Stores an archive in another encoding."""
    if (name := _named(copy, draw, ".zst")) is not None:
        content, file = copy.read(name), copy.folder / name
        file.write_bytes(draw.choice(ARCHIVES)(content, draw))
        copy.relist(name, len(content) + draw.choice((0, 0, 0, 1, -1)))


def _content(part: str, change: Callable[[bytes, random.Random], bytes]) -> Damage:
    """Changes the bytes of a file's content and updates its hash and the summary."""

    def write(copy: Copy, draw: random.Random) -> None:
        if (name := _named(copy, draw, part)) is not None:
            copy.write(name, change(copy.read(name), draw))
            if name.endswith("episodes.jsonl.zst"):
                copy.summarize(name.rpartition("/")[0])

    return write


def _value(part: str) -> Damage:
    """Changes one JSON value in a file."""

    def change(content: bytes, draw: random.Random) -> bytes:
        return dumped(changed(parsed(content), draw)).encode("utf-8", "surrogatepass")

    return _content(part, change)


def _restated(copy: Copy, draw: random.Random) -> None:
    """Changes a value of `run.json` and updates its fingerprint, overrides and summary."""

    def change(fields: dict[str, Any]) -> None:
        other = changed(fields, draw)
        if isinstance(other, dict) and other is not fields:
            fields.clear()
            fields.update(other)

    if isinstance(parsed(copy.read("runs/r0/run.json")), dict):
        copy.manifest(change)


def _swapped(part: str, copy: Copy, draw: random.Random) -> None:
    """Swaps two files of a kind, or copies one over the other, and updates both hashes."""
    names = [name for name in _names(copy) if part in name]
    if len(names) < 2:
        return
    one, other = draw.sample(names, 2)
    contents = copy.read(one), copy.read(other)
    copy.write(one, contents[1])
    if draw.randrange(2):
        copy.write(other, contents[0])


def _checkpoints(copy: Copy, draw: random.Random) -> None:
    """Swaps, duplicates, renumbers or drops checkpoints, their models, runs and logs."""

    def change(content: dict[str, Any]) -> None:
        points = content["checkpoints"]
        one, other = draw.choice(points), draw.choice(points)
        match draw.randrange(7):
            case 0:
                points.append(dict(one))
            case 1:
                points.reverse()
            case 2:
                one["seed"] = draw.choice((0, 1, 2, 2**62, other["seed"]))
            case 3:
                points.remove(one)
            case 4:
                name = draw.choice(("seed", "model", "runs", "training_log"))
                one[name], other[name] = other[name], one[name]
            case 5:
                one["runs"] = [*one["runs"], *other["runs"]]
            case _:
                one["training_log"] = draw.choice((None, "README.md", *one["runs"]))

    copy.about(change)


def _field(copy: Copy, draw: random.Random) -> None:
    file = copy.folder / "submission.json"
    text = dumped(changed(parsed(file.read_bytes()), draw))
    file.write_text(text, "utf-8", "surrogatepass")


def _tree(copy: Copy, draw: random.Random) -> None:
    name = draw.choice(_names(copy))
    file = copy.folder / name
    outside = copy.folder.parent / "outside"
    match draw.randrange(9):
        case 0:
            file.unlink()
        case 1:
            file.rename(file.with_name(f"x{file.name}"))
        case 2:
            file.rename(outside)
            file.symlink_to(outside)
        case 3:
            odd = ("x", "\n", ".git", "..x", "X.JSON", "a b", "\u202e", b"\xff".decode("latin-1"))
            (file.parent / draw.choice(odd)).write_bytes(b"")
        case 4:
            file.unlink()
            os.mkfifo(file)
        case 5:
            file.rename(file.with_name(file.name.upper()))
        case 6:
            (file.parent / f"{file.name}.bak").hardlink_to(file)
        case 7:
            deep = copy.folder.joinpath(*("a" for _ in range(draw.choice((1, 3, 6, 40)))))
            deep.mkdir(parents=True)
            (deep / "x").write_bytes(b"x")
        case _:
            file.unlink()
            file.mkdir()


def _about_yaml(copy: Copy, draw: random.Random) -> None:
    """Writes the content of a damaged `about.yaml` to `submission.json`.

    Raises:
        UserError: It is rejected.
    """
    content = parsed(copy.read("submission.json"))
    kind: Kind = content["method"]["kind"]
    written = about(kind)
    for name in ("schema_version", "date"):
        del written[name]
    del written["method"]["kind"]
    if kind != "trained":
        del written["init"]
    else:
        written["init"] = INIT["name"]
    file = copy.folder.parent / "about.yaml"
    file.write_bytes(changed_yaml({k: v for k, v in written.items() if v is not None}, draw))
    said = read_about(file, kind, content["date"], _find_init)
    copy.about(lambda fields: fields.update(said))


def _find_init(name: str) -> ModelIdentity:
    if name != INIT["name"]:
        raise UserError(f"there is no init {name!r}{suggestion(name, ('tiny-sokoban',))}")
    return ModelIdentity.model_validate(INIT)


_RECORDS, _RUN, _SUMMARY = "episodes.jsonl.zst", "run.json", "summary.json"


def _of_file(part: str) -> dict[str, Damage]:
    return {"stored bytes": _stored_bytes(part, False), "bytes, listed": _stored_bytes(part, True)}


KINDS: dict[str, dict[str, Damage]] = {
    "submission.json": {
        **_of_file("submission.json"),
        "field": _field,
        "checkpoints": _checkpoints,
        "writing": lambda copy, draw: _rewrite(copy.folder / "submission.json", draw),
    },
    "about.yaml": {"text": _about_yaml},
    "records": {
        **_of_file(_RECORDS),
        "content": _content(_RECORDS, damaged),
        "lines": _content(_RECORDS, partial(changed_lines, of="records")),
        "turns": _content(_RECORDS, partial(changed_lines, of="turns")),
        "swapped": partial(_swapped, _RECORDS),
    },
    "logs": {
        **_of_file("training/"),
        "content": _content("training/", damaged),
        "lines": _content("training/", partial(changed_lines, of="logs")),
        "writing": _content("training/", rewritten),
        "swapped": partial(_swapped, "training/"),
    },
    "archives": {"frames": _frames},
    "run.json": {
        **_of_file(_RUN),
        "field": _value(_RUN),
        "field, restated": _restated,
        "writing": _content(_RUN, rewritten),
        "swapped": partial(_swapped, _RUN),
    },
    "summary.json": {
        **_of_file(_SUMMARY),
        "field": _value(_SUMMARY),
        "writing": _content(_SUMMARY, rewritten),
    },
    "README.md": _of_file("README.md"),
    "files and folders": {"tree": _tree},
}
"""The possible kinds of damage, by kind of file."""


def _rewrite(file: Path, draw: random.Random) -> None:
    file.write_bytes(rewritten(file.read_bytes(), draw))
