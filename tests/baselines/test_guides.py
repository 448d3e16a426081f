"""The examples in user guides run as shown, and their table matches the code."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import baselines
from baselines.algorithms.advantage.base import Advantage, RowBatch
from baselines.algorithms.advantage.gigpo import GiGPO
from baselines.algorithms.clipping.base import Clipping, TokenBatch
from baselines.algorithms.clipping.cispo import CISPO
from baselines.algorithms.clipping.gspo import GSPO
from baselines.algorithms.custom_learner import CustomLearner
from baselines.algorithms.part import ENTRY_POINTS, load_entry_points
from baselines.algorithms.plugins import load_plugin
from baselines.config.layers import resolve
from baselines.reproduction import logged_configuration
from baselines.tracks.registry import load_track
from benchmark.cli.from_baselines import method_fault, train_command
from benchmark.cli.main import main
from benchmark.logs.lines import Start
from benchmark.logs.metrics import METRICS, VALIDATION_METRICS
from benchmark.logs.training_log import LOG, TrainingLog, read_training_log
from tasks.errors import UserError
from tests.support.training.logs import start_line

FOLDER = Path(baselines.__file__).parent
RECIPES = (FOLDER / "recipes" / "README.md").read_text("utf-8")
LOGS = (FOLDER / "training_log.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """Fenced blocks of the guide to recipes, without their indentation in lists."""
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
    with Path(recipe).open("a", encoding="utf-8") as more:
        more.write("kl: {coef: 0.02}\n")
    assert "`kl: {coef: 0.02}`" in RECIPES
    config = resolve(recipe, "tiny", ["sokoban"])
    assert config.kl.coef == 0.02, "the recipe is laid over the scale"
    assert config.optimization.mini_batches == 4
    config = resolve("gspo", scale, ["webshop"])
    assert config.clipping == GSPO(name="gspo", clip_low=0.03, clip_high=0.04)
    assert (config.rollout.groups, config.rollout.max_turns) == (8, 10)
    assert (config.optimization.learning_rate, config.optimization.mini_batches) == (1e-4, 2)
    assert resolve("gspo", scale, ["sokoban"]).clipping == GSPO(name="gspo")


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Path]:
    """The guide's advantage as a plug-in, with its recipe."""
    code, clipping, _ = blocks("python")
    for file, content in (("rank.py", code), ("spo.py", clipping)):
        assert len(content.splitlines()) <= 25
        (tmp_path / file).write_text(content)
    (tmp_path / "spo.yaml").write_text(
        "advantage: {name: grpo}\nclipping: {name: spo, clip: 0.1}\naggregation: token-mean\n"
    )
    recipe = "advantage: {name: rank}\nclipping: {name: ppo}\naggregation: token-mean\n"
    assert re.sub("^", "   ", recipe, flags=re.MULTILINE).rstrip(" ") in RECIPES
    (tmp_path / "ranked.yaml").write_text(recipe)
    yield tmp_path
    Advantage.choices.pop("rank", None)
    Clipping.choices.pop("spo", None)


def test_the_advantage_of_the_guide_is_a_plugin(rank: Path) -> None:
    load_plugin(str(rank / "rank.py"))
    chosen = resolve(str(rank / "ranked.yaml"), "tiny", ["sokoban"]).advantage
    scores = torch.tensor([0.0, 2, 4, 3, 1], dtype=torch.float64)
    groups, trajectories = torch.tensor([2, 2, 7, 7, 7]), torch.tensor([0, 1, 2, 2, 3])
    assert chosen.of(rows_of(scores, groups, trajectories)).tolist() == [-1, 1, 1, 1, -1]
    # One of two others is worse and one is equal; the last is alone in its group.
    scores, groups = torch.tensor([1.0, 1, 0, 5]), torch.tensor([0, 0, 0, 1])
    found = chosen.of(rows_of(scores, groups, torch.arange(4)))
    assert found.tolist() == [0.5, 0.5, -1, 0]


def test_the_clipping_rule_of_the_guide_is_a_plugin(rank: Path) -> None:
    load_plugin(str(rank / "spo.py"))
    rule = resolve(str(rank / "spo.yaml"), "tiny", ["sokoban"]).clipping
    # At its limit, 1 + clip if A > 0 and 1 - clip if A < 0, a ratio has no gradient.
    ratios = torch.tensor([[1.0, 1.1, 0.9], [1.2, 0.9, 1.0]], dtype=torch.float64)
    log_probs = ratios.log().requires_grad_()
    advantages = torch.tensor([[2.0, 2, 2], [-1, -1, 5]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    zeros = torch.zeros_like(ratios)
    found = rule.losses(TokenBatch.of(log_probs, zeros, advantages, mask))
    expected = torch.tensor([[-2.0, -2.1, -1.7], [1.4, 0.95, 0]], dtype=torch.float64)
    torch.testing.assert_close(found.losses.detach(), expected)
    (gradient,) = torch.autograd.grad(found.losses.sum(), log_probs)
    # dL/dw = |A| (w - 1) / clip - A, times dw/dl = w.
    slopes = torch.tensor([[-2.0, 0, -3.6], [3.6, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(gradient, slopes, atol=1e-12, rtol=1e-12)
    assert found.clipped_low.sum() == found.clipped_high.sum() == 0


def test_a_package_brings_a_rule_by_its_entry_point(
    rank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rank / "spo.py").rename(rank / "installed_spo.py")
    about = rank / "a_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: a-package\nVersion: 1.0\n")
    names = about / "entry_points.txt"
    names.write_text(f"[{ENTRY_POINTS}]\nspo = installed_spo\n")
    load_entry_points()  # before it was installed
    monkeypatch.syspath_prepend(rank)
    recipe = str(rank / "spo.yaml")
    with pytest.raises(UserError, match="there is no 'spo'"):
        resolve(recipe, "tiny", ["sokoban"])
    # Installed plug-ins are looked up once per process.
    load_entry_points.cache_clear()
    # Only if something is named that is not known, and never to judge someone else's log.
    grpo = resolve("grpo", "tiny", ["sokoban"]).model_dump(mode="json")
    line = start_line("spo", configuration=grpo | {"clipping": {"name": "spo", "clip": 0.2}})
    start = Start.model_validate(line)
    assert method_fault(load_track("sokoban-stress"), start) == (
        "its recipe spo has the clipping spo, which is not shipped, and the log has no hash of its "
        "code (for a class of your own: `train --plugin`, also where an installed package brings "
        "it)"
    )
    with pytest.raises(UserError, match="there is no spo"):
        train_command(TrainingLog(rank / LOG, start, (), ()), "out")
    assert "installed_spo" not in sys.modules
    # The log of a run with it is read as well.
    logged = logged_configuration(start)[0]
    assert logged.clipping.model_dump()["clip"] == 0.2
    assert resolve(recipe, "tiny", ["sokoban"]).clipping.model_dump()["clip"] == 0.1
    names.write_text(f"[{ENTRY_POINTS}]\nother = not_there_at_all\n")
    load_entry_points.cache_clear()
    Clipping.choices.pop("spo")
    with pytest.raises(UserError, match=r"a-package: its entry point other = not_there_at_all"):
        resolve(recipe, "tiny", ["sokoban"])
    resolve("grpo", "tiny", ["sokoban"])  # needs nothing of the package
    names.unlink()
    load_entry_points.cache_clear()


@pytest.mark.slow
def test_the_command_of_the_guide_trains(rank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (rank / "both.yaml").write_text(
        "advantage: {name: rank}\nclipping: {name: spo}\naggregation: token-mean\n"
    )
    words = f"train --plugin {rank}/rank.py --plugin {rank}/spo.py --recipe {rank}/both.yaml "
    words += "--init tiny-sokoban"
    small = ["rollout.groups=2", "rollout.group_size=2", "optimization.updates=1"]
    small += ["rollout.max_turns=3", "validation.every=null"]
    options = [word for setting in small for word in ("--set", setting)]
    assert main([*words.split(), *options, "--out", str(rank / "run")]) == 0
    log = read_training_log(rank / "run" / LOG)
    assert log.start.configuration["advantage"] == {"task_normalized": False, "name": "rank"}
    assert log.start.configuration["clipping"]["name"] == "spo"
    capsys.readouterr()


def rows_of(scores: Tensor, groups: Tensor, trajectories: Tensor) -> RowBatch:
    """Rows with only these fields known."""
    nothing = torch.zeros_like(scores)
    none: list[Tensor | None] = [None] * len(scores)
    turns, mask = torch.zeros_like(groups), torch.ones(len(scores), 1)
    anchors = [""] * len(scores)
    return RowBatch(
        scores, groups, trajectories, turns, nothing, nothing, anchors, mask, 0 * mask, none, none
    )


@pytest.mark.slow
def test_the_learner_of_the_guide_trains_on_solved_episodes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, code = blocks("python")
    recipe = RECIPES.partition("The recipe, `solved.yaml`,")[2].split("```\n")[1]
    (tmp_path / "solved.py").write_text(code, "utf-8")
    (tmp_path / "solved.yaml").write_text(recipe, "utf-8")
    (command,) = re.findall("^arlarena-bench (train --plugin solved.py .*)$", RECIPES, re.MULTILINE)
    small = ["rollout.groups=4", "optimization.updates=2", "validation.every=null"]
    options = [word for setting in small for word in ("--set", setting)]
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), *options, "--out", "run"]) == 0
    CustomLearner.choices.pop("solved_only")
    log = read_training_log(tmp_path / "run" / LOG)
    assert log.start.configuration["learner"] == {"name": "solved_only", "turns": 20}
    for line in log.updates:
        assert 0 < line.values["rollout/success"] < 1
        assert 0 < line.values["tokens/trained"] < line.values["tokens/response"]
        assert line.values["policy/optimizer_steps"] == 4


def test_the_table_of_numbers_is_that_of_the_code() -> None:
    table = ["| number | unit | what it says |", "| --- | --- | --- |"]
    for name, metric in {**METRICS, **VALIDATION_METRICS}.items():
        table.append(f"| `{name}` | {metric.unit} | {metric.text} |")
    # If this fails, replace the table with the expected lines.
    assert LOGS.partition("## All numbers")[2].strip().splitlines()[-len(table) :] == table


def test_the_guide_to_logs_names_no_number_that_there_is_not() -> None:
    groups = {name.partition("/")[0] + "/" for name in METRICS}
    known = {*METRICS, *VALIDATION_METRICS, *groups, "validation/NAME"}
    written = re.findall(r"`([a-z_]+/[a-zA-Z_0-9]*)`", LOGS)
    assert len(written) > len(METRICS)
    assert set(written) <= known
