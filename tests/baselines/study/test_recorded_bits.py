"""This code reproduces training runs recorded with earlier code, bit for bit."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from baselines.study.cells import read_cell
from baselines.study.schema import Cell
from baselines.tracks.registry import RESULTS
from benchmark.commands_of_entry import first_difference
from benchmark.engines.core.devices import cpu_name, repeating
from benchmark.logs.training_log import LOG, read_training_log

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [
        Cell("sokoban-stress", "reinforce_pp", 0),
        Cell("tir_math-standard", "cispo", 2),
        Cell("sokoban-stress", "gspo", 5),
    ],
    ids=str,
)
def test_the_first_update_of_a_recorded_training_is_made_again(cell: Cell, tmp_path: Path) -> None:
    recorded = read_cell(RESULTS, cell)
    assert recorded is not None and recorded.log is not None
    there = recorded.log.start.engine["device_name"]
    processor, _, _ = there.rpartition(", ")
    if not cpu_name().startswith(f"{processor}, "):
        pytest.skip(f"bits depend on the processor; this one was {there}")
    words = ["--track", cell.track, "--recipe", cell.recipe, "--seed", str(cell.seed)]
    # Later updates do not change the first one.
    settings = ["--set", "optimization.updates=1", "--set", "validation.every=null"]
    subprocess.run(
        [sys.executable, "-m", "benchmark.cli", "train", *words, *settings, "--out", str(tmp_path)],
        cwd=ROOT,
        env=repeating(there),
        check=True,
        capture_output=True,
    )
    log = read_training_log(tmp_path / LOG)
    assert log.start.engine["device_name"] == there
    first = replace(recorded.log, updates=recorded.log.updates[:1], validations=())
    assert first_difference(first, log) is None
