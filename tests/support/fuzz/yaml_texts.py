"""Random changes to `about.yaml`: to values, lines, and features specific to YAML."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from tests.support.fuzz.values import UNICODE, changed, damaged

_TRICKS: tuple[str, ...] = (
    "name: &a x", "extra: *a", "<<: {name: x}", "? [a]\n: b", "name: !!python/name:os.system x",
    "name: !!binary aGk=", "date: 2027-01-02", "parameters: 0o777", "parameters: 1_000",
    "parameters: 1e3", "parameters: 0x10", "parameters: 190:20:30", "name: yes", "name: ~",
    "name: |\n  a\n  b", "name: >-\n  a", "%YAML 1.1", "---", "...", "--- !!set {a}",
    "authors: !!omap [a: b]", "true: 1", "1: 2", "null: x", "'name': twice", "\"n\\x61me\": twice",
    "method: {kind: policy}", "checkpoints: []", "files: []", "schema_version: 1", "# nothing",
    "\tname: x", "name: x # y", "contact: '@ada'", "init: {name: x}", "weights: 'https://a'",
)  # fmt: skip


def changed_yaml(about: Mapping[str, Any], draw: random.Random) -> bytes:
    """Damage a text as authors write it."""
    style = draw.choice((False, None, True))
    text = yaml.safe_dump(dict(about), default_flow_style=style, allow_unicode=True)
    return draw.choice(_CHANGES)(text, dict(about), draw)


def _value(text: str, about: dict[str, Any], draw: random.Random) -> bytes:
    value = changed(about, draw)
    try:
        return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, UnicodeError):
        return text.encode()


def _bytes(text: str, about: dict[str, Any], draw: random.Random) -> bytes:
    return damaged(text.encode(), draw)


def _trick(text: str, about: dict[str, Any], draw: random.Random) -> bytes:
    lines = text.splitlines()
    lines.insert(draw.randrange(len(lines) + 1), draw.choice(_TRICKS))
    return ("\n".join(lines) + "\n").encode()


def _lines(text: str, about: dict[str, Any], draw: random.Random) -> bytes:
    lines = text.splitlines(keepends=True)
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(3):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
        case 1:
            lines.insert(other, lines[one])
        case _:
            lines[one] = " " * draw.choice((1, 2, 200)) + lines[one]
    return "".join(lines).encode()


def _letter(text: str, about: dict[str, Any], draw: random.Random) -> bytes:
    at = draw.randrange(len(text) + 1)
    return (text[:at] + draw.choice(UNICODE) + text[at:]).encode("utf-8", "surrogatepass")


def _deep(text: str, about: dict[str, Any], draw: random.Random) -> bytes:
    depth = draw.choice((20, 1_000, 30_000))
    name = draw.choice(list(about))
    return f"{text}\n{name}x: {'[' * depth}{']' * depth}\n".encode()


_CHANGES: tuple[Callable[[str, dict[str, Any], random.Random], bytes], ...] = (
    _value,
    _value,
    _bytes,
    _trick,
    _trick,
    _lines,
    _letter,
    _deep,
)
