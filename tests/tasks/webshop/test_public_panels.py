"""Panels of public data: the goals are the pinned ones; otherwise there is a message."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import UserError
from tasks.panels import PanelEntry, read_panel
from tasks.registry import load_task
from tasks.webshop.data.catalogues import DATA_VARIABLE
from tasks.webshop.panel_goals import PANELS, goal_of, open_panel
from tests.tasks.webshop.test_files import ITEM

NAMES = ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json")
PRODUCTS = 5800
WISH = {
    "instruction": "i want a mug.",
    "instruction_attributes": ["dishwasher safe"],
    "instruction_options": ["blue"],
}


def asins() -> list[str]:
    """Ids of a stand-in for the full set, including the pinned ones of the small set."""
    small = [
        entry.data["asin"]
        for name in ("small_1000", "small_1000_train")
        for entry in read_panel("webshop", PANELS, name).entries
    ]
    return list(dict.fromkeys([*small, *(f"B9{number:08d}" for number in range(PRODUCTS))]))[
        :PRODUCTS
    ]


def write(folder: Path, numbers: list[str]) -> None:
    """The full set's three files, with a product and a wish for each id."""
    contents: tuple[Any, ...] = (
        [ITEM | {"asin": asin, "name": f"Tin Mug {asin}"} for asin in numbers],
        {asin: {"attributes": ["dishwasher safe"]} for asin in numbers},
        {asin: [WISH] for asin in numbers},
    )
    for name, content in zip(NAMES, contents, strict=True):
        (folder / name).write_text(json.dumps(content), "utf-8")


@pytest.fixture(scope="module")
def _full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("full")
    write(folder, asins())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_VARIABLE, str(folder))
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_full")
def test_the_full_panels_are_computed_from_the_files() -> None:
    test, train = (open_panel("webshop", name) for name in ("full", "full_train"))
    assert (len(test.entries), len(train.entries)) == (500, 5000)
    assert test.info.sha256 != train.info.sha256
    assert len(test.info.sha256) == 64
    assert open_panel("webshop", "full").info.sha256 == test.info.sha256
    goal = goal_of(test.entries[0])
    assert goal.instruction.startswith("i want a mug, and price lower than ")
    assert goal.options == ("blue",)


@pytest.mark.slow
@pytest.mark.usefixtures("_full")
def test_no_panel_trains_on_what_another_one_tests() -> None:
    def asked(name: str) -> set[str]:
        opened = name.startswith("full")
        panel = open_panel("webshop", name) if opened else read_panel("webshop", PANELS, name)
        return {entry.data["asin"] for entry in panel.entries}

    tested = asked("full") | asked("small_1000")
    trained = asked("full_train") | asked("small_1000_train")
    assert not tested & trained
    # The stand-in contains all products of the small set, so that the test can fail.
    assert asked("small_1000") <= set(asins())


@pytest.mark.slow
@pytest.mark.usefixtures("_full")
def test_an_episode_of_the_full_set() -> None:
    task = load_task("webshop")
    entry = task.panel("full").entries[0]
    episode = task.episode(entry, 15)
    episode.reset()
    while True:
        step = episode.step(task.expert_response(episode))
        if step.outcome is not None:
            break
    assert step.outcome.success


@pytest.mark.slow
@pytest.mark.usefixtures("_full")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, "differs from the pinned one"),
        ({"asin": "B999999999"}, "full has no such goal for B999999999"),
        ({"people": 1}, "full has no such goal"),
    ],
)
def test_another_goal_is_refused(changes: dict[str, Any], message: str) -> None:
    entry = open_panel("webshop", "full").entries[0]
    other: PanelEntry = replace(entry, data={**entry.data, **changes})
    with pytest.raises(UserError, match=message):
        goal_of(other)


def test_a_part_of_the_full_set_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, asins()[:450])
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(
        UserError, match="goals written by people for 450 products, .* they are not the full set"
    ):
        open_panel("webshop", "full")


def test_other_products_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, asins()[:1000])
    for name in NAMES:
        small = name.replace(".json", "_1000.json") if "human" not in name else name
        (tmp_path / name).rename(tmp_path / small)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=r"these 1000 products differ from.*put items_shuffle_1"):
        open_panel("webshop", "small_1000")
