"""`import benchmark`: the notebook's own cells, tables, and the modules that it imports."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import benchmark
from benchmark.cli.main import main
from tasks.errors import UserError

NOTEBOOK = Path(__file__).parents[2] / "docs" / "python.ipynb"


def test_importing_loads_no_large_library() -> None:
    heavy = "{'torch', 'vllm', 'transformers', 'pandas', 'numpy', 'pydantic', 'scipy'}"
    code = (
        "import sys, benchmark; benchmark.evaluate; "
        f"assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    run, episodes, turns = names["run"], names["episodes"], names["turns"]
    assert run.path.parent == Path("runs")
    assert len(episodes) == 8
    assert episodes["success"].mean() == run.summary.panels[0].success.value
    assert len(turns) == episodes["turns"].sum() == sum(len(r.turns) for r in run.records)
    table = names["found"].to_frame()
    assert list(table.columns) == ["sokoban/builtin"]
    assert list(table.index) == [str(names["guessed"].path), str(run.path)]
    assert table.iloc[1, 0] == run.summary.panels[0].success.value
    # run.json contains the equivalent command line.
    assert run.manifest.command[:4] == ("arlarena-bench", "eval", "--model", "tiny-sokoban")
    assert run.manifest.limit == 8


async def test_beside_a_running_event_loop(tmp_path: Path) -> None:
    # As in a notebook's cell.
    run = benchmark.evaluate(
        engine="random", tasks=["sokoban"], out=tmp_path, limit=2, temperature=0.5
    )
    assert run.manifest.overrides == {"temperature": 0.5}
    assert len(run.records) == 2
    assert "sokoban/builtin" in repr(run)


def test_a_mistake_is_an_exception_with_the_commands_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown task 'socoban'; did you mean sokoban?"):
        benchmark.evaluate(engine="random", tasks="socoban")
    with pytest.raises(UserError, match="there is no option '--max-tokns'; did you mean --max-tok"):
        benchmark.evaluate("x", max_tokns=5)
    with pytest.raises(UserError, match="is not a run folder: there is no such folder"):
        benchmark.read_run(tmp_path / "none")
    run = benchmark.evaluate(engine="random", tasks="sokoban", limit=1, out=tmp_path / "run")
    with pytest.raises(ValueError, match="'episodes' or 'turns', not 'words'"):
        run.to_frame("words")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="two runs at least"):
        benchmark.compare(run)


@pytest.mark.slow
def test_many_runs_are_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three = (str(tmp_path / name) for name in ("expert", "random", "math"))
    benchmark.evaluate(engine="expert", tasks="sokoban", limit=4, out=one)
    benchmark.evaluate(engine="random", tasks="sokoban", limit=4, out=two)
    benchmark.evaluate(engine="random", tasks="sokoban/two_boxes", limit=2, out=three)
    capsys.readouterr()
    assert main(["compare", one, two, three]) == 0
    out = capsys.readouterr().out
    assert f"{three}: no common episode" in out
    assert f"{two}: sokoban/builtin -" in out
    assert "first 4 episodes of every panel" in out
    assert main(["compare", one, two, three, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["run"], row["task"], row["panel"]) for row in found["runs"]] == [
        (one, "sokoban", "builtin"),
        (two, "sokoban", "builtin"),
        (three, "sokoban", "two_boxes"),
    ]
    (difference,) = found["differences"]
    assert (difference["a"], difference["b"], difference["episodes"]) == (one, two, 4)
    frame = benchmark.compare(one, two, three).to_frame()
    assert frame.loc[one, "sokoban/builtin"] == 1.0
    assert frame.loc[three].isna().tolist() == [True, False]
    other = str(tmp_path / "other")
    benchmark.evaluate(engine="random", tasks="sokoban", limit=4, seed=1, out=other)
    capsys.readouterr()
    assert main(["compare", one, two, other]) == 2
    assert "seed is 0 in" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_told_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = tmp_path / "train-x"
    training.mkdir()
    (training / "training_log.jsonl").touch()
    assert main(["compare", str(training), str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "is the folder of a training run: `plot` and `stability` read it" in err
    assert f"`eval --model {training / 'last'}` evaluates its weights" in err
    benchmark.evaluate(engine="random", tasks="sokoban", limit=1, out=training / "eval")
    capsys.readouterr()
    assert main(["compare", str(training), str(tmp_path)]) == 2
    named = f"{training / 'eval'} is an evaluation of its weights: name that"
    assert named in capsys.readouterr().err
    benchmark.evaluate(engine="random", tasks="sokoban", limit=1, out=tmp_path / "r")
    capsys.readouterr()
    assert main(["report", str(tmp_path)]) == 2
    assert f"holds 2 runs, such as {tmp_path / 'r'}: name one" in capsys.readouterr().err
    assert main(["compare", "x", "x/"]) == 2
    assert "x is given twice" in capsys.readouterr().err


def test_the_package_says_its_version() -> None:
    assert benchmark.__version__ == version("arlarena-bench")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(benchmark, "nothing")  # noqa: B009 - mypy knows that it is not there
