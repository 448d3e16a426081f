"""`bc` on the command line: its output when redirected to a file, and the files it writes."""

import re
from pathlib import Path

import pytest
import yaml

from benchmark.cli.main import main
from benchmark.cli.training import bc
from tasks.sokoban.task import SokobanTask
from tests.baselines.cloning.test_bc import RECIPE
from tests.support.submissions.repositories import put
from tests.support.training.tiny_study import use_first_entries


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(RECIPE.model_dump(mode="json", exclude_none=True)), "utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "steps"), [(0.0, range(1, 11)), (3600.0, [10])])
def test_a_log_gets_a_line_at_every_interval(
    interval: float,
    steps: list[int],
    recipe: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bc, "INTERVAL_S", interval)
    use_first_entries(monkeypatch, SokobanTask, 2)
    out = tmp_path / "model"
    assert main(["bc", str(recipe), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("playing demonstrations\n")
    lines = said.err.splitlines()
    line = re.compile(r"step (\d+) of 10: loss \d\.\d{3}, accuracy \d+\.\d%")
    assert [int(found[1]) for text in lines if (found := line.fullmatch(text))] == list(steps)
    assert re.search(rf"^model: {re.escape(str(out))}, SHA-256 [0-9a-f]{{64}}$", said.out, re.M)
    assert "on the task `sokoban` of arlarena-bench" in (out / "README.md").read_text("utf-8")
    assert (out / "recipe.yaml").read_bytes() == recipe.read_bytes()
    assert not (out / "checkpoint").exists()
    assert main(["bc", str(recipe), "--out", str(out)]) == 2
    assert "already has a finished model; choose another --out" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run.json", "config.json", "README.md", "checkpoint/model.pt"])
def test_a_model_is_not_made_in_a_folder_that_is_something_else(
    name: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    put(folder, name)
    assert main(["bc", str(recipe), "--out", str(folder)]) == 2
    first = name.split("/", maxsplit=1)[0]
    said = f"{folder} holds {first}, but no model that `bc` has begun; choose another --out"
    assert said in capsys.readouterr().err
    assert [each for each in folder.rglob("*") if each.is_file()] == [folder / name]
