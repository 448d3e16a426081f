"""Random changes to bytes, to JSON values, and to the format of JSON."""

import json
import random
from typing import Any

Path = tuple[str | int, ...]

UNICODE = (
    "\0", "\u202eabc", "\u200b", "\u0410da", "\ud800", "\u2028", "\u0085", "\ufeff", "e\u0301",
    "\uff21", "\u00a0", "\U000e0041", "\u1e9e", "\u212a", "\x1b[2J", "\r", "\x7f",
)  # fmt: skip
"""Direction marks, invisible spaces, homoglyphs, a lone surrogate."""
EDGES: tuple[Any, ...] = (
    0, 1, -1, 2, 15, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**400,
    0.0, -0.0, 0.5, 1.5, 1e-300, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, *EDGES,
    "", " ", "0", "a", "expert", "random", "two_boxes", "stop", "length", "train-0-0", "0" * 40,
    "0" * 64, "../../etc/passwd", "/etc/passwd", "..\\x", *UNICODE,
    "<script>alert(1)</script>", "| x | y |", "[x](javascript:alert(1))", "x" * 3_000,
    "https://example.org", "http://example.org", "1e999", "NaN",
    [], [None], [[]], [0, 1], ["x"], {}, {"": None}, {"a": {"b": []}},
)  # fmt: skip
"""Edge cases for parsers."""


def parsed(content: bytes) -> Any:
    """Parse a JSON value; an empty object if there is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return {}


def dumped(value: Any) -> str:
    """Serialize a JSON value."""
    return json.dumps(value, ensure_ascii=False)


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Damage bytes: change, remove, insert, or duplicate some."""
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


def changed(value: Any, draw: random.Random) -> Any:
    """Change one value somewhere in a JSON value."""
    path = draw.choice(_paths(value))
    if not path:
        return _other(value, draw)
    parent = value
    for step in path[:-1]:
        parent = parent[step]
    key: Any = path[-1]
    match draw.randrange(7):
        case 0 if isinstance(parent, dict):
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[str(draw.choice(("x", "", "name", "success", "\x1b[31m")))] = parent[key]
        case 2 if isinstance(parent, dict):
            other = draw.choice(list(parent))
            parent[key], parent[other] = parent[other], parent[key]
        case 0 if isinstance(parent, list):
            parent.insert(draw.randrange(len(parent) + 1), parent[key])
        case 1 if isinstance(parent, list):
            del parent[key]
        case 2 if isinstance(parent, list):
            draw.shuffle(parent)
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
    """Another value: close to the given one, or arbitrary."""
    near: list[Any] = []
    if isinstance(value, bool):
        near = [not value, int(value)]
    elif isinstance(value, int | float):
        near = [value + 1, value - 1, -value, value * 0.5, value + 1 / 256, str(value), *EDGES]
        near += [float(value), value * (1 + 1e-12), value * 1.001] if abs(value) < 1e300 else []
    elif isinstance(value, str):
        near = [value + " ", value[1:], value.upper(), value[::-1], value + "\n", value * 2]
        at = draw.randrange(len(value) + 1)
        near += [value[:at] + mark + value[at:] for mark in UNICODE]
    return draw.choice(near) if near and draw.randrange(3) else draw.choice(ODD)


def rewritten(content: bytes, draw: random.Random) -> bytes:
    """Rewrite JSON in another format; not all are valid, and none may change a result."""
    text = content.decode("utf-8", "replace")
    at = draw.choice([n for n, c in enumerate(text) if c in "{,:"] or [0]) + 1
    match draw.randrange(9):
        case 0:
            return (text[:at] + draw.choice((" ", "\n", "\t", "\r\n")) + text[at:]).encode()
        case 1:
            return b"\xef\xbb\xbf" + content
        case 2:
            return text.encode("utf-16")
        case 3:
            return content + draw.choice((b" ", b"\n", b"\n\n", b"\0", b"{}", b"\r", b"\x1a"))
        case 4:
            return json.dumps(parsed(content), ensure_ascii=True, indent=1).encode()
        case 5:
            return json.dumps(parsed(content), sort_keys=True).encode()
        case 6:
            return _twin(text, draw).encode()
        case 7:
            return _escaped(text, draw).encode()
        case _:
            depth = draw.choice((10, 200, 5_000, 100_000))
            return (text[:at] + "[" * depth + "]" * depth + text[at:]).encode()


def _twin(text: str, draw: random.Random) -> str:
    """An object with one field duplicated, with the same value or another."""
    value = parsed(text.encode())
    if not isinstance(value, dict) or not value:
        return text + text
    name = draw.choice(list(value))
    twin = value[name] if draw.randrange(2) else _other(value[name], draw)
    pair = f"{json.dumps(name)}: {json.dumps(twin)}"
    start = text.index("{") + 1
    if draw.randrange(2):
        return f"{text[:start]}{pair}, {text[start:]}"
    end = text.rindex("}")
    return f"{text[:end]}, {pair}{text[end:]}"


def _escaped(text: str, draw: random.Random) -> str:
    """Write one letter as an escape, in a name or a text."""
    places = [n for n, c in enumerate(text) if c.isalpha() and text[n - 1] == '"']
    if not places:
        return text
    at = draw.choice(places)
    return f"{text[:at]}\\u{ord(text[at]):04x}{text[at + 1 :]}"
