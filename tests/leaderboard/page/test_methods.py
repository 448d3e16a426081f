"""Compares explanations of methods with the recipes that this project ships."""

from dataclasses import replace

import pytest
import yaml

from baselines.config.layers import RECIPES
from leaderboard.page.header import header
from leaderboard.page.methods import METHODS, method, method_name, short_tracks
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.leaderboard.pages import text_of
from tests.support.board_rows import board_row

SHIPPED = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in RECIPES.glob("*.yaml")}


def test_every_shipped_recipe_is_explained() -> None:
    assert set(METHODS) == set(SHIPPED)


@pytest.mark.parametrize("recipe", sorted(METHODS))
def test_what_is_said_of_a_method_is_what_its_recipe_chooses(recipe: str) -> None:
    said, chosen = METHODS[recipe].text[0], SHIPPED[recipe]
    masked = "sequence_mask" in chosen["clipping"]
    assert ("sequence mask" in said) == masked
    assert ("dynamic sampling" in said) == ("dynamic" in chosen.get("sampling", {}))
    assert ("one clipped ratio" in said or "GSPO" in said) == (chosen["clipping"]["name"] == "gspo")
    assert ("GiGPO" in said or "Group-in-Group" in said) == (chosen["advantage"]["name"] == "gigpo")


def test_a_method_opens_its_explanation_and_a_foreign_one_is_a_text(boards: Boards) -> None:
    assert 'popovertarget="lb-word-method-dr_grpo"' in method("dr_grpo")
    assert method("<b>mine</b>") == "&lt;b&gt;mine&lt;/b&gt;"
    assert (method_name("grpo"), method_name("mine")) == ("GRPO", "mine")
    # Without a track, nothing has compared it with the shipped recipe.
    row = board_row("20260101_a", {SOKOBAN: [first(50)]}, recipe="grpo")
    assert method(row.method) == method_name(row.method) == "grpo, as declared"
    assert method_name(replace(row, track="sokoban-standard").method) == "GRPO"
    assert replace(row, kind="policy", recipe="expert").method == "expert"
    page = header(boards(row))
    assert 'id="lb-word-method-dr_grpo"' in page


def test_the_head_says_how_large_the_models_are(boards: Boards) -> None:
    rows = [
        board_row(f"2026010{day}_a{day}", {SOKOBAN: [first(20)]}, parameters=size)
        for day, size in ((1, 407_904), (2, 4_000_000_000))
    ]
    said = text_of(header(boards(*rows)))
    assert "2 trained entries (models of 408K to 4B parameters) and 0 references" in said
    assert "1 trained entry (models of 408K parameters)" in text_of(header(boards(rows[0])))


def test_tracks_of_one_task_are_told_apart_by_their_kind() -> None:
    assert short_tracks(["a-b-standard", "a-b-stress"]) == ["standard", "stress"]
    assert short_tracks(["a-standard", "b-standard"]) == ["a-standard", "b-standard"]
    assert short_tracks(["open", "open"]) == ["open", "open"]
    assert short_tracks(["a-standard", "all-standard"]) == ["standard", "all-standard"]
