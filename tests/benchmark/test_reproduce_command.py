"""`arlarena-bench reproduce`: prints, refuses, and makes an entry again to the same weights."""

import json
import shutil
from pathlib import Path

import pytest

from benchmark.cli import EXIT_USER_ERROR, main
from benchmark.run_folder import read_run
from benchmark.submissions.prepare import parts_of, prepare
from tests.submissions import Copy, about

SUBMISSIONS = Path(__file__).parents[2] / "submissions"
SMALL = (
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_turns=4",
    "rollout.max_tokens=32",
    "optimisation.updates=2",
    "optimisation.mini_batches=2",
    "optimisation.warmup_updates=0",
    "validation.every=null",
    "checkpoint_every=1",
)
PANEL = ("--task", "sokoban/builtin", "--engine", "transformers", "--dtype", "float32")


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one entry that was trained and played here, small."""
    root = tmp_path_factory.mktemp("entries")
    sets = [word for setting in SMALL for word in ("--set", setting)]
    train = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--out", str(root / "run")]
    assert main([*train, "--seed", "7", "--threads", "1", *sets]) == 0
    model = ["--model", str(root / "run" / "last"), "--out", str(root / "played")]
    assert main(["eval", *model, *PANEL]) == 0
    parts = parts_of([root / "played"], [root / "run"])
    prepare(parts, about("trained"), root / "submissions" / "20260102_small")
    return root / "submissions"


def reproduce(folder: Path, *arguments: str) -> int:
    return main(["reproduce", *arguments, "--submissions", str(folder)])


@pytest.mark.slow
def test_an_entry_is_made_again_to_the_same_weights(
    entries: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", str(tmp_path / "again"))
    assert reproduce(entries, "20260102_small", *out) == 0
    said = capfd.readouterr().out
    assert "the weights are equal: SHA-256 " in said
    assert (tmp_path / "again" / "s7" / "last").is_dir()
    _, records = read_run(tmp_path / "again" / "s7-eval")
    assert len(list(records)) == 256

    # Weights of another hash, as on another machine: the logs and success decide.
    copy = Copy(Path(shutil.copytree(entries / "20260102_small", tmp_path / "20260102_small")))
    other = {"sha256": "0" * 64}

    def change(submission: dict[str, object]) -> None:
        (point,) = submission["checkpoints"]  # type: ignore[misc]
        point["model"] |= other  # type: ignore[has-type]

    copy.manifest(lambda run: run["model"].update(other))
    copy.about(change)
    copy.log(lambda lines: [*lines[:-1], {**lines[-1], "policy/loss": 0.125}], seed=7)
    assert reproduce(tmp_path, "20260102_small", *out) == 0
    said = capfd.readouterr().out
    assert f"the weights differ: SHA-256 {'0' * 64} (entry), " in said
    assert "first difference of the logs: update 2, policy/loss: 0.125 (entry) and " in said
    assert "difference 0.0 points" in said or "difference +0.0 points" in said


def test_the_commands_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    entry = "20261121_tiny-webshop"
    assert reproduce(SUBMISSIONS, entry, "--dry-run", "--out", "o") == 0
    assert capsys.readouterr().out == (
        "arlarena-bench eval --model tiny-webshop --engine transformers --dtype float32 "
        "--task webshop/builtin --out o/s0-eval\n"
    )


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> str:
    assert reproduce(folder, *arguments) == EXIT_USER_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("arlarena-bench reproduce: ")


def test_what_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = refused(capsys, SUBMISSIONS, "20261121_randon")
    assert found.startswith("there is no entry '20261121_randon' in ")
    assert found.endswith("; did you mean 20261121_random?") or " or " in found
    assert "20261121_random" in found
    found = refused(capsys, SUBMISSIONS, "20261121_random", "--seed", "5")
    assert found == "20261121_random has no seed 5; it has 0"
    found = refused(capsys, tmp_path / "none", "20261121_random")
    assert found == f"there is no folder {tmp_path}/none: name that of entries (--submissions)"


def test_weights_of_the_authors_own_cannot_be_played(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their log is of a configuration that this version does not know, or there is none."""
    found = refused(capsys, trained.parent, trained.name)
    assert found.startswith(f"{trained.name}, seed 0: the configuration of the log is not one of")
    copy = Copy(Path(shutil.copytree(trained, tmp_path / trained.name)))

    def without_logs(submission: dict[str, list[dict[str, object]]]) -> None:
        for point in submission["checkpoints"]:
            point["training_log"] = None
        submission["files"] = [f for f in submission["files"] if "training" not in str(f["path"])]

    copy.about(without_logs)
    shutil.rmtree(copy.folder / "training")
    found = refused(capsys, tmp_path, trained.name)
    assert found.startswith(f"{trained.name}, seed 0: there is no training log, and the weights")
    assert reproduce(tmp_path, trained.name, "--dry-run") == 0
    shown = capsys.readouterr()
    assert shown.out.count("arlarena-bench eval --model <weights of seed ") == 2
    assert "note: there is no training log" in shown.err


def test_an_init_that_has_changed_is_said(
    entries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Copy(Path(shutil.copytree(entries / "20260102_small", tmp_path / "20260102_small")))

    def change(lines: list[dict[str, object]]) -> None:
        lines[0]["init"] |= {"sha256": "0" * 64}  # type: ignore[operator]

    copy.log(change, seed=7)
    found = refused(capsys, tmp_path, "20260102_small")
    assert "the shipped init has changed since" in found
    assert not json.loads((copy.folder / "submission.json").read_text())["weights"]
