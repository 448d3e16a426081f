"""The fingerprint changes with everything that can affect a number, and with nothing else."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from benchmark.cli.arguments.evaluation import PROTOCOLS
from benchmark.engines.core.base import Sampling
from benchmark.evaluation.protocol import (
    OPTIONS,
    PIXELS,
    STANDARD,
    THINKING,
    PanelProtocol,
    SamplingOverrides,
    protocol_text,
    run_fingerprint,
    thinking_standard,
    with_images,
)
from tasks.errors import UserError
from tasks.panels import PanelDefaults
from tasks.registry import load_task

TASK = load_task("sokoban")
PROTOCOL = PanelProtocol.of(TASK, TASK.panel("builtin"))

CHANGES: dict[str, Any] = {
    "task": "other",
    "task_version": "99",
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
    "name": THINKING,
    "chat_template_kwargs": {"enable_thinking": False},
    "extra_body": {"reasoning_effort": "low"},
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
    other = PanelProtocol.of(TASK, TASK.panel("two_boxes"))
    assert run_fingerprint((PROTOCOL, other)) == run_fingerprint((other, PROTOCOL))
    assert run_fingerprint((PROTOCOL,)) != run_fingerprint((PROTOCOL, other))


def test_overrides_name_what_is_not_standard() -> None:
    assert PROTOCOL.overrides == {}
    changed = replace(PROTOCOL, sampling=Sampling(temperature=0.6, top_k=20), repeats=4)
    assert changed.overrides == {"temperature": 0.6, "top_k": 20, "repeats": 4}


def test_choices_stand_in_the_place_of_the_standard() -> None:
    standard = PanelDefaults(max_tokens=4096, temperature=0.6, top_p=0.95, top_k=20, repeats=8)
    assert STANDARD.over(standard) == (Sampling(0.6, 0.95, 20, 4096), 8)
    assert SamplingOverrides(temperature=0, repeats=2).over(standard) == (
        Sampling(0, 0.95, 20, 4096),
        2,
    )
    assert STANDARD.over(PanelDefaults()) == (Sampling(), 1)


def test_the_choices_of_a_protocol_give_it_again() -> None:
    changed = replace(PROTOCOL, sampling=Sampling(0.6, 0.9, 7, 33), repeats=3, seed=5)
    assert PanelProtocol.of(TASK, TASK.panel("builtin"), SamplingOverrides.of(changed)) == changed


def test_what_is_standard_is_the_panels_own_matter() -> None:
    task = load_task("tir_math")
    protocol = PanelProtocol.of(task, task.panel("builtin"))
    assert protocol.sampling.max_tokens == task.panels()["builtin"].standard.max_tokens == 4096
    assert protocol.overrides == {}
    assert replace(protocol, sampling=Sampling()).overrides == {"max_tokens": 512}


def test_the_fingerprint_of_the_standard_protocol_is_the_published_one() -> None:
    assert PROTOCOL.fingerprint.startswith("fe7ec53d2de50827")
    mathematics = load_task("tir_math")
    standard = PanelProtocol.of(mathematics, mathematics.panel("builtin"))
    assert standard.fingerprint.startswith("2e463329a8a8fd2f")


def test_the_thinking_protocol_has_a_standard_of_its_own() -> None:
    choices = SamplingOverrides(protocol=THINKING)
    protocol = PanelProtocol.of(TASK, TASK.panel("builtin"), choices)
    assert protocol.sampling == Sampling(0.6, 0.95, 0, 8192)
    assert (protocol.repeats, protocol.overrides) == (1, {})  # 256 levels
    info = TASK.panels()["builtin"]
    few = thinking_standard(replace(info, episodes=30))
    assert few.repeats == 5  # 150 plays; four would be 120
    eight = replace(info, episodes=30, standard=PanelDefaults(repeats=8))
    assert thinking_standard(eight).repeats == 8
    warm = PanelProtocol.of(TASK, TASK.panel("builtin"), replace(choices, temperature=1.0))
    assert warm.overrides == {"temperature": 1.0}
    assert SamplingOverrides.of(warm) == replace(
        choices, temperature=1.0, top_p=0.95, top_k=0, max_tokens=8192, repeats=1
    )


def test_images_alone_make_the_pixels_protocol() -> None:
    task = TASK.configured({"view": "pixels"})
    pixels = PanelProtocol.of(task, task.panel("builtin"))
    assert (pixels.name, pixels.public_name, pixels.overrides) == ("v1", PIXELS, {})
    # The format before the protocol had a name.
    assert run_fingerprint((pixels,)).startswith("6a433b5f9390ff9f")
    assert PROTOCOL.public_name == "v1"
    warm = replace(pixels, sampling=Sampling(temperature=1.0))
    assert (warm.public_name, warm.overrides) == (PIXELS, {"temperature": 1.0})
    thinking = PanelProtocol.of(task, task.panel("builtin"), SamplingOverrides(protocol=THINKING))
    assert (thinking.public_name, thinking.overrides) == (THINKING, {"sokoban.view": "pixels"})
    assert protocol_text([pixels]) == "pixels"
    assert protocol_text([pixels, PROTOCOL, pixels, thinking]) == "pixels and standard and thinking"


def test_the_command_line_knows_the_protocols() -> None:
    assert tuple(OPTIONS.values()) == PROTOCOLS


def test_every_task_of_a_pixels_run_is_shown_as_images() -> None:
    shown = {"sokoban": {"view": "pixels"}}
    assert with_images({}, ["sokoban"]) == with_images(shown, ["sokoban"]) == shown
    with pytest.raises(UserError, match="webshop cannot be shown as images; .*: --task sokoban$"):
        with_images({}, ["sokoban", "webshop"])
    with pytest.raises(UserError, match=r"--set sokoban\.view=text contradicts"):
        with_images({"sokoban": {"view": "text"}}, ["sokoban"])


def test_what_was_not_chosen_is_not_written() -> None:
    adapter = TypeAdapter(PanelProtocol)
    new = {"name", "chat_template_kwargs", "extra_body"}
    assert not new & set(adapter.dump_python(PROTOCOL, mode="json"))
    for name in new:
        changed = replace(PROTOCOL, **{name: CHANGES[name]})
        written = adapter.dump_json(changed)
        assert new & set(json.loads(written)) == {name}
        assert adapter.validate_json(written) == changed


def test_equal_numbers_are_the_same_setting() -> None:
    whole = replace(PROTOCOL, sampling=Sampling(temperature=0, top_p=1), format_penalty=0)
    point = replace(PROTOCOL, sampling=Sampling(temperature=0.0, top_p=1.0), format_penalty=0.0)
    minus = replace(PROTOCOL, sampling=Sampling(temperature=-0.0, top_p=1.0), format_penalty=-0.0)
    assert whole.fingerprint == point.fingerprint == minus.fingerprint


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
