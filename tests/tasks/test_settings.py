"""A user's task settings: validated, part of the protocol, and passed to other processes."""

import pickle
from dataclasses import replace

import pytest

from benchmark.evaluation.evaluate import Plan
from benchmark.evaluation.protocol import PanelProtocol
from tasks.base import Setting, Task
from tasks.errors import UserError
from tasks.options import chosen_task, parse_settings
from tasks.registry import load_task
from tasks.sokoban.task import SokobanTask


class Choosy(SokobanTask):
    """Sokoban with two settings that have no effect."""

    info = replace(
        SokobanTask.info,
        name="choosy",
        settings={
            "mode": Setting("easy", "how hard it is", ("easy", "hard")),
            "words": Setting("plain", "any text"),
        },
    )


@pytest.fixture(autouse=True)
def _choosy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task `choosy` next to the real ones."""
    choosy = Choosy()

    def load(name: str) -> Task:
        return choosy if name == "choosy" else load_task(name)

    for module in (
        "tasks.options",
        "benchmark.evaluation.protocol",
        "benchmark.evaluation.evaluate",
    ):
        monkeypatch.setattr(f"{module}.load_task", load)


def test_the_standard_settings_are_the_defaults() -> None:
    task = chosen_task("choosy", ())
    assert task.settings() == {"mode": "easy", "words": "plain"}
    assert task.configured({}) is task
    assert task.configured(task.settings()) is task


def test_a_choice_changes_a_copy() -> None:
    task = chosen_task("choosy", ["choosy.mode=hard", "choosy.words=a=b"])
    assert task.settings() == {"mode": "hard", "words": "a=b"}
    assert task.configured({"words": "c"}).settings() == {"mode": "hard", "words": "c"}
    assert chosen_task("choosy", ()).settings()["mode"] == "easy"
    assert task.configured({"mode": "easy"}).settings() == {"mode": "easy", "words": "a=b"}


def test_a_choice_reaches_other_processes() -> None:
    task = chosen_task("choosy", ["choosy.mode=hard"])
    arrived = pickle.loads(pickle.dumps(task))
    assert arrived.settings() == task.settings()
    assert arrived is pickle.loads(pickle.dumps(task))
    assert pickle.loads(pickle.dumps(chosen_task("choosy", ()))).settings()["mode"] == "easy"


def test_a_choice_is_in_the_protocol() -> None:
    def protocol(options: list[str]) -> PanelProtocol:
        task = chosen_task("choosy", options)
        return PanelProtocol.of(task, task.panel("builtin"))

    standard, other = protocol([]), protocol(["choosy.mode=hard"])
    assert standard.overrides == {}
    assert other.overrides == {"choosy.mode": "hard"}
    assert standard.fingerprint != other.fingerprint


def test_a_plan_plays_what_was_chosen() -> None:
    panels = [("choosy", "builtin"), ("sokoban", "builtin")]
    plan = Plan.of(panels, settings={"choosy": {"mode": "hard"}})
    assert plan.overrides == {"choosy.mode": "hard"}
    assert plan.panels[0].task.settings()["mode"] == "hard"
    with pytest.raises(UserError, match="a setting for choosy, which this run"):
        Plan.of(panels[1:], settings={"choosy": {"mode": "hard"}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["choosy"], "--set must be TASK.NAME=VALUE, not 'choosy'"),
        (["choosy.mode"], "--set must be TASK.NAME=VALUE"),
        (["choosy.mode="], "--set must be TASK.NAME=VALUE"),
        (["mode=hard"], "--set must be TASK.NAME=VALUE"),
        (["choosy.mood=hard"], r"task choosy has no setting 'mood'; did you mean mode\?"),
        (["choosy.mode=odd"], "choosy.mode must be easy or hard, not 'odd'"),
        (["choosy.mode=hard", "choosy.mode=easy"], "--set is given twice for choosy.mode"),
        (["sokoban.mode=hard"], "task sokoban has no setting 'mode'; there are view"),
        (["nothing.mode=hard"], "unknown task 'nothing'"),
    ],
)
def test_a_wrong_option_is_named(options: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_settings(options)


def test_a_setting_of_another_task_is_refused() -> None:
    with pytest.raises(UserError, match="a setting for choosy, but the task is sokoban"):
        chosen_task("sokoban", ["choosy.mode=hard"])
