"""What the guides for users show runs as it stands there, and their table is that of the code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

import baselines
from baselines.algorithms import advantages
from baselines.config.layers import resolve
from baselines.config.schema import CISPO, GSPO, GiGPO
from benchmark.logs.metrics import METRICS, VALIDATION_METRICS
from benchmark.logs.training_log import LOG, read_training_log

FOLDER = Path(baselines.__file__).parent
RECIPES = (FOLDER / "recipes" / "README.md").read_text("utf-8")
LOGS = (FOLDER / "training_log.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """Fenced blocks of the guide to recipes, without the indentation that a list gives them."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", RECIPES, re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def test_the_recipe_and_the_scale_of_the_guide_are_taken_as_it_says(tmp_path: Path) -> None:
    files = []
    for name, content in zip(("cispo_gigpo", "laptop"), blocks("yaml"), strict=True):
        assert f"`{name}.yaml`:" in RECIPES
        files.append(str(tmp_path / f"{name}.yaml"))
        Path(files[-1]).write_text(content, "utf-8")
    recipe, scale = files
    config = resolve(recipe, "tiny", ["sokoban"])
    assert isinstance(config.advantage, GiGPO) and config.advantage.gamma == 0.9
    assert isinstance(config.clipping, CISPO) and config.clipping.sequence_mask is not None
    assert config.clipping.sequence_mask.delta == 0.01
    assert config.kl.coef == 0.02, "the recipe is laid over the scale"
    assert config.optimization.mini_batches == 4
    config = resolve("gspo", scale, ["webshop"])
    assert config.clipping == GSPO(name="gspo", clip_low=0.03, clip_high=0.04)
    assert (config.rollout.groups, config.rollout.max_turns) == (8, 10)
    assert (config.optimization.learning_rate, config.optimization.mini_batches) == (1e-4, 2)
    assert resolve("gspo", scale, ["sokoban"]).clipping == GSPO(name="gspo")


def test_the_advantage_of_the_guide_gives_what_the_guide_says() -> None:
    function, _ = blocks("python")
    names = dict(vars(advantages))
    exec(function, names)
    scores = torch.tensor([0.0, 2, 4, 3, 1])
    groups, trajectories = torch.tensor([2, 2, 7, 7, 7]), torch.tensor([0, 1, 2, 2, 3])
    assert names["rank"](scores, groups, trajectories).tolist() == [-1, 1, 1, 1, -1]
    assert "spread(doubles(-1, 1, 1, 1, -1))" in RECIPES
    # One of two others is worse and one is equal; alone in a group.
    scores, groups = torch.tensor([1.0, 1, 0, 5]), torch.tensor([0, 0, 0, 1])
    assert names["rank"](scores, groups, torch.arange(4)).tolist() == [0.5, 0.5, -1, 0]


def test_the_learner_of_the_guide_trains_on_solved_episodes_alone(tmp_path: Path) -> None:
    _, program = blocks("python")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(FOLDER.parent)}
    made = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr.decode()
    log = read_training_log(tmp_path / "runs" / "solved-only" / LOG)
    assert (log.start.recipe, len(log.updates)) == ("solved_only", 2)
    for line in log.updates:
        assert 0 < line.values["rollout/success"] < 1
        assert 0 < line.values["tokens/trained"] < line.values["tokens/response"]
        assert line.values["policy/optimizer_steps"] == 4


def test_the_table_of_numbers_is_that_of_the_code() -> None:
    table = ["| number | unit | what it says |", "| --- | --- | --- |"]
    for name, metric in {**METRICS, **VALIDATION_METRICS}.items():
        table.append(f"| `{name}` | {metric.unit} | {metric.text} |")
    # If this fails, put the expected lines in the place of the table.
    assert LOGS.partition("## All numbers")[2].strip().splitlines()[-len(table) :] == table


def test_the_guide_to_logs_names_no_number_that_there_is_not() -> None:
    groups = {name.partition("/")[0] + "/" for name in METRICS}
    known = {*METRICS, *VALIDATION_METRICS, *groups, "validation/NAME"}
    written = re.findall(r"`([a-z_]+/[a-zA-Z_0-9]*)`", LOGS)
    assert len(written) > len(METRICS)
    assert set(written) <= known
