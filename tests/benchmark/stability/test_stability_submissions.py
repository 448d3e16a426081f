"""`arlarena-bench stability` for submissions and compressed logs."""

import json
from pathlib import Path

import pytest

from benchmark.archive import compress, sha256_of
from benchmark.cli.main import main
from tests.benchmark.stability.command import (
    fault,
    run,
    table,
)
from tests.support.submissions.small import about
from tests.support.training.logs import (
    run_lines,
    write_log,
)


def submission(folder: Path) -> Path:
    """A submission of two seeds with their logs, without records."""
    seeds = (0, 1)
    files = []
    for seed in seeds:
        log = write_log(folder.parent / f"{seed}.jsonl", run_lines(seed=seed, updates=12))
        path = folder / f"training/s{seed}.jsonl.zst"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compress(log.read_bytes()))
        size = log.stat().st_size
        digest, stored = sha256_of(path)
        files.append(
            {"path": f"training/s{seed}.jsonl.zst", "bytes": stored, "sha256": digest,
             "content_bytes": size, "url": None}
        )  # fmt: skip
    points = [
        {"seed": seed, "runs": [f"runs/r{seed}"], "training_log": files[seed]["path"],
         "model": {"name": f"s{seed}", "kind": "folder", "sha256": str(seed) * 64}}
        for seed in seeds
    ]  # fmt: skip
    content = about("trained") | {"checkpoints": points, "files": files}
    (folder / "submission.json").write_text(json.dumps(content))
    return folder


def test_a_submission_is_its_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = submission(tmp_path / "20260102_trained")
    logs = [folder / "training" / f"s{seed}.jsonl.zst" for seed in (0, 1)]
    plain = table(run(capsys, tmp_path / "0.jsonl", tmp_path / "1.jsonl"))
    assert list(plain) == ["grpo", "seed 0", "seed 1"]
    assert table(run(capsys, folder)) == plain
    assert table(run(capsys, *logs)) == plain
    assert table(run(capsys, "--recipe", "mine", folder))["mine"] == plain["grpo"]
    assert list(table(run(capsys, folder, "--by", "run"))) == ["s0", "s1"]
    assert "is given twice" in fault(capsys, folder, logs[0])


def test_packed_logs_are_read_anywhere_and_no_larger_than_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = submission(tmp_path / "20260102_trained")
    cell = tmp_path / "grpo-s0.jsonl.zst"
    cell.write_bytes((folder / "training" / "s0.jsonl.zst").read_bytes())
    assert list(table(run(capsys, cell))) == ["grpo"]
    # A study's results for a track: logs next to records, which are not logs.
    results = tmp_path / "results"
    results.mkdir()
    for name in ("grpo-s0.jsonl.zst", "grpo-s0.episodes.jsonl.zst"):
        (results / name).write_bytes(cell.read_bytes())
    assert list(table(run(capsys, results))) == ["grpo"]
    cell.write_bytes(compress(bytes(2**26 + 1)))
    assert f"{cell} holds more than {2**26} bytes" in fault(capsys, cell)
    cell.write_bytes(b"no frame")
    assert "grpo-s0.jsonl.zst cannot be unpacked" in fault(capsys, cell)
    (folder / "submission.json").write_text("{}")
    assert f"{folder}: submission.json, schema_version" in fault(capsys, folder)


def test_one_recipe_of_a_study_is_all_its_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`FOLDER/grpo`, or a shell's expansion of `FOLDER/grpo-s*`: logs, facts and episodes."""
    for recipe, seed in (("grpo", 0), ("grpo", 1), ("grpo_sm", 0)):
        log = write_log(tmp_path / f"{recipe}-{seed}", run_lines(recipe, seed, updates=12))
        cell = tmp_path / f"{recipe}-s{seed}"
        for end in (".jsonl.zst", ".episodes.jsonl.zst"):
            cell.with_name(cell.name + end).write_bytes(compress(log.read_bytes()))
        cell.with_name(f"{cell.name}.json").write_text("{}")
    rows = table(run(capsys, tmp_path / "grpo"))
    assert list(rows) == ["grpo", "seed 0", "seed 1"]
    of_shell = sorted(tmp_path.glob("grpo-s*"))
    assert len(of_shell) == 6
    assert table(run(capsys, *of_shell)) == rows
    assert "mine" in table(run(capsys, "--recipe", "mine", *of_shell))
    assert list(table(run(capsys, tmp_path / "grpo_sm"))) == ["grpo_sm"]
    # Given directly, they are not skipped.
    assert "grpo-s0.json: unknown format" in fault(capsys, tmp_path / "grpo-s0.json")
    assert "does not exist" in fault(capsys, tmp_path / "grp")
    out = tmp_path / "curves.svg"
    assert main(["plot", str(tmp_path / "grpo"), *map(str, tmp_path.glob("grpo_sm-s*")),
                 "--out", str(out)]) == 0  # fmt: skip
    assert "curves of 3 runs" in capsys.readouterr().out


def test_a_submission_without_such_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = submission(tmp_path / "20260102_trained")
    log = folder / "training" / "s0.jsonl.zst"
    assert f"{folder} is a submission without trl logs" in fault(capsys, folder, "--format", "trl")
    assert "a submission's log, not one of trl" in fault(capsys, log, "--format", "trl")
    file = folder / "submission.json"
    content = json.loads(file.read_text())
    for point in content["checkpoints"]:
        point["training_log"] = None
    file.write_text(json.dumps(content))
    assert f"{folder} is a submission without training logs" in fault(capsys, folder)


def test_curves_of_a_submission_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = submission(tmp_path / "20260102_trained")
    assert main(["plot", str(folder), "--out", str(tmp_path / "curves.svg")]) == 0
    assert "curves of 2 runs: " in capsys.readouterr().out
    assert (tmp_path / "curves.svg").read_bytes().startswith(b"<?xml")
