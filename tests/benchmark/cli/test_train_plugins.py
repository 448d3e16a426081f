"""`train --plugin` and `reproduce --plugin`: the code of a user's own class is part of the run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from baselines.algorithms.advantage.base import Advantage
from baselines.algorithms.custom_learner import CustomLearner
from baselines.algorithms.plugins import load_plugins
from baselines.config.layers import resolve
from baselines.inits.registry import read_registry
from baselines.reproduction import train_command
from benchmark.cli.main import main
from benchmark.cli.training.run_folder import CONFIG_HEAD
from benchmark.exit_codes import EXIT_USER_ERROR
from benchmark.logs.training_log import LOG, TrainingLog, read_training_log
from tasks.errors import UserError
from tests.support.training.logs import start_line, update_line, write_log
from tests.support.training.plugins import EARLY_TURNS, LONGER, RANK, RECIPE, sha256_of
from tests.support.training.runs import SMALL


@pytest.fixture(autouse=True)
def _no_choice_is_left() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    Advantage.choices.pop("rank", None)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the plug-in and a recipe that names its class."""
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "ranked.yaml").write_text(RECIPE)
    return tmp_path


def train(place: Path, *more: str) -> int:
    sets = [word for own in (*SMALL, "optimization.updates=1") for word in ("--set", own)]
    command = ["train", "--recipe", str(place / "ranked.yaml"), "--init", "tiny-sokoban"]
    return main([*command, "--out", str(place / "run"), *sets, *more])


def refused(capsys: pytest.CaptureFixture[str], code: int) -> str:
    assert code == EXIT_USER_ERROR
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_a_run_names_its_code_and_is_not_resumed_with_another(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = ("--plugin", str(place / "rank.py"))
    assert train(place, *plugin) == 0
    start = json.loads((place / "run" / LOG).read_text().splitlines()[0])
    assert start["plugins"] == {"rank.py": sha256_of(RANK)}
    head = (place / "run" / "config.yaml").read_text()
    assert head.startswith(CONFIG_HEAD)
    assert f"# plug-in: rank.py, SHA-256 {sha256_of(RANK)}\n" in head
    # The same behavior with different code: no setting differs, but that cannot be verified.
    other = RANK + "\n"
    (place / "rank.py").write_text(other)
    line = refused(capsys, train(place, *plugin))
    assert line.endswith(
        "choose another --out (the code of plug-in rank.py differs: SHA-256 "
        f"{sha256_of(RANK)[:12]}..., now SHA-256 {sha256_of(other)[:12]}...)"
    )
    # The cause of a difference comes before the setting that it changes.
    (place / "rank.py").write_text(LONGER)
    line = refused(capsys, train(place, *plugin))
    assert f"now SHA-256 {sha256_of(LONGER)[:12]}...; advantage.scale none, now 1.0)" in line
    (place / "rank.py").write_text(RANK)
    assert train(place, *plugin) == 0


def test_a_shipped_recipe_on_a_track_takes_no_plugin(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--track", "sokoban-standard", "--recipe", "grpo", "--dry-run"]
    line = refused(capsys, main([*words, "--plugin", str(place / "rank.py")]))
    assert "--plugin cannot be used with --track and the shipped recipe grpo: " in line


VALUED = '''from typing import Literal

from torch import Tensor

from baselines.algorithms.advantage.base import RowBatch, WithCritic, padded


class Valued(WithCritic):
    """What a token's reward is above its value."""

    name: Literal["valued"] = "valued"

    def with_targets(self, rows: RowBatch) -> tuple[Tensor, Tensor]:
        return (rows.token_rewards - padded(rows.values)) * rows.mask, rows.token_rewards
'''


@pytest.mark.slow
def test_an_advantage_with_a_critic_gets_one(place: Path) -> None:
    (place / "valued.py").write_text(VALUED)
    recipe = RECIPE.replace("{name: rank}", "{name: valued, learning_rate: 1.0e-4}")
    (place / "ranked.yaml").write_text(recipe)
    try:
        assert train(place, "--plugin", str(place / "valued.py")) == 0
    finally:
        Advantage.choices.pop("valued", None)
    line = json.loads((place / "run" / LOG).read_text().splitlines()[1])
    assert line["critic/loss"] > 0


@pytest.mark.slow
def test_a_run_without_plugins_has_no_such_field(tmp_path: Path) -> None:
    (tmp_path / "ranked.yaml").write_text(RECIPE.replace("rank}", "grpo}"))
    assert train(tmp_path) == 0
    start = json.loads((tmp_path / "run" / LOG).read_text().splitlines()[0])
    assert "plugins" not in start
    assert "plug-in" not in (tmp_path / "run" / "config.yaml").read_text()


@pytest.fixture
def early(place: Path) -> Iterator[tuple[str, str]]:
    """A plug-in with a learner, which the recipe in the folder names."""
    (place / "early.py").write_text(EARLY_TURNS)
    (place / "ranked.yaml").write_text(
        RECIPE.replace("rank}", "grpo}") + "learner: {name: early_turns, turns: 1}\n"
    )
    yield "--plugin", str(place / "early.py")
    CustomLearner.choices.pop("early_turns", None)


def test_on_a_track_a_recipe_that_names_nothing_of_its_plugin_is_warned_of(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning before hours of training for an entry that would be rejected."""
    (place / "ranked.yaml").write_text(RECIPE.replace("rank}", "grpo}"))
    words = ["train", "--track", "sokoban-stress", "--recipe", str(place / "ranked.yaml")]
    words += ["--plugin", str(place / "rank.py"), "--out", str(place / "run"), "--dry-run"]
    main(words)
    said = "warning: ranked has the four choices of grpo, so entries of its runs are refused"
    assert said in capsys.readouterr().err
    (place / "ranked.yaml").write_text(RECIPE)
    main(words)
    assert "warning: ranked" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_custom_learner_is_part_of_a_run(place: Path, early: tuple[str, str]) -> None:
    assert train(place, *early) == 0
    start, update = map(json.loads, (place / "run" / LOG).read_text().splitlines()[:2])
    assert start["configuration"]["learner"] == {"name": "early_turns", "turns": 1}
    assert start["plugins"] == {"early.py": sha256_of(EARLY_TURNS)}
    assert update["policy/optimizer_steps"] > 0
    assert train(place, *early, "--out", str(place / "none"), "--set", "learner.turns=0") == 0
    update = json.loads((place / "none" / LOG).read_text().splitlines()[1])
    assert update["policy/optimizer_steps"] == 0
    log = read_training_log(place / "run" / LOG)
    command = train_command(log, "out", load_plugins(early[1:]))
    (recipe,) = command.files.values()
    assert "learner:\n  name: early_turns\n  turns: 1\n" in recipe


@pytest.mark.slow
def test_a_custom_learner_goes_with_a_track(
    place: Path, early: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--track", "sokoban-stress", "--recipe", str(place / "ranked.yaml"), *early]
    assert main([*words, "--dry-run"]) == 0
    (place / "early.py").write_text(EARLY_TURNS.replace("rows[row].turn <", "rows[row].turns <"))
    line = refused(capsys, main([*words, "--dry-run"]))
    assert (
        "the learner early_turns (EarlyTurns) raises AttributeError: 'Row' object has no attribute "
        f"'turns' ({place / 'early.py'}, line 15)" in line
    )


OWN_LEARN = EARLY_TURNS.replace(
    "    def plan(",
    """    def learn(self, rows: Sequence[Row], number: int) -> Learned:
        learned = super().learn(rows, number)
        return learned

    def plan(""",
).replace("import Learner", "import Learned, Learner")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("learned.plans", "(EarlyTurns) raises AttributeError: 'Learned' object has no attribute"),
        ("None", "learn() of the learner early_turns gives NoneType instead of Learned"),
        (
            "replace(learned, metrics={})",
            "learner early_turns lack policy/optimizer_steps, policy/skipped_steps",
        ),
        (
            "replace(learned, metrics=learned.metrics | {'own': 1.0})",
            "the learner gives the metric 'own', which logs do not have",
        ),
    ],
)
def test_a_mistake_in_a_learn_of_ones_own_is_one_line(
    place: Path,
    early: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    returned: str,
    message: str,
) -> None:
    code = OWN_LEARN.replace("return learned", f"return {returned}")
    (place / "early.py").write_text(f"from dataclasses import replace\n{code}")
    line = refused(capsys, train(place, *early))
    assert message in line
    if "raises" in message:
        number = 1 + next(n for n, each in enumerate(code.splitlines(), 1) if returned in each)
        assert line.endswith(f"({place / 'early.py'}, line {number})")


def test_a_learner_without_its_class_is_refused(
    place: Path, early: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, train(place))
    assert "learner.name: there is no 'early_turns'; there are none" in line
    assert line.endswith("(your own class needs --plugin FILE.py)")
    (place / "early.py").write_text(EARLY_TURNS.replace("    learner = EarlyTurnsLearner\n", ""))
    line = refused(capsys, train(place, *early))
    assert "EarlyTurns lacks learner = CLASS, a subclass of Learner" in line


def test_a_learner_that_is_none_is_refused_when_it_is_loaded(place: Path) -> None:
    (place / "early.py").write_text(EARLY_TURNS.replace("Learner(Learner)", "Learner"))
    with pytest.raises(UserError) as caught:
        load_plugins([str(place / "early.py")])
    said = "EarlyTurns: EarlyTurnsLearner is not a subclass of Learner (baselines.learning.learner"
    assert said in str(caught.value)
    assert "early_turns" not in CustomLearner.choices


def log_of(place: Path, **changes: Any) -> TrainingLog:
    """A log of a run with the plug-in."""
    plugins = load_plugins([str(place / "rank.py")])
    config = resolve(str(place / "ranked.yaml"), "tiny", ["sokoban"]).model_dump(mode="json")
    init = {"name": "tiny-sokoban", "sha256": read_registry()["tiny-sokoban"].sha256}
    facts: dict[str, Any] = {
        "configuration": {**config, "tasks": {"sokoban": {}}},
        "init": {**init, "kind": "init", "revision": None},
        "plugins": {name: each.sha256 for name, each in plugins.items()},
    }
    start = start_line("ranked", 3, **facts | changes)
    return read_training_log(write_log(place / "log.jsonl", [start, update_line(1)]))


def test_a_run_is_repeated_with_its_own_code_alone(place: Path) -> None:
    log, path = log_of(place), str(place / "rank.py")
    words = train_command(log, "out", load_plugins([path])).words
    assert words[words.index("--plugin") + 1] == path
    Advantage.choices.pop("rank")
    with pytest.raises(UserError) as caught:
        train_command(log, "out")
    assert str(caught.value) == (
        f"training needs the code of its plug-ins, rank.py (SHA-256 {sha256_of(RANK)}): ask "
        "the authors for it, and name it with `reproduce --plugin`"
    )
    (place / "rank.py").write_text(LONGER)
    with pytest.raises(UserError, match=r"but the original rank\.py has .*: name the original"):
        train_command(log, "out", load_plugins([path]))
