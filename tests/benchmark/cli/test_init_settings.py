"""Inits made for a particular setting of their task use it unless another is given."""

from pathlib import Path

import pytest

from benchmark.cli.from_baselines import with_init_settings
from benchmark.cli.main import main
from benchmark.evaluation.run_folder import read_run

NAME = "tiny-sokoban-pixels"


def test_what_is_not_chosen_is_what_the_init_was_made_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert with_init_settings(NAME, {}, {"sokoban"}) == {"sokoban": {"view": "pixels"}}
    note = "note: tiny-sokoban-pixels was made for --set sokoban.view=pixels, which is used\n"
    assert capsys.readouterr().out == note
    chosen = {"sokoban": {"view": "text"}, "webshop": {"compat": "on"}}
    assert with_init_settings(NAME, chosen, {"sokoban", "webshop"}) == chosen
    assert with_init_settings(NAME, {}, {"webshop"}) == {}
    assert with_init_settings("tiny-sokoban", {}, {"sokoban"}) == {}
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_the_init_of_images_is_evaluated_on_images(tmp_path: Path) -> None:
    assert main(["eval", "--model", NAME, "--limit", "1", "--out", str(tmp_path)]) == 0
    manifest, _ = read_run(tmp_path)
    (panel,) = manifest.panels
    assert panel.settings == {"view": "pixels"}
    assert (panel.public_name, manifest.overrides) == ("pixels-1", {})
