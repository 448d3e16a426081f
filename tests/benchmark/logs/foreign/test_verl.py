"""Handwritten lines in the formats of verl's file logger and console."""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.logs.foreign.mapping import own_words
from benchmark.logs.foreign.rows import Reading
from benchmark.logs.foreign.verl import read_verl
from tasks.errors import UserError


def read(path: Path, content: str, *own: str) -> Reading:
    path.write_text(content, "utf-8")
    (found,) = read_verl(path, own_words(own))
    return found


def json_lines(*lines: tuple[int, dict[str, Any]], **around: Any) -> str:
    return "".join(json.dumps({"step": step, **around, "data": d}) + "\n" for step, d in lines)


# The first lines are from old versions, then Ray's colors, numpy's types, a progress bar.
CONSOLE = """\
WARNING 06-17 step: is not yet known - wait:3
step:0 - val/text/test_score:3.264 - val/success_rate:0.328 - val/webshop_task_score (not success_rate):0.560
some text - with step:9 - dashes:1
\x1b[36m(TaskRunner pid=17)\x1b[0m step:1 - actor/entropy:0.123456 - actor/grad_norm:np.float64(0.25) - actor/lr:1e-06
(TaskRunner pid=17, ip=10.0.0.1) Training:  50%|#####     | 1/2 [00:01<00:01]\r\x1b[36m(TaskRunner pid=17)\x1b[0m step:2 - actor/entropy:np.float32(nan) - actor/grad_norm:inf
(TaskRunner pid=17) step:2 - val/success_rate:np.float64(0.5)
"""  # noqa: E501


def test_the_console(tmp_path: Path) -> None:
    found = read(tmp_path / "gigpo-3.log", CONSOLE)
    curves = {name: (c.steps.tolist(), c.values.tolist()) for name, c in found.run.curves.items()}
    assert curves["validation/success"] == ([0, 2], [0.328, 0.5])
    assert curves["policy/grad_norm"] == ([1, 2], [0.25, math.inf])
    assert curves["policy/entropy"][0] == [1, 2]
    assert curves["policy/entropy"][1][0] == 0.123456
    assert math.isnan(curves["policy/entropy"][1][1])
    assert len(curves) == 3
    assert (found.run.name, found.run.source) == ("gigpo-3", "verl")
    assert found.run.unknown == (
        "actor/lr",
        "val/text/test_score",
        "val/webshop_task_score (not success_rate)",
    )
    assert "--map" in found.because["val/text/test_score"]
    assert found.notes == ()


def test_rounded_numbers_are_said_to_be(tmp_path: Path) -> None:
    old = "step:1 - actor/grad_norm:0.020 - actor/entropy:-0.000\nstep:2 - actor/grad_norm:nan\n"
    found = read(tmp_path / "old.log", old)
    (note,) = found.notes
    assert "three decimals" in note
    assert found.resolution == 0.001
    new = read(tmp_path / "new.log", old + "step:3 - actor/grad_norm:0.0201\n")
    assert (new.notes, new.resolution) == ((), 0)
    lines = json_lines((1, {"actor/grad_norm": 0.02}), (2, {"actor/grad_norm": 0.021}))
    assert read(tmp_path / "lines.jsonl", lines).resolution == 0


def test_the_file_logger(tmp_path: Path) -> None:
    found = read(
        tmp_path / "grpo.jsonl",
        json_lines(
            (0, {"val-core/math/acc/mean@1": 0.25, "val-aux/math/reward/mean@1": 0.3}),
            (1, {"rollout_corr/k3_kl": 0.002, "rollout_corr/kl": -0.001, "timing_s/step": 4.0}),
            (2, {"rollout_corr/k3_kl": math.inf, "timing_s/step": 6.0, "note": "text"}),
            elapsed_seconds=5.5,
        )
        + "\n",
    )
    curves = {name: (c.steps.tolist(), c.values.tolist()) for name, c in found.run.curves.items()}
    assert curves == {
        "validation/success": ([0], [0.25]),
        "engine/k3": ([1, 2], [0.002, math.inf]),
        "engine/k1": ([1], [-0.001]),
        "seconds/total": ([1, 2], [4.0, 6.0]),
    }
    assert found.run.seconds is not None
    assert found.run.seconds.values.tolist() == [4.0, 10.0]
    assert found.run.unknown == ("elapsed_seconds", "note", "val-aux/math/reward/mean@1")
    assert found.read_as["val-core/math/acc/mean@1"].provided == "acc is 1 or 0"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no step line such as"),
        ("nothing\nat all step:1\n", "no step line such as"),
        ("step:1 - pick up the ball\n", "line 1: begins like a step line, but 'pick up"),
        ("step:1 - :0.5\n", "line 1: begins like"),
        ("\nstep:1 - a:0.5 - a:0.5\n", "line 2: 'a' appears twice"),
        ("step:1 - a:0.5 - b:\n", "line 1: begins like"),
        ("step:2 - a:0.5\nstep:1 - a:0.5\n", "line 2: step 1 comes after step 2"),
        ("step:99999999999 - a:0.5\n", "line 1: the step is '99999999999'"),
        ("step:1 - val/success_rate:52.000\n", "line 1: 'val/success_rate' is 52, .* in percent"),
        ("step:1 - actor/grad_norm:True\n", "line 1: begins like"),
        ('{"step": 1, "data": 3}\n', 'line 1: is not an object with "step" and "data"'),
        ('{"step": 1}\n', "line 1: is not an object"),
        ('\n{"step": 1, "data": {}\n', "line 2: not JSON"),
        ('{"step": 1.5, "data": {}}\n', "line 1: the step is 1.5"),
        ('{"data": {}}\n', "line 1: the step is None"),
        ('{"step": 1, "data": {"actor/entropy": "x"}}\n', "'actor/entropy' is not a number"),
        (json_lines((3, {"a": 1}), (2, {"a": 1})), "line 2: step 2 comes after step 3"),
        ('{"step": 1, "data": {"a": "' + "x" * 2**20 + '"}}\n', "line 1: longer than"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "log"
    with pytest.raises(UserError, match=message) as caught:
        read(path, content)
    assert str(path) in str(caught.value)


def test_a_hostile_line_takes_no_time(tmp_path: Path) -> None:
    long = "(" + "pid=1 " * 200_000 + "step:1 - a:1\n"
    began = time.process_time()
    found = read(tmp_path / "log", f"{long}step:2 - actor/grad_norm:0.5\n")
    assert found.run.curves["policy/grad_norm"].steps.tolist() == [2]
    assert time.process_time() - began < 5


NUMBERS = st.floats(0, 2.0**127, width=32) | st.just(math.nan)


@given(st.dictionaries(st.integers(0, 10**9), NUMBERS, min_size=1))
def test_both_shapes_hold_the_same_curve(
    tmp_path_factory: pytest.TempPathFactory, points: dict[int, float]
) -> None:
    folder = tmp_path_factory.mktemp("verl")
    steps = sorted(points)
    lines = json_lines(*((step, {"actor/grad_norm": points[step]}) for step in steps))
    console = "".join(f"step:{step} - actor/grad_norm:{points[step]!r}\n" for step in steps)
    for content in (lines, console):
        curve = read(folder / "log", content).run.curves["policy/grad_norm"]
        assert curve.steps.tolist() == steps
        np.testing.assert_array_equal(curve.values, [points[step] for step in steps])
