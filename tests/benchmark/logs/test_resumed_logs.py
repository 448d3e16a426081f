"""Logs of resumed runs: what a checkpoint keeps, and what another session adds."""

import json
from pathlib import Path

import pytest

from benchmark.logs.training_log import (
    LOG,
    TrainingLogWriter,
    read_training_log,
    truncate_after,
)
from tasks.errors import UserError
from tests.support.training.logs import (
    resume_line,
    run_lines,
    start_line,
    update_line,
    validation_line,
    write_log,
)


def test_a_resumed_run_appends_and_keeps_the_order(tmp_path: Path) -> None:
    path = tmp_path / LOG
    with TrainingLogWriter(path) as writer:
        writer.append(start_line())
        writer.append(update_line(1))
    with TrainingLogWriter(path) as writer:
        assert writer.log is not None and writer.log.start.recipe == "grpo"
        with pytest.raises(ValueError, match="only the first line of a log"):
            writer.append(start_line())
        with pytest.raises(ValueError, match="update 1 comes after update 1"):
            writer.append(update_line(1))
        writer.append(update_line(2))
    assert [line["kind"] for line in map(json.loads, path.open())] == ["start", "update", "update"]


def test_a_session_with_another_device_leaves_a_line(tmp_path: Path) -> None:
    path = tmp_path / LOG
    engine, versions = {"kind": "transformers", "device_name": "B"}, {"torch": "2.11"}
    lines = [start_line(), update_line(1), update_line(2), resume_line(2, engine, versions)]
    lines += [validation_line(2), update_line(3), resume_line(3), update_line(4)]
    with TrainingLogWriter(path) as writer:
        with pytest.raises(ValueError, match="only the first line of a log"):
            writer.append(resume_line(0))
        for line in lines:
            writer.append(line)
        for other in (3, 5):
            with pytest.raises(ValueError, match=f"update: {other} resumes after update 4"):
                writer.append(resume_line(other))
        writer.append(resume_line(4))
    log = read_training_log(path)
    assert [line.update for line in log.resumes] == [2, 3, 4]
    assert log.resumes[0].engine == engine and log.resumes[0].versions == versions
    assert [len(log.updates), len(log.validations)] == [4, 1]
    # The session without any update is not included.
    assert log.sessions == {1: log.start, 3: log.resumes[0], 4: log.resumes[1]}
    # A checkpoint keeps the sessions of which it keeps any lines.
    for update, validated, cut, kept in ((4, 2, 1, [2, 3]), (3, 2, 2, [2]), (2, 2, 1, [2])):
        assert truncate_after(path, update, validated) == cut
        assert [line.update for line in read_training_log(path).resumes] == kept
    assert read_training_log(path).sessions == {1: log.start}
    assert truncate_after(path, 2, 1) == 2
    assert [line["kind"] for line in map(json.loads, path.open())] == ["start", "update", "update"]


def test_truncate_after_keeps_every_byte_before_the_checkpoint(tmp_path: Path) -> None:
    lines = run_lines(updates=10)
    path = write_log(tmp_path, lines)
    content = path.read_bytes().splitlines(keepends=True)
    # Start, the init's validation, then an update and a validation each.
    assert truncate_after(path, 10, 10) == 0
    assert truncate_after(path, 6, 6) == 8
    assert path.read_bytes() == b"".join(content[:14])
    assert read_training_log(path).validations[-1].update == 6
    # The checkpoint was written before its update's validation, which a killed session played.
    assert truncate_after(path, 6, 5) == 1
    assert path.read_bytes() == b"".join(content[:13])
    assert truncate_after(path, 0, 0) == 11
    assert path.read_bytes() == b"".join(content[:2])
    assert truncate_after(path, 0, -1) == 1
    assert path.read_bytes() == content[0]


def test_a_log_that_lacks_the_checkpoint_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path, [start_line(), update_line(1), update_line(2)])
    with pytest.raises(UserError, match=r"no line of update 5, .* \(its last is 2\)"):
        truncate_after(path, 5, 5)
    assert len(read_training_log(path).updates) == 2


def test_a_log_that_was_killed_in_its_first_line_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(b'{"kind": "start", "schema')
    assert truncate_after(path, 0, 0) == 1
    with TrainingLogWriter(path) as writer:
        writer.append(start_line())
    assert read_training_log(path).updates == ()
