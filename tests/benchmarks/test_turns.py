"""What every turn and every record passes through, beside the plainest way to do it."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.run_folder import RunFolder, read_run
from tasks.prompts import read_prompt
from tasks.registry import load_task
from tasks.response import format_response, parse_response
from tests.benchmarks.conftest import Beside
from tests.support.submissions.small import PLAN

TASK = load_task("sokoban")
WELL_FORMED = re.compile(r"\s*<think>(.*?)</think>\s*<action>(.*?)</action>\s*", re.DOTALL)


def test_responses(beside: Beside) -> None:
    thought = "The box is at r2c3 and the target at r4c3, so it must be pushed down twice. " * 4
    texts = [format_response(f"{number}: {thought}", "down") for number in range(2000)]

    def plain() -> list[str]:
        return [found[2].strip() for text in texts if (found := WELL_FORMED.fullmatch(text))]

    assert plain() == [parse_response(text).action for text in texts]
    beside(lambda: [parse_response(text) for text in texts], plain, "one regular expression")


def test_prompts(beside: Beside) -> None:
    prompt = read_prompt(Path(__file__).parents[2] / "tasks" / "sokoban")
    places = prompt.text.replace("{", "{{").replace("}", "}}").replace("{{{{ ", "{")
    places = places.replace(" }}}}", "}").rstrip("\n")
    values = {"turn": 3, "max_turns": 15, "observation": "######\n#_$@.#\n######"}
    assert prompt.template.render(**values) == places.format(**values)
    beside(
        lambda: [prompt.template.render(**values) for _ in range(1000)],
        lambda: [places.format(**values) for _ in range(10_000)],
        "str.format, 10 x",
    )


@pytest.mark.slow
def test_records_are_appended(beside: Beside, expert_run: Path, tmp_path: Path) -> None:
    manifest, records = read_run(expert_run)
    records = records[:64]
    fields = [record.model_dump(mode="json") for record in records]

    async def keep(folder: RunFolder) -> None:
        for record in records:
            await folder.append(record)

    def plain() -> None:
        for one in fields:
            file.write(json.dumps(one).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    with (
        asyncio.Runner() as runner,
        RunFolder(tmp_path / "run", manifest, PLAN.keys()) as folder,
        (tmp_path / "plain").open("wb") as file,
    ):
        beside(lambda: runner.run(keep(folder)), plain, "json.dumps, write and fsync")


def test_replays(beside: Beside, expert_run: Path) -> None:
    manifest, records = read_run(expert_run)
    records = records[::8]
    entries = {entry.id: entry for entry in TASK.panel("builtin").entries}

    def bare() -> None:
        for record in records:
            episode = TASK.episode(entries[record.episode], 15)
            episode.reset()
            for turn in record.turns:
                episode.step(turn.response)

    assert not any(replay.differences for replay in replay_run(manifest, records))
    beside(lambda: list(replay_run(manifest, records)), bare, "the world's steps")


@pytest.mark.parametrize("name", ["sokoban", "alfworld", "webshop", "tir_math"])
def test_panels_are_read(beside: Beside, name: str) -> None:
    task = load_task(name)
    path = Path(__file__).parents[2] / "tasks" / name / "panels" / "builtin.jsonl"
    assert len(task.panel("builtin").entries) == len(path.read_bytes().splitlines())
    beside(
        lambda: task.panel("builtin"),
        lambda: [json.loads(line) for line in path.read_bytes().splitlines()],
        "json.loads of the lines",
        15,
    )
