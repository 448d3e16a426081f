"""The comparison of ratios, by hand."""

import json
from pathlib import Path

import pytest

from tests.benchmarks import compare
from tests.benchmarks.compare import accepted, worse


def run(**ratios: float) -> dict[str, compare.Facts]:
    return {name: {"reference": "r", "ratio": ratio} for name, ratio in ratios.items()}


def test_noise_is_twice_the_largest_distance_from_the_median() -> None:
    runs = [run(a=1.0, b=2.0), run(a=1.3, b=2.02), run(a=1.1, b=2.0, only_here=1.0)]
    found = accepted(runs)
    # 2 (1.3 - 1.1) / 1.1, and a tenth where runs hardly differ.
    assert found == {
        "a": {"reference": "r", "ratio": 1.1, "noise": 0.36},
        "b": {"reference": "r", "ratio": 2.0, "noise": 0.1},
    }


def test_a_ratio_is_worse_beyond_its_noise_alone() -> None:
    committed = accepted([run(a=1.0, gone=1.0)] * 3)
    assert worse(run(a=1.09, new=9.0), committed) == []
    assert worse(run(a=1.11), committed) == ["a"]
    assert worse(run(a=0.2), committed) == []


def test_a_worse_run_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def written(name: str, ratio: float) -> str:
        content = {"benchmarks": [{"name": "a", "extra_info": run(a=ratio)["a"]}]}
        (tmp_path / name).write_text(json.dumps(content))
        return str(tmp_path / name)

    monkeypatch.setattr(compare, "COMMITTED", tmp_path / "ratios.json")
    good, bad = written("good.json", 1.0), written("bad.json", 1.5)
    assert compare.main(["--accept", good, good, good]) == 0
    assert compare.main([good]) == 0
    assert compare.main([bad]) == 1
    shown = capsys.readouterr()
    assert shown.err == "worse by more than the noise: a\n"
    assert "1.5         1    10%  r, WORSE" in shown.out
    with pytest.raises(SystemExit):
        compare.main(["--accept", good])


def test_what_was_not_run_is_an_error_unless_some_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    committed, file = tmp_path / "ratios.json", tmp_path / "run.json"
    committed.write_text(json.dumps(accepted([run(a=1.0, b=1.0)] * 3)))
    monkeypatch.setattr(compare, "COMMITTED", committed)
    file.write_text(json.dumps({"benchmarks": [{"name": "a", "extra_info": run(a=1.0)["a"]}]}))
    assert compare.main(["--some", str(file)]) == 0
    assert compare.main([str(file)]) == 1
    assert capsys.readouterr().err == "committed, but not run: b\n"
