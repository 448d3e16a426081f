"""The live view: sparklines by hand, the view in a terminal, plain lines elsewhere."""

import io
import math
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from baselines.training.terminal_view import LiveView, sparkline
from tests.support.training.logs import run_lines, start_line, update_line, validation_line


def console(terminal: bool, width: int = 100) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=terminal, width=width, color_system=None), file


def plain(
    total: int, *lines: dict[str, Any], earlier: tuple[dict[str, Any], ...] = ()
) -> list[str]:
    where, file = console(terminal=False)
    with LiveView(total, earlier, where) as view:
        for line in lines:
            view.phase("rollout", 1, 2)
            (view.update if line["kind"] == "update" else view.validation)(line)
    return file.getvalue().splitlines()


def test_sparkline_maps_the_range_to_eight_blocks() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([7.0, 0.0], 8) == "█▁"
    assert sparkline([0, 7], 8, ascii_only=True) == "_#"
    assert sparkline([], 8) == ""


def test_sparkline_of_shares_does_not_blow_up_noise() -> None:
    assert sparkline([0.0, 0.5, 1.0], 8, share=True) == "▁▅█"
    assert sparkline([0.99, 1.0], 8, share=True) == "██"


def test_sparkline_of_magnitudes_takes_logarithms() -> None:
    assert sparkline([1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0], 8, log_scale=True) == (
        "▁▂▃▄▅▆▇█"
    )
    assert sparkline([0.0, 1e-3, 1.0], 8, log_scale=True) == "▁▁█"


def test_sparkline_shows_gaps_and_takes_means_of_pieces() -> None:
    assert sparkline([0.0, None, 7.0], 8) == "▁ █"
    # Pieces (0, 2), (6, 8), (0, 14): means 1, 7, 7.
    assert sparkline([0, 2, 6, 8, 0, 14], 3) == "▁██"


@given(st.lists(st.none() | st.floats(0, 1e38), max_size=40), st.integers(1, 30), st.booleans())
def test_sparkline_fits_any_curve(values: list[float | None], width: int, log: bool) -> None:
    line = sparkline(values, width, log_scale=log)
    assert len(line) == min(len(values), width)
    assert set(line) <= set(" ▁▂▃▄▅▆▇█")


def test_elsewhere_every_update_is_one_line() -> None:
    values = {
        "rollout/success": 0.5,
        "rollout/return": -1.25,
        "kl_old/clipped_mean": 0.00123,
        "tokens/response": 9000,
        "seconds/total": 4.5,
        "engine/k3": None,
    }
    lines = plain(
        40,
        validation_line(0, solved=64),
        update_line(1, values, seconds_total=4.5),
        update_line(2, {"rollout/success": 0.25}, seconds_total=10.5, nonfinite=["policy/loss"]),
    )
    assert lines == [
        "validation after update 0, builtin: success 25.0% [20.1, 30.6], valid format 97.0%",
        "update 1 of 40, 0:02:56 left: success, rollout 50.0%; return -1.25; "
        "KL, old policy 0.00123; tokens/s 2,000",
        # 6 seconds from update 1 to 2, and 38 to go.
        "update 2 of 40, 0:03:48 left: success, rollout 25.0%; not finite: policy/loss",
    ]


def test_elsewhere_what_comes_before_the_first_update_is_said() -> None:
    where, file = console(terminal=False)
    with LiveView(2, console=where, title="sampo on sokoban: runs/x") as view:
        for name, total in (("validation", 256), ("rollout", 64), ("update", 0), ("rollout", 64)):
            view.phase(name, 0, total)
            view.phase(name, 1, total)
            if name == "update":
                view.line(update_line(1, {"rollout/success": 0.5}))
    assert file.getvalue().splitlines() == [
        "sampo on sokoban: runs/x",
        "validation of 256 episodes begins",
        "rollout of 64 episodes begins",
        "update 1 of 2: success, rollout 50.0%",
    ]


def test_numbers_that_say_nothing_are_left_out() -> None:
    usual = {
        "ratio/clipped_low": 0.0,
        "ratio/clipped_high": 0.001,
        "policy/masked_rows": 0.25,
        "policy/skipped_steps": 0,
        "rollout/uniform_groups": 0.0,
        "rollout/tries": 1,
        "staleness/max": 0,
    }
    unusual = {"policy/skipped_steps": 2, "rollout/tries": 3, "staleness/max": 1}
    assert plain(2, update_line(1, usual), update_line(2, unusual)) == [
        "update 1 of 2: clipped, high 0.1%; masked rows 25.0%; uniform groups 0.0%",
        "update 2 of 2: skipped steps 2; tries 3; staleness, max 1",
    ]
    where, file = console(terminal=True)
    with LiveView(2, console=where) as view:
        view.update(update_line(1, usual))
        view.update(update_line(2, usual | {"rollout/tries": 3}))
    shown = file.getvalue()
    assert "tries" in shown and "masked rows" in shown
    assert "clipped, low" not in shown and "staleness" not in shown


def test_the_last_update_has_no_time_left() -> None:
    assert plain(1, update_line(1, {"rollout/success": 1.0, "seconds/total": 3.0})) == [
        "update 1 of 1: success, rollout 100.0%"
    ]


def test_a_resumed_run_knows_its_pace() -> None:
    earlier = (start_line(), update_line(1), validation_line(1), update_line(2))
    assert plain(10, update_line(3, {"rollout/success": 0.5}), earlier=earlier) == [
        "resumed after update 2 of 10, 0:00:40 left",
        "update 3 of 10, 0:00:35 left: success, rollout 50.0%",
    ]


def test_on_a_terminal_the_view_has_all_curves() -> None:
    where, file = console(terminal=True)
    lines = run_lines(updates=20)
    with LiveView(25, console=where, title="sampo on sokoban: runs/x") as view:
        for line in lines[1:]:
            (view.update if line["kind"] == "update" else view.validation)(line)
        view.phase("rollout", 12, 64)
        where.print(view._view())
    text = file.getvalue()
    assert "sampo on sokoban: runs/x" in text
    assert "update 20 of 25, 0:00:25 left" in text and "rollout 12 of 64" in text
    for label in ("success, builtin", "success, rollout", "return", "valid format", "entropy"):
        (row,) = {line for line in text.splitlines() if line.startswith(label)}
        assert set(row) & set("▁▂▃▄▅▆▇█")
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(("fault", "word"), [(None, "done"), (KeyboardInterrupt, "stopped")])
def test_the_view_says_how_it_ended(fault: type[BaseException] | None, word: str) -> None:
    where, file = console(terminal=True)
    try:
        with LiveView(2, console=where) as view:
            view.update(update_line(1, {"rollout/success": 0.5}, nonfinite=["policy/loss"]))
            if fault:
                raise fault
    except KeyboardInterrupt:
        pass
    text = file.getvalue()
    assert word in text and "not finite: policy/loss" in text


def test_what_was_never_measured_has_no_row() -> None:
    where, file = console(terminal=True)
    with LiveView(2, console=where) as view:
        view.update(update_line(1, {"rollout/success": math.pi / 4, "engine/k3": None}))
    assert "78.5%" in file.getvalue() and "engine gap" not in file.getvalue()


UNREAD = """
from baselines.training.terminal_view import LiveView
from tests.support.training.logs import update_line

with LiveView(3, title="a run") as view:
    for number in (1, 2, 3):
        view.line(update_line(number))
print("the run goes on")
"""


def test_a_run_goes_on_when_nobody_reads_its_lines_any_more() -> None:
    """As when `tee` is ended with its terminal, and training under `nohup` is not."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", UNREAD], stdout=subprocess.PIPE, stderr=writing, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, b"the run goes on\n")


def test_a_run_ends_well_when_nobody_reads_either_output() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", UNREAD], stdout=writing, stderr=writing, check=False
    )
    os.close(writing)
    assert done.returncode == 0
