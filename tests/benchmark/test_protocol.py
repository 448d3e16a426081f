"""The fingerprint changes with everything that can move a number, and with nothing else."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from benchmark.engines.base import Sampling
from benchmark.protocol import PanelProtocol, run_fingerprint
from tasks.registry import load_task

TASK = load_task("sokoban")
PROTOCOL = PanelProtocol.of(TASK, TASK.panel("builtin"), Sampling())

CHANGES: dict[str, Any] = {
    "task": "other",
    "task_version": "2",
    "panel": "other",
    "panel_sha256": "0" * 64,
    "episodes": 255,
    "max_turns": 16,
    "history_turns": 3,
    "format_penalty": 0.2,
    "contract": "other",
    "prompt_sha256": "0" * 64,
    "trace_sha256": "0" * 64,
    "settings": {"tagger": "words"},
    "packages": {"textworld": "1.6"},
    "sampling": Sampling(temperature=0.1),
    "repeats": 2,
    "seed": 1,
}


def test_every_field_is_tried() -> None:
    assert set(CHANGES) == {field.name for field in fields(PanelProtocol)}


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_field_changes_the_fingerprint(field: str) -> None:
    assert replace(PROTOCOL, **{field: CHANGES[field]}).fingerprint != PROTOCOL.fingerprint


@pytest.mark.parametrize("field", ["temperature", "top_p", "top_k", "max_tokens"])
def test_sampling_is_part_of_it(field: str) -> None:
    changed = replace(Sampling(), **{field: 3})
    assert replace(PROTOCOL, sampling=changed).fingerprint != PROTOCOL.fingerprint


def test_the_order_of_panels_does_not_matter() -> None:
    other = PanelProtocol.of(TASK, TASK.panel("two_boxes"), Sampling())
    assert run_fingerprint((PROTOCOL, other)) == run_fingerprint((other, PROTOCOL))
    assert run_fingerprint((PROTOCOL,)) != run_fingerprint((PROTOCOL, other))


def test_overrides_name_what_is_not_standard() -> None:
    assert PROTOCOL.overrides == {}
    changed = replace(PROTOCOL, sampling=Sampling(temperature=0.6, top_k=20), repeats=4)
    assert changed.overrides == {"temperature": 0.6, "top_k": 20, "repeats": 4}


def test_one_and_one_point_zero_are_the_same_setting() -> None:
    whole = replace(PROTOCOL, sampling=Sampling(temperature=1, top_p=1), format_penalty=0)
    point = replace(PROTOCOL, sampling=Sampling(temperature=1.0, top_p=1.0), format_penalty=0.0)
    assert whole.fingerprint == point.fingerprint


@given(
    st.integers(0, 3) | st.floats(0, 10),
    st.integers(1, 1) | st.floats(0, 1, exclude_min=True),
    st.integers(0, 9),
)
def test_a_protocol_survives_json(temperature: float, top_p: float, top_k: int) -> None:
    protocol = replace(PROTOCOL, sampling=Sampling(temperature, top_p, top_k))
    adapter = TypeAdapter(PanelProtocol)
    again = adapter.validate_json(adapter.dump_json(protocol))
    assert again == protocol
    assert again.fingerprint == protocol.fingerprint
