"""Random changes to JSON lines: to their order and number, to a field, or to their format."""

import json
import random
from typing import Any

from tests.support.fuzz.values import EDGES, UNICODE, changed, dumped, parsed, rewritten

_NUMBERS = ("repeat", "update", "episodes", "schema_version")
_NAMES = ("episode", "panel", "task", "category", "kind")


def changed_lines(content: bytes, draw: random.Random, of: str) -> bytes:
    """Change lines at random.

    Args:
        content: The lines.
        draw: Source of randomness.
        of: `records`, `turns` (of records) or `logs`.
    """
    lines = content.splitlines(keepends=True) or [b"{}\n"]
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    if of == "turns":
        lines[one] = _written(_turns(parsed(lines[one]), parsed(lines[other]), draw))
        return b"".join(lines)
    if draw.randrange(2):
        lines[one] = _other_line(lines[one], lines[other], draw)
        return b"".join(lines)
    match draw.randrange(7):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case 3:
            lines[one] = lines[other]
        case 4:
            lines.reverse()
        case 5:
            del lines[min(one, other) : max(one, other) + 1]
        case _:
            # Some formats end a line at these characters; this one does not.
            lines.insert(one, draw.choice(("\u2028", "\u0085", "\x0b", " ", "{}")).encode() + b"\n")
    return b"".join(lines)


def _other_line(line: bytes, other: bytes, draw: random.Random) -> bytes:
    """A line with a changed value or another format."""
    match draw.randrange(6):
        case 0:
            return _written(_renumbered(parsed(line), parsed(other), draw))
        case 1:
            return _written(_crossed(parsed(line), parsed(other), draw))
        case 2:
            return rewritten(line.rstrip(b"\n"), draw) + b"\n"
        case 3:
            return line[:-1] + draw.choice((b"", b"\r\n", b"\n\n", b" \n", b"\0\n"))
        case _:
            return _written(changed(parsed(line), draw))


def _written(value: Any) -> bytes:
    return dumped(value).encode("utf-8", "surrogatepass") + b"\n"


def _renumbered(line: Any, other: Any, draw: random.Random) -> Any:
    """A line with another position: the number or name of another line, or of none."""
    if not isinstance(line, dict) or not isinstance(other, dict):
        return line
    names = [name for name in (*_NUMBERS, *_NAMES) if name in line]
    if names:
        name = draw.choice(names)
        line[name] = draw.choice((other.get(name), *EDGES, "", *UNICODE))
    return line


def _crossed(line: Any, other: Any, draw: random.Random) -> Any:
    """A line with one field of another line."""
    if isinstance(line, dict) and isinstance(other, dict) and other:
        name = draw.choice(list(other))
        line[name] = other[name]
    return line


def _turns(record: Any, other: Any, draw: random.Random) -> Any:
    """A record with turns swapped, duplicated, dropped, taken from another record, or changed."""
    turns = record.get("turns") if isinstance(record, dict) else None
    theirs = other.get("turns") if isinstance(other, dict) else None
    if not turns or not theirs:
        return record
    one, two = draw.randrange(len(turns)), draw.randrange(len(turns))
    match draw.randrange(10):
        case 0:
            turns[one], turns[two] = turns[two], turns[one]
        case 1:
            turns.insert(two, json.loads(json.dumps(turns[one])))
        case 2:
            del turns[one]
        case 3:
            turns[one] = theirs[draw.randrange(len(theirs))]
        case 4:
            record["turns"] = theirs
        case 5:
            name = draw.choice(list(turns[one]))
            turns[one][name] = theirs[draw.randrange(len(theirs))][name]
        case 6:
            text = turns[one]["response"]
            at = draw.randrange(len(text) + 1)
            turns[one]["response"] = text[:at] + draw.choice((*UNICODE, " ", "\n")) + text[at:]
        case 7:
            name = draw.choice(("reward", "log_prob", "prompt_tokens", "response_tokens"))
            turns[one][name] = draw.choice(EDGES)
        case 8:
            record |= {"success": True, "score": 1.0, "error": None}
        case _:
            changed(turns[one], draw)
    return record
