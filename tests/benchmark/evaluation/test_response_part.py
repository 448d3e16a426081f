"""Which part of a response the environment sees."""

import pytest

from benchmark.evaluation.protocol import THINKING, PanelProtocol, SamplingOverrides
from benchmark.evaluation.response_part import read_by_world
from tasks.registry import load_task

LEVELS, MATHEMATICS = load_task("sokoban"), load_task("tir_math")
CHOICES = SamplingOverrides(protocol=THINKING)
GRID = PanelProtocol.of(LEVELS, LEVELS.panel("builtin"), CHOICES)
SUMS = PanelProtocol.of(MATHEMATICS, MATHEMATICS.panel("builtin"), CHOICES)
UP = "<think></think><action>up</action>"


@pytest.mark.parametrize(
    ("response", "seen"),
    [
        # In the prompt's format; the thought was in a separate field or in the template.
        ("<think>a box</think><action>up</action>", UP),
        ("<think>\na box</think>\n\n<action>up</action>", f"{UP[:15]}\n\n{UP[15:]}"),
        # A native thought, then the prompt's format.
        (
            "<think>native</think><think>box</think><action>up</action>",
            f"<think>box{UP[7:]}",
        ),
        # The template has opened the thought, and the server does not include that.
        ("a box, <action>left</action>?</think><action>up</action>", UP),
        # Hidden thoughts: only the answer.
        ("<action>up</action>", UP),
        ("<THINK>loud</THINK><action>up</action>", UP),
        # Truncated.
        ("<think>a box <action>up</action>", "<think></think>"),
        ("", "<think></think>"),
        ("up", "<think></think>up"),
    ],
)
def test_the_answer_follows_the_first_closed_thought(response: str, seen: str) -> None:
    assert read_by_world(GRID, response) == seen


def test_a_task_without_the_tags_sees_the_answer_alone() -> None:
    response = "<think>```python\nprint(1)\n```</think>\\boxed{2}"
    assert read_by_world(SUMS, response) == "\\boxed{2}"
    assert read_by_world(SUMS, "\\boxed{2}") == "\\boxed{2}"
    assert read_by_world(SUMS, "<think>\\boxed{2}") == ""


def test_the_standard_protocol_shows_all_of_it() -> None:
    standard = PanelProtocol.of(LEVELS, LEVELS.panel("builtin"))
    assert read_by_world(standard, "native</think><action>up</action>") == (
        "native</think><action>up</action>"
    )
