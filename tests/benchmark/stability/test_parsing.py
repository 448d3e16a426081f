"""Lines of a training log are parsed in one step or in two, with equal strictness."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.logs.lines import Line, Update, parse_line
from benchmark.logs.metrics import FLOAT32_MAX, METRICS
from tests.support.training.logs import update_line, validation_line

STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 2, 2**53 + 1, 10**400, 0.5, 1.0, -0.0, 1.5, 1e308, FLOAT32_MAX,
    "1", "", [], [0.5], {}, ["policy/loss"], ["policy/loss", "policy/loss"], ["x"], math.nan,
    math.inf,
]  # fmt: skip
RAW = [
    b"1e400", b"-1e400", b"01", b"1.", b".5", b"+1", b"1_0", b"0x1", b"NaN", b"Infinity", b"1e5",
    b"1.0", b"2.0", b'"\\u0061"', b"[1]", b"null", b"nul", b"true", b"5e-324", b"-0",
    b"0.1000000000000000055511151231257827", b"9007199254740993",
    b"340282346638528859811704183484516925441",
]  # fmt: skip
FIELDS = ["update", "seconds_total", "nonfinite", "policy/loss", "rollout/success", "episodes"]


def outcome(content: bytes) -> tuple[str, Any]:
    """The result for a line: its type and its numbers, or its error."""
    try:
        line: Line = parse_line(content)
    except ValueError as error:
        return "refused", str(error)
    if isinstance(line, Update):
        numbers = [(name, type(value), value) for name, value in sorted(line.values.items())]
        return "update", (line.update, line.seconds_total, numbers, line.nonfinite)
    return line.kind, line


def in_two_steps(content: bytes) -> tuple[str, Any]:
    """A line that starts with white space is not parsed in one step."""
    return outcome(b" " + content)


def both(content: bytes) -> str:
    one, other = outcome(content), in_two_steps(content)
    if one[0] == "refused" and one[1].startswith("not JSON"):
        assert other[0] == "refused" and other[1].startswith("not JSON")  # positions differ by one
    else:
        assert one == other
    return one[0]


def test_good_lines_are_read_alike() -> None:
    full = dict.fromkeys(METRICS, 0.25) | {"critic/loss": None, "rollout/episodes": 64}
    for line in (update_line(3, full), update_line(3), validation_line(3)):
        for separators in ((",", ":"), (", ", ": ")):
            assert both(json.dumps(line, separators=separators).encode() + b"\n") == line["kind"]
    found = outcome(json.dumps(update_line(3, full)).encode())
    assert len(found[1][2]) == len(METRICS) - 1  # null is not a number


@pytest.mark.parametrize("raw", RAW)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("kind", ["update", "validation"])
def test_odd_numbers_are_read_alike(kind: str, field: str, raw: bytes) -> None:
    line = update_line(3) if kind == "update" else validation_line(3)
    content = json.dumps(line | {field: "HERE"}).encode()
    both(content.replace(b'"HERE"', raw))


@pytest.mark.parametrize("field", ["kind", *FIELDS])
@pytest.mark.parametrize("many", [False, True])
def test_a_name_that_stands_twice_is_read_alike(field: str, many: bool) -> None:
    values = dict.fromkeys(METRICS, 0.25) if many else {}
    content = json.dumps(update_line(3, values)).encode()
    for one, other in [(b"1", b"2"), (b'"x"', b"0.5"), (b"0.5", b'"x"'), (b'"update"', b'"start"')]:
        name = json.dumps(field).encode() + b": "
        twice = content[:-1] + b", " + name + one + b", " + name + other + b"}"
        both(twice)


@pytest.mark.parametrize(
    "content",
    [
        b'{"kind": "update"', b'{"kind": "update"}', b'{"kind": "update"]', b'{"kind": "update"}}',
        b'{"kind": "update"} {}', b'{"kind": "update"}\n\n', b'{"kind": "update", }',
        b'{"kind": "update", "update": 1, "seconds_total": 1, "\xff": 1}',
        b'{"kind": "update", "update": 1, "seconds_total": 1, "\\ud800": 1}',
        b'{"kind": "update", "update": 1, "seconds_total": 1}\x00',
        b'{"kind": "update", "update": 1, "seconds_total": 1, "x": ' + b"[" * 5000 + b"}",
        b'{"kind": "update", "update": 1, "second\\u0073_total": 1}',
        b'{"kind": "validation"}', b'{"kind": "validation", "kind": "update"}',
        b'{"kind": "update", "kind": "validation"}',
    ],
)  # fmt: skip
def test_broken_lines_are_read_alike(content: bytes) -> None:
    both(content)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.sampled_from(["update", "validation"]),
    st.dictionaries(
        st.sampled_from(["kind", *FIELDS, *validation_line(0), *METRICS, "x"]),
        st.sampled_from(STRANGE) | st.floats() | st.integers(),
        max_size=5,
    ),
)
def test_strange_lines_are_read_alike(kind: str, changes: dict[str, Any]) -> None:
    line = update_line(3) if kind == "update" else validation_line(3)
    both(json.dumps(line | changes).encode())


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_damaged_lines_are_read_alike(data: st.DataObject) -> None:
    values = {"policy/loss": -1.5, "rollout/success": 0.25, "kl_old/mean": None}
    line = data.draw(st.sampled_from([update_line(3, values), validation_line(3)]))
    content = bytearray(json.dumps(line).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    both(bytes(content))
