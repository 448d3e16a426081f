"""Tool-integrated math: turns and answers. What programs cost is in `scripts/sandbox_speed.py`."""

import json

import pytest
from math_verify import parse, verify

from tasks.registry import load_task
from tasks.tir_math.checking.comparison import Pair
from tests.benchmarks.conftest import Beside

TASK = load_task("tir_math")
WRITING = "Let me think about what is asked for before I write any program.\n" * 20
ANSWERS = (
    *(("42", "42.0"), (r"\frac{1}{2}", "0.5"), ("2^{10}", "1024"), (r"\sqrt{8}", r"2\sqrt{2}")),
    *(("7", "8"), ("x+1", "1+x"), ("(1,2)", "(1, 2)"), (r"\frac{3}{4}", r"\frac{6}{8}")),
)


def test_tir_math_turns(beside: Beside) -> None:
    """Episodes of turns with neither program nor answer, which need no other process."""
    entries = TASK.panel("builtin").entries[:16]
    prompts = [TASK.episode(entry, 5).reset().messages for entry in entries]

    def play() -> None:
        for entry in entries:
            episode = TASK.episode(entry, 5)
            episode.reset()
            while episode.step(WRITING).outcome is None:
                pass
            episode.close()

    def write() -> None:
        for prompt in prompts:
            for turns in range(50):
                json.dumps([*prompt, {"role": "assistant", "content": WRITING * (turns % 5)}])

    beside(play, write, "json.dumps of conversations, 10 x")


@pytest.mark.slow
def test_tir_math_answers(beside: Beside) -> None:
    def ours() -> list[str]:
        return [Pair(truth, answer).compare() for truth, answer in ANSWERS]

    def bare() -> list[bool]:
        return [
            verify(
                parse(f"${truth}$", parsing_timeout=None),
                parse(f"${answer}$", parsing_timeout=None),
                timeout_seconds=None,
            )
            for truth, answer in ANSWERS
        ]

    expected = [answer != "8" for _, answer in ANSWERS]
    assert [one == "equal" for one in ours()] == bare() == expected
    beside(ours, bare, "math-verify, bare", 15)
