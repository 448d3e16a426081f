"""What is computed of runs: stability of training logs, and the board."""

import json
from pathlib import Path

import pytest

from benchmark.evaluation.run_folder import read_run
from benchmark.logs.curves import run_curves_of
from benchmark.logs.training_log import read_training_log
from benchmark.stability.runs import run_stability
from benchmark.stability.seeds import recipe_stability
from leaderboard.board.build import build
from leaderboard.board.file import json_bytes, parquet_bytes
from tasks.registry import load_task
from tests.benchmarks.conftest import Beside
from tests.support.board_rows import synthetic_content
from tests.support.submissions.small import INITS
from tests.support.training.logs import run_lines, write_log

SEEDS = 5


def logs(folder: Path) -> list[Path]:
    return [
        write_log(folder / f"{seed}.jsonl", run_lines(seed=seed, updates=50))
        for seed in range(SEEDS)
    ]


def test_training_logs_are_read(beside: Beside, tmp_path: Path) -> None:
    """With every check of the schema, into curves."""
    paths = logs(tmp_path)

    def plain() -> None:
        for path in paths:
            for line in path.read_bytes().splitlines():
                json.loads(line)

    beside(
        lambda: [run_curves_of(read_training_log(path)) for path in paths],
        plain,
        "json.loads of the lines",
        15,
    )


def test_stability_metrics(beside: Beside, tmp_path: Path) -> None:
    """The numbers of five runs and of their recipe, with its intervals."""
    paths = logs(tmp_path)
    runs = [run_curves_of(read_training_log(path)) for path in paths]
    lines = [line for path in paths for line in path.read_bytes().splitlines()]

    def numbers() -> None:
        assert all(run_stability(run).numbers for run in runs)
        recipe_stability(runs)

    beside(numbers, lambda: [json.loads(line) for line in lines], "json.loads of the logs", 15)


@pytest.mark.slow
def test_the_board_is_built(
    beside: Beside, submissions: Path, expert_run: Path, random_run: Path
) -> None:
    """All checks of two submissions, 768 episodes, and their rows."""
    task = load_task("sokoban")
    entries = {entry.id: entry for entry in task.panel("builtin").entries}
    _, expert = read_run(expert_run)
    _, at_random = read_run(random_run)
    # Two seeds of a checkpoint that is now the one, now the other.
    records = [*expert, *expert[::2], *at_random[::2], *expert[::2], *at_random[::2]]

    def bare() -> None:
        for record in records:
            episode = task.episode(entries[record.episode], 15)
            episode.reset()
            for turn in record.turns:
                episode.step(turn.response)

    def ours() -> None:
        assert build(submissions, INITS, env_processes=1).refused == ()

    beside(ours, bare, "the world's steps", 5)


def test_the_board_is_written(beside: Beside) -> None:
    content = synthetic_content(12, 24)
    plain = json.loads(json_bytes(content))
    beside(lambda: parquet_bytes(content), lambda: json.dumps(plain), "json.dumps of the board", 10)
