"""Handwritten W&B exports: histories and charts."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest

from benchmark.logs.foreign import wandb
from benchmark.logs.foreign.mapping import own_words
from benchmark.logs.foreign.rows import Reading
from benchmark.logs.foreign.wandb import read_wandb
from tasks.errors import UserError


def read(folder: Path, content: str, *own: str, name: str = "export.csv") -> list[Reading]:
    path = folder / name
    path.write_text(content, "utf-8")
    return read_wandb(path, own_words(own))


def json_lines(*lines: dict[str, Any]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def curves(found: Reading) -> dict[str, tuple[list[int], list[float]]]:
    return {name: (c.steps.tolist(), c.values.tolist()) for name, c in found.run.curves.items()}


def test_a_history_as_json_lines(tmp_path: Path) -> None:
    content = json_lines(
        {"_step": 0, "_runtime": 1.5, "_timestamp": 1.7e9, "val/success_rate": 0.25},
        {"_step": 1, "actor/grad_norm": 2.0, "samples": {"_type": "table-file"}},
        {"_step": 2, "actor/grad_norm": "NaN", "val/success_rate": None, "episode/length/mean": 7},
    )
    (found,) = read(tmp_path, content, name="run-a.jsonl")
    read_curves = curves(found)
    assert read_curves["validation/success"] == ([0], [0.25])
    assert read_curves["policy/grad_norm"][0] == [1, 2]
    assert math.isnan(read_curves["policy/grad_norm"][1][1])
    assert read_curves["rollout/turns"] == ([2], [7.0])
    assert (found.run.name, found.run.source) == ("run-a", "wandb")
    assert found.run.unknown == ("samples",)


def test_a_history_as_csv(tmp_path: Path) -> None:
    content = (
        ",_step,_runtime,policy/grad_norm,validation/success,tokens/response,seconds_total,mine\r\n"
        "0,0,1,,0.5,,0.5,\r\n"
        "1,1,2,NaN,,100,2.5,text\r\n"
        '2,2.0,3,1e3,"0.75",50,5,\r\n'
    )
    (found,) = read(tmp_path, content)
    read_curves = curves(found)
    assert read_curves["validation/success"] == ([0, 2], [0.5, 0.75])
    assert math.isnan(read_curves["policy/grad_norm"][1][0])
    assert read_curves["policy/grad_norm"][1][1] == 1000.0
    assert found.run.tokens is not None
    assert found.run.tokens.values.tolist() == [100.0, 150.0]
    assert found.run.seconds is not None
    assert found.run.seconds.values.tolist() == [0.5, 2.5, 5.0]
    assert found.run.unknown == ("mine",)


def test_the_step_of_the_trainer_goes_before_the_count_of_calls(tmp_path: Path) -> None:
    # transformers logs training and evaluation in two calls, with its own step number.
    content = json_lines(
        {"_step": 0, "train/global_step": 5, "train/kl": 0.1},
        {"_step": 1, "train/global_step": 5, "eval/solved": 0.25},
        {"_step": 2, "train/global_step": 10, "train/kl": 0.2},
        {"_step": 3, "someone/else": 1.0},
    )
    (found,) = read(tmp_path, content, "validation/success=eval/solved", name="h.jsonl")
    assert curves(found) == {
        "kl_init/mean": ([5, 10], [0.1, 0.2]),
        "validation/success": ([5], [0.25]),
    }
    assert found.run.unknown == ("someone/else",)
    lost = content + json_lines({"_step": 4, "actor/grad_norm": 1.0})
    with pytest.raises(UserError, match=r"line 5: 'actor/grad_norm' has no step"):
        read(tmp_path, lost)


def test_a_run_that_was_resumed_is_refused(tmp_path: Path) -> None:
    content = json_lines(
        {"_step": 0, "train/global_step": 10, "train/kl": 0.1},
        {"_step": 1, "train/global_step": 8, "train/kl": 0.1},
    )
    with pytest.raises(UserError, match=r"line 2: step 8 comes after step 10; a resumed run"):
        read(tmp_path, content)
    same = json_lines({"_step": 3, "actor/entropy": 0.1}, {"_step": 3, "actor/entropy": 0.2})
    with pytest.raises(UserError, match="line 2: 'actor/entropy' of step 3 appears twice"):
        read(tmp_path, same)


@pytest.mark.parametrize(
    ("content", "field", "step"),
    [
        (json_lines({"_step": 0, "train/grad_norm": 0.5, "x": 1}), "train/grad_norm", "_step"),
        ("_step,x,train/reward\n0,,0.5\n", "train/reward", "_step"),
        ("Step,run - train/kl\n0,0.5\n", "run - train/kl", "Step"),
    ],
)
def test_calls_are_no_updates_of_transformers(
    tmp_path: Path, content: str, field: str, step: str
) -> None:
    # It calls `log` once for the training and once for the evaluation of one step.
    with pytest.raises(UserError) as caught:
        read(tmp_path, content)
    assert f"has '{field}', as transformers logs it, without train/global_step" in str(caught.value)
    assert f"{step} counts log calls" in str(caught.value)
    renamed = content.replace(step, "train/global_step")
    (found,) = read(tmp_path, renamed)
    assert found.notes == ()
    assert [curve.steps.tolist() for curve in found.run.curves.values()] == [[0]]


def test_calls_that_are_read_as_updates_are_said_to_be(tmp_path: Path) -> None:
    # verl and our trainer pass their own number to `log`; for others this is unknown.
    for content in ("_step,actor/grad_norm\n3,0.5\n", "Step,run - actor/grad_norm\n3,0.5\n"):
        (found,) = read(tmp_path, content)
        (note,) = found.notes
        assert note.startswith(f"{content.partition(',')[0]} is read as the update")
    (found,) = read(tmp_path, "_step,training/global_step,actor/grad_norm\n3,1,0.5\n")
    assert found.notes == ()


def test_a_chart_of_two_runs(tmp_path: Path) -> None:
    head = ["Step"]
    for run in ("grpo - seed 0", "sampo"):
        name = f"{run} - val/success_rate"
        head += [name, f"{name}__MIN", f"{name}__MAX", f"{run} - _step"]
    rows = [
        ["0", "0.25", "0.25", "0.25", "0", "0.5", "0.5", "0.5", "0"],
        ["5", "0.5", "0.5", "0.5", "5", "", "", "", ""],
    ]
    content = "\n".join(",".join(f'"{cell}"' for cell in row) for row in [head, *rows])
    one, other = read(tmp_path, content)
    assert (one.run.name, curves(one)) == (
        "grpo - seed 0",
        {"validation/success": ([0, 5], [0.25, 0.5])},
    )
    assert (other.run.name, curves(other)) == ("sampo", {"validation/success": ([0], [0.5])})
    assert one.run.unknown == ()


def test_a_chart_of_means_is_refused(tmp_path: Path) -> None:
    content = (
        "Step,r - val/success_rate,r - val/success_rate__MIN,r - val/success_rate__MAX\n"
        "0,0.5,0.5,0.5\n1,0.4,0.1,0.7\n"
    )
    with pytest.raises(UserError, match=r"line 3: .* is a mean of several steps, between 0.1 and"):
        read(tmp_path, content)


@pytest.mark.parametrize("content", ["_step,a\n0,1\n1,1\n2,1\n", '{"_step": 0}\n' * 3])
def test_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(wandb, "MAX_ROWS", 2)
    with pytest.raises(UserError, match="more than 2 rows"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("epoch,val/success_rate\n1,0.5\n", "no column train/global_step or"),
        ("_step,a,a\n0,1,2\n", "line 1: column 'a' appears twice"),
        ("_step,a\n0,1\n1\n", "line 3: 1 cells for 2 columns"),
        ('_step,a\n0,"1\n', "not CSV"),
        ("_step,val/success_rate\n0,55\n", "line 2: 'val/success_rate' is 55, .* in percent"),
        ("_step,val/success_rate\n0,high\n", "line 2: 'val/success_rate' is not a number"),
        ("_step,val/success_rate\n,0.5\n", "line 2: the step is None"),
        ("_step,val/success_rate\n1,0.5\n0,0.5\n", "line 3: step 0 comes after step 1"),
        ('{"_step": 1}\n[1]\n', "line 2: is not an object"),
        ('{"_step": 1}\n{"_step": 2, "_step": 3}\n', "line 2: '_step' appears twice"),
        ('{"_step": "1", "actor/entropy": 1}\n', "line 1: the step is"),
        ('{"x": 1}\n', "no column train/global_step"),
        ("", "no column train/global_step"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(tmp_path, content)
    assert str(tmp_path / "export.csv") in str(caught.value)


@pytest.mark.parametrize("value", ["null", "1"])
def test_a_new_name_in_every_line_takes_time_for_the_line_alone(value: str, tmp_path: Path) -> None:
    """All names of the log used to be searched for in every line: hours for 14 MB."""
    lines = "".join(f'{{"_step": 1, "name{number}": {value}}}\n' for number in range(40_000))
    began = time.process_time()
    if value == "null":
        assert read(tmp_path, lines)[0].run.curves == {}
    else:
        with pytest.raises(UserError, match="more than 10000 different names"):
            read(tmp_path, lines)
    assert time.process_time() - began < 5


def test_a_column_that_appears_twice_among_many_is_found_at_once(tmp_path: Path) -> None:
    header = ",".join(["_step", *(f"name{number}" for number in range(50_000)), "z", "z"])
    began = time.process_time()
    with pytest.raises(UserError, match="column 'z' appears twice"):
        read(tmp_path, f"{header}\n")
    assert time.process_time() - began < 5
