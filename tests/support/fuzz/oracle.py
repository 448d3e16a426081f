"""Allowed differences between a submission and a damaged copy of it that is accepted as well.

Accepting a copy is correct only if no difference affects a result: what the check establishes
(`proven`) is equal, and the differences in the files are of classes known to prove nothing.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from benchmark.evaluation.manifest import Manifest
from benchmark.submissions.badges import badges_of
from benchmark.submissions.check import CheckResult
from benchmark.submissions.format.schema import Submission
from benchmark.submissions.report import comment, verdict_json
from tests.support.submissions.small import unpacked

CLAIMS: Final = "claims of the authors"
RUN_FACTS: Final = "facts of a run that no replay confirms"
ANSWERS: Final = "answers and tokens with the same actions"
LOGS: Final = "a log that agrees with itself"
SPELLING: Final = "the same content, written in another way"
HARMLESS: Final = (
    ("README.md", ".*", CLAIMS),
    (
        "submission.json",
        r"(name|authors|contact|date|weights|parameters|base_model"
        r"|method\.(recipe|description|code|paper)|training_data\.(statement|other|training_streams))"
        r"(\..*)?",
        CLAIMS,
    ),
    ("submission.json", r"checkpoints\.seed", CLAIMS),
    ("submission.json", r"files(\..*)?", SPELLING),
    ("run.json", r"(created|command|engine|versions)(\..*)?", RUN_FACTS),
    (
        "records",
        r"turns\.(response|response_tokens|prompt_tokens|log_prob|finish_reason)|sequence(\..*)?",
        ANSWERS,
    ),
    # It follows from the records, and the check compares them.
    (
        "summary.json",
        r"panels\.(prompt_tokens|response_tokens|total_tokens|truncated)(\..*)?",
        ANSWERS,
    ),
    ("log", ".*", LOGS),
)
"""File, pattern of its fields (without list indices), and class of the difference."""


def judged(verdict: CheckResult) -> dict[str, Any]:
    """Render a verdict in all its formats, none of which may fail.

    Returns:
        The JSON verdict.
    """
    badges = badges_of(verdict, {}) if verdict.accepted else None
    comment(verdict, badges)
    assert all(finding.text.isprintable() for finding in verdict.findings)
    content: dict[str, Any] = json.loads(verdict_json(verdict, badges))
    return content


def proven(verdict: CheckResult) -> dict[str, Any]:
    """What an accepted submission establishes and its authors cannot choose.

    Authors choose names and descriptions, and the content of a log as far as it is consistent.
    """
    content = judged(verdict)
    for name in ("stability", "stability_infinite", "foreign_stability"):
        content.pop(name, None)
    assert verdict.entry is not None
    submission = verdict.entry.submission
    points = [point.model_dump() for point in submission.checkpoints]
    content["checkpoints"] = sorted(points, key=lambda point: point["runs"])
    if not any(point["training_log"] for point in points):
        # Without a log, authors choose which seed the weights are of.
        for point in points:
            del point["seed"]
        for panel in content["panels"].values():
            panel["seeds"] = sorted(panel["seeds"].values())
    content["kind"] = submission.method.kind
    content["init"] = submission.init and submission.init.model_dump()
    return content


def classes_of(base: Path, copy: Path) -> set[str]:
    """Classes of the differences between an accepted copy and its original.

    Returns:
        Classes of `HARMLESS`, `SPELLING` where the bytes differ but not the content, and every
        difference without a class, as `file: field`.
    """
    found = set()
    for name in sorted(_files(base) | _files(copy)):
        before, after = base / name, copy / name
        if not (before.is_file() and after.is_file()):
            found.add(f"{name}: is not in both")
        elif before.read_bytes() != after.read_bytes():
            of = _kind_of(name)
            fields = set(_differing(of, before, after))
            found |= {_class_of(of, field) for field in fields} or {SPELLING}
    return found


def unclassed(classes: set[str]) -> list[str]:
    """Differences that affect results, or that have not been classified yet."""
    return sorted(classes - {CLAIMS, RUN_FACTS, ANSWERS, LOGS, SPELLING})


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def _kind_of(name: str) -> str:
    """Kind of a file: `log`, `records`, or its own name."""
    if name.startswith("training/"):
        return "log"
    file = name.rpartition("/")[2]
    return "records" if file == "episodes.jsonl.zst" else file


def _class_of(file: str, field: str) -> str:
    for of, pattern, what in HARMLESS:
        if of == file and re.fullmatch(pattern, field):
            return what
    return f"{file}: {field}"


def _differing(of: str, before: Path, after: Path) -> Iterator[str]:
    """The fields that differ, without list indices."""
    if of == "README.md":
        yield ""
        return
    if of == "log":
        if unpacked(before.read_bytes()) != unpacked(after.read_bytes()):
            yield ""
        return
    if not before.name.endswith(".zst"):
        # Parsed like in the check: missing fields have their defaults.
        schemas: dict[str, type[BaseModel]] = {"run.json": Manifest, "submission.json": Submission}
        read = schemas.get(of)
        one, other = (
            _flat(_by_name(_content(path.read_bytes(), read))) for path in (before, after)
        )
    else:
        lines = [
            [json.loads(line) for line in unpacked(path.read_bytes()).splitlines()]
            for path in (before, after)
        ]
        # Records are matched by episode.
        one, other = ({k: v for each in side for k, v in _line(each)} for side in lines)
        if len(lines[0]) != len(lines[1]):
            yield "number of lines"
    for path in one.keys() | other.keys():
        # A missing field is null.
        if not _equal(one.get(path), other.get(path)):
            yield ".".join(str(step) for step in path if isinstance(step, str))


def _content(stored: bytes, schema: type[BaseModel] | None) -> dict[str, Any]:
    if schema is not None:
        return schema.model_validate_json(stored).model_dump(mode="json")
    content: dict[str, Any] = json.loads(stored)
    return content


def _by_name(content: dict[str, Any]) -> dict[str, Any]:
    """The content with checkpoints and files indexed by path, in any order."""
    named = {}
    if "checkpoints" in content:
        points = content["checkpoints"]
        named["checkpoints"] = {(point["runs"][0],): point for point in points}
    if "files" in content:
        named["files"] = {(file["path"],): file for file in content["files"]}
    return content | named


def _line(line: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    place = tuple(line[name] for name in ("task", "panel", "episode", "repeat"))
    for path, value in _flat(line).items():
        yield ((place,), *path), value


def _flat(value: Any, here: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Every scalar of a JSON value by its path."""
    if isinstance(value, dict | list) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, inner in pairs for k, v in _flat(inner, (*here, key)).items()}
    return {here: value}


def _equal(one: Any, other: Any) -> bool:
    """Whether two scalars are equal; 1 and 1.0 are, 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
