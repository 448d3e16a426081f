"""Event files of PyTorch's writer and TensorFlow's protocol buffers, intact and damaged."""

import math
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from benchmark.logs.foreign.mapping import own_words
from benchmark.logs.foreign.rows import Reading
from benchmark.logs.foreign.tensorboard import PATTERN, is_event_file, read_tensorboard
from tasks.errors import UserError

pytest.importorskip("tensorboard", reason="TensorBoard is not installed")

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util


def event(tag: str, value: float, step: int) -> Event:
    return Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))


def tensor_event(tag: str, array: object, step: int) -> Event:
    value = Summary.Value(tag=tag, tensor=tensor_util.make_tensor_proto(array))
    return Event(step=step, summary=Summary(value=[value]))


def write(folder: Path, events: Iterable[Event], suffix: str = "") -> Path:
    writer = EventFileWriter(str(folder), filename_suffix=suffix)
    for one in events:
        writer.add_event(one)
    writer.close()
    (path,) = folder.glob(f"{PATTERN}{suffix}" if suffix else PATTERN)
    return path


def read(*paths: Path) -> Reading:
    (found,) = read_tensorboard(paths, own_words(["validation/success=eval/solved"]))
    return found


def test_what_a_resumed_run_makes_again_counts(tmp_path: Path) -> None:
    """Written by accelerate's tracker, with an invalid first step."""
    start = SessionLog(status=SessionLog.START)
    first = write(tmp_path, [event("policy/grad_norm", float(n), n) for n in range(1, 13)], ".1")
    again = [event("policy/grad_norm", 100.0 + n, n) for n in range(11, 14)]
    second = write(tmp_path, [Event(step=11, session_log=start), *again], ".2")
    found = read(first, second)
    curve = found.run.curves["policy/grad_norm"]
    assert curve.steps.tolist() == [*range(1, 14)]
    assert curve.values.tolist() == [*map(float, range(1, 11)), 111.0, 112.0, 113.0]
    assert "2 values were made again by a resumed run" in found.notes
    with pytest.raises(UserError, match="step 9 comes after step 10"):
        read(first, write(tmp_path, [Event(step=11, session_log=start), event("a", 0.0, 9)], ".3"))


def test_panels_of_several_tasks_are_told_apart(tmp_path: Path) -> None:
    tags = {f"validation/success/{panel}": value for panel, value in (("a.b", 0.5), ("c.d", 1.0))}
    found = read_tensorboard(
        [write(tmp_path, [event(tag, value, 0) for tag, value in tags.items()])], {}
    )
    curves = {name: points.values.tolist() for name, points in found[0].run.curves.items()}
    assert curves == {"validation/success@a.b": [0.5], "validation/success@c.d": [1.0]}


def test_numbers_of_any_kind(tmp_path: Path) -> None:
    events = [
        event("eval/solved", 0.25, 0),
        event("train/grad_norm", 2.0, 1),
        tensor_event("actor/entropy", np.float32(0.5), 1),
        tensor_event("text", "hello", 1),
        tensor_event("histogram", np.ones(3, np.float32), 1),
        event("train/grad_norm", math.nan, 2),
        event("eval/solved", 0.5, 2),
        event("tokens/response", 10.0, 2),
    ]
    found = read(write(tmp_path / "run-7", events))
    curves = {name: (c.steps.tolist(), c.values.tolist()) for name, c in found.run.curves.items()}
    assert curves["validation/success"] == ([0, 2], [0.25, 0.5])
    assert curves["policy/entropy"] == ([1], [0.5])
    assert curves["policy/grad_norm"][0] == [1, 2]
    assert math.isnan(curves["policy/grad_norm"][1][1])
    assert found.run.unknown == ("histogram", "text")
    assert (found.run.name, found.run.source) == ("run-7", "tensorboard")
    assert found.run.tokens is None  # nothing is known of step 1
    assert found.notes == ()


def test_a_number_with_the_bytes_of_two_is_none(tmp_path: Path) -> None:
    two = tensor_event("odd", np.float32(0.5), 1)
    two.summary.value[0].tensor.ClearField("float_val")
    two.summary.value[0].tensor.tensor_content = bytes(8)
    found = read(write(tmp_path, [event("eval/solved", 0.25, 0), two]))
    assert found.run.unknown == ("odd",)


def test_float32_is_no_percent(tmp_path: Path) -> None:
    path = write(tmp_path, [event("val/success_rate", 0.1, 0), event("val/success_rate", 1.0, 1)])
    values = read(path).run.curves["validation/success"].values
    assert values.tolist() == pytest.approx([0.1, 1.0], abs=1e-8)


def test_two_sessions_make_one_run(tmp_path: Path) -> None:
    first = write(tmp_path, [event("train/kl", 0.1, 1)], ".a")
    second = write(tmp_path, [event("train/kl", 0.2, 2)], ".b")
    assert read(first, second).run.curves["kl_init/mean"].steps.tolist() == [1, 2]
    with pytest.raises(UserError, match=r"record 2 of .*\.a: step 1 comes after step 2"):
        read(second, first)


def test_a_record_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path, [event("train/kl", 0.1, 1), event("train/kl", 0.2, 2)])
    path.write_bytes(path.read_bytes()[:-3])
    found = read(path)
    assert found.run.curves["kl_init/mean"].steps.tolist() == [1]
    assert found.notes == (f"the last record of {path.name} is incomplete and was skipped",)


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, [event("train/kl", 0.1, 1), event("train/kl", 0.2, 2)])
    content = bytearray(path.read_bytes())
    place = content.index(b"train/kl")
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="record 2 of 3: is corrupt"):
        read(path)


def test_a_length_that_is_not_there_makes_no_room(tmp_path: Path) -> None:
    path = write(tmp_path, [event("train/kl", 0.1, 1)])
    whole = path.read_bytes()
    path.write_bytes(whole + struct.pack("<Q", 10 * 2**30) + bytes(20))
    found = read(path)
    assert found.run.curves["kl_init/mean"].steps.tolist() == [1]
    assert "is incomplete" in found.notes[0]
    path.write_bytes(struct.pack("<Q", 2**63) + whole[8:])
    assert "is incomplete" in read(path).notes[0]


def test_other_faults_are_named(tmp_path: Path) -> None:
    other = tmp_path / "log"
    other.write_text("step:1 - a:1\n")
    with pytest.raises(UserError, match="is not a TensorBoard event file"):
        read(other)
    percent = write(tmp_path / "percent", [event("val/success_rate", 50.0, 0)])
    with pytest.raises(UserError, match="not in percent"):
        read(percent)
    negative = write(tmp_path / "negative", [event("train/kl", 0.1, -1)])
    with pytest.raises(UserError, match="record 2: the step is -1"):
        read(negative)
    twice = Summary(value=[Summary.Value(tag="a", simple_value=1.0)] * 2)
    with pytest.raises(UserError, match="record 2: a name appears twice"):
        read(write(tmp_path / "twice", [Event(step=1, summary=twice)]))


def test_event_files_say_what_they_are(tmp_path: Path) -> None:
    assert is_event_file(write(tmp_path, []).read_bytes())
    assert not is_event_file(b'{"brain.Event:": 1}')
    assert not is_event_file(b"")
