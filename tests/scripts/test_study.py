"""What the tiny study writes: logs, table, curves and page, of invented runs."""

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmark.training_log import read_training_log
from scripts.study import AGGRESSIVE, RECIPES, STABLE, Run, final
from scripts.study_claims import verdicts
from scripts.study_page import write_results
from scripts.study_text import missing, page
from tasks.errors import UserError
from tests.study_runs import FALLEN, STEADY, aggressive, stable, study_of, tune, write_run


def test_nothing_at_all_makes_a_page_that_says_so(tmp_path: Path) -> None:
    write_results(RECIPES, [0, 1, 2], tmp_path / "runs", tmp_path / "results")
    text = (tmp_path / "results" / "README.md").read_text("utf-8")
    assert text.count("**Not decided**") == len(verdicts(study_of(tmp_path, "grpo")))
    assert "No run has been validated yet." in text
    assert text.count("No run of this setting is finished.") == 2
    assert "- Stable setting, sampo: seed 0 (not begun), seed 1 (not begun)" in text
    assert not list((tmp_path / "results").glob("*.svg"))
    check_markdown(text)


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One seed of three recipes, one of them not finished in the aggressive setting."""
    root = tmp_path_factory.mktemp("study") / "runs"
    for recipe in ("grpo", "sampo", "cispo"):
        stable(root, recipe, 192 if recipe == "sampo" else 150)
    aggressive(root, "grpo", STEADY)
    aggressive(root, "cispo", FALLEN)
    write_run(root, Run("aggressive", "sampo", 0, AGGRESSIVE), STEADY, 4)
    return root


@pytest.fixture(scope="module")
def written(partial: Path) -> Path:
    """What is written of it."""
    results = partial.parent / "results"
    write_results(("grpo", "sampo", "cispo"), [0], partial, results)
    return results


def test_a_study_is_written_whole(partial: Path, written: Path) -> None:
    begun = final(["grpo", "sampo", "cispo"], [0], partial)
    assert len(list(written.rglob("*.jsonl"))) == len(begun)
    for run in begun:
        copy = written / run.setting / f"{run.recipe}-s0.jsonl"
        assert copy.read_bytes() == (run.folder(partial) / "training_log.jsonl").read_bytes()
    for setting in ("stable", "aggressive"):
        ElementTree.fromstring((written / f"curves-{setting}.svg").read_bytes())
    text = (written / "README.md").read_text("utf-8")
    check_markdown(text)
    assert "The init solves 50.0 [43.9, 56.1] % of them." in text
    assert "| grpo | 40.0 | **60.0** | 50.0 | 0.0003 |" in text
    assert "| cispo | 9 | 6 | 0.0 |" in text
    assert "sampo: seed 0 (4 of 15 updates, success 50.0 % after update 3)" in text
    assert "make study ARGS='--recipes grpo,sampo,cispo --seeds 0'" in text


def test_the_same_logs_give_the_same_files(tmp_path: Path, partial: Path, written: Path) -> None:
    write_results(("grpo", "sampo", "cispo"), [0], partial, tmp_path)
    again = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert again == {path.relative_to(written): path.read_bytes() for path in written.rglob("*.*")}
    assert len(again) == 6 + 4  # logs, two figures, table, page


def test_the_table_has_a_row_for_every_run(written: Path) -> None:
    with (written / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["setting"] for row in rows] == ["stable"] * 3 + ["aggressive"] * 3 + ["tuning"] * 9
    sampo = rows[1]
    assert (sampo["recipe"], sampo["learning_rate"], sampo["finished"]) == (
        "sampo", "0.0003", "yes",
    )  # fmt: skip
    assert (sampo["success_init"], sampo["success_last"], sampo["gain"]) == ("0.5", "0.75", "0.25")
    (fallen,) = (row for row in rows if row["collapse_update"])
    assert (fallen["recipe"], fallen["collapse_update"], fallen["below_half_update"]) == (
        "cispo", "9", "6",
    )  # fmt: skip
    assert rows[4]["finished"] == "no"
    assert [row["tuning_success"] for row in rows[6:9]] == ["0.4", "0.6", "0.5"]


def test_a_smaller_study_leaves_nothing_of_a_larger_one(
    tmp_path: Path, partial: Path, written: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(written, results)
    (results / "aggressive" / "notes.txt").write_text("kept")
    write_results(("sampo",), [0], partial, results)
    assert [path.name for path in (results / "stable").iterdir()] == ["sampo-s0.jsonl"]
    assert (results / "aggressive" / "notes.txt").exists()
    # Of sampo nothing is finished there.
    assert not (results / "curves-aggressive.svg").exists()
    assert "- Recipes of the study that were not asked for: grpo," in (
        results / "README.md"
    ).read_text("utf-8")


def test_a_log_that_is_being_written_is_copied_up_to_its_last_line(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs", Run("aggressive", "grpo", 0, AGGRESSIVE), STEADY, 6)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"upd')
    write_results(("grpo",), [0], tmp_path / "runs", tmp_path / "results")
    copy = tmp_path / "results" / "aggressive" / "grpo-s0.jsonl"
    assert copy.read_bytes() == whole
    assert read_training_log(copy).updates[-1].update == 6


def test_a_whole_study_misses_nothing(tmp_path: Path) -> None:
    tune(tmp_path, *RECIPES)
    for run in final(RECIPES, [0], tmp_path):
        write_run(tmp_path, run, STEADY if run.setting == "aggressive" else STEADY[:4])
    study = study_of(tmp_path, *RECIPES, seeds=1)
    assert missing(study) == []
    text = page(study)
    assert "## What is missing" not in text
    assert "make study ARGS='--seeds 0'" in text
    assert "| sampo | +0.0 [-8.6, +8.6] | +5.0 |" in text
    check_markdown(text)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(UserError, match="results cannot be written"):
        write_results(("grpo",), [0], tmp_path / "runs", tmp_path / "results")


def test_the_page_links_to_what_is_there(tmp_path: Path) -> None:
    place = Path(__file__).parents[2] / "baselines" / "results" / "sokoban-tiny"
    links = re.findall(r"\]\((\.\.[^)]*)\)", page(study_of(tmp_path, "grpo")))
    assert len(links) == 3
    for link in links:
        assert (place / link).resolve().exists(), link


def test_settings_are_those_of_the_study(tmp_path: Path) -> None:
    text = page(study_of(tmp_path, "grpo"))
    for setting in (*STABLE, *AGGRESSIVE):
        assert f"`{setting}`" in text
    assert "after every 3 of 15 updates, which makes 6 points" in text
    assert "after every 6 of 24 updates, which makes 5 points" in text


def test_the_script_refuses_a_recipe_that_is_not_there() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "scripts" / "study.py"), "--recipes", "grpoo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 2
    assert "no recipe 'grpoo'" in done.stderr


def check_markdown(text: str) -> None:
    """Rows of a table are as long as its head, and nothing is left of a template or of Python."""
    assert not re.search(r"\{\{|\{%|None|nan|<scripts|Interval\(", text)
    assert "\n\n\n" not in text
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, rule, *rows = table.splitlines()
        assert re.fullmatch(r"\|( ?-+:? ?\|)+", rule)
        assert {line.count("|") for line in (rule, *rows)} == {head.count("|")}
        assert rows
