"""`arlarena-bench reproduce`: prints, rejects, and repeats an entry with the same weights."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from baselines.algorithms.advantage.base import Advantage
from benchmark.cli.main import main
from benchmark.cli.training.reproduce import _call
from benchmark.engines.core import devices
from benchmark.engines.core.devices import cpu_name
from benchmark.evaluation.run_folder import read_run
from benchmark.exit_codes import EXIT_USER_ERROR
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.models import from_folder
from benchmark.submissions.parts import RunUpload
from benchmark.submissions.prepare import prepare
from benchmark.versions import versions
from tests.support.submissions.small import Copy, Json, about, played_by
from tests.support.training.logs import Line, resume_line
from tests.support.training.plugins import RANK, sha256_of

SMALL = (
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_turns=4",
    "rollout.max_tokens=32",
    "optimization.updates=2",
    "optimization.mini_batches=2",
    "optimization.warmup_updates=0",
    "validation.every=null",
    "checkpoint_every=1",
)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory, expert_run: Path, random_run: Path) -> Path:
    """A folder with one entry that was briefly trained here, on two tasks.

    Its plays are scripted.
    """
    root = tmp_path_factory.mktemp("entries")
    sets = [word for setting in SMALL for word in ("--set", setting)]
    train = ["train", "--recipe", "grpo", "--init", "tiny-all-mixed", "--out", str(root / "run")]
    tasks = ["--task", "sokoban", "--task", "webshop"]
    assert main([*train, *tasks, "--seed", "7", "--threads", "1", *sets]) == 0
    weights = from_folder(root / "run" / "last").identity
    played = played_by(weights, expert_run, random_run, seed=0)
    log = read_training_log(root / "run" / LOG)
    folder = root / "submissions" / "20260102_small"
    prepare([RunUpload(7, weights, (played,), log)], about("trained"), folder)
    return root / "submissions"


def reproduce(folder: Path, *arguments: str) -> int:
    return main(["reproduce", *arguments, "--submissions", str(folder)])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_entry_is_made_again_to_the_same_weights(
    entries: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", str(tmp_path / "again"))
    assert reproduce(entries, "20260102_small", *out) == 0
    said = capfd.readouterr().out
    assert "the weights are identical: SHA-256 " in said
    assert (tmp_path / "again" / "s7" / "last").is_dir()
    _, records = read_run(tmp_path / "again" / "s7-eval")
    own = [record.success for record in records]
    assert len(own) == 256
    # The entry's plays are not the model's, so the rates of both are printed.
    (shown,) = re.findall(r"success: A ([0-9.]+)%, B ([0-9.]+)%", said)
    assert shown[1] == f"{100 * sum(own) / 256:.1f}"

    # Another hash of the weights, as on another machine: the log shows where they diverge.
    copy = Copy(Path(shutil.copytree(entries / "20260102_small", tmp_path / "20260102_small")))
    _change_weights(copy)
    copy.log(_from_elsewhere, seed=7)
    copy.log(_moved, seed=7)
    ((low, high),) = re.findall(r"points \[([+-][0-9.]+), ([+-][0-9.]+)\], McNemar", said)
    tied = float(low) <= 0 <= float(high)
    assert reproduce(tmp_path, "20260102_small", *out) == (0 if tied else 1)
    said, warned = capfd.readouterr()
    continued = "continued with something else (device_name, torch before update 2)"
    assert f"note: the training of seed 7 {continued}: its weights may differ" in warned
    assert f"the weights differ: SHA-256 {'0' * 64} (entry), " in said
    assert "first difference of the logs: update 2, policy/loss: 0.125 (entry) and " in said
    moved = "a CPU, AVX2; from update 2 on another CPU, AVX512"
    assert f"device: {moved} (entry), {cpu_name()} (here)" in said
    assert f"versions that differ: torch {versions()['torch']}, then 9.9 (entry) and " in said
    # The training run already exists; its command requires the CPU instructions of the entry.
    assert "$ ATEN_CPU_CAPABILITY=avx2 arlarena-bench train" in said


def _from_elsewhere(lines: list[Line]) -> list[Line]:
    engine = {**lines[0]["engine"], "device_name": "a CPU, AVX2"}
    return [{**lines[0], "engine": engine}, *lines[1:-1], {**lines[-1], "policy/loss": 0.125}]


def _moved(lines: list[Line]) -> list[Line]:
    changed = {**lines[0]["versions"], "torch": "9.9"}
    engine = {**lines[0]["engine"], "device_name": "another CPU, AVX512"}
    return [*lines[:2], resume_line(1, engine, changed), *lines[2:]]


def _change_weights(copy: Copy) -> None:
    """Change the hash of the weights in an entry."""
    other = {"sha256": "0" * 64}

    def change(submission: Json) -> None:
        submission["checkpoints"][0]["model"] |= other

    copy.manifest(lambda run: run["model"].update(other))
    copy.about(change)


def test_the_commands_are_printed(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(policy.parent, policy.name, "--dry-run", "--out", "o") == 0
    assert capsys.readouterr().out == (
        "arlarena-bench eval --engine expert --task sokoban/builtin --out o/s0-eval\n"
    )


@pytest.mark.parametrize("limit", [None, "default"])
@pytest.mark.parametrize(
    ("device", "expected"),
    [("a CPU, AVX2", "avx2"), ("a CPU, AVX512", None), ("a GPU", "as it is"), (None, "as it is")],
)
def test_a_command_runs_with_the_instructions_of_the_entrys_cpu(
    device: str | None,
    expected: str | None,
    limit: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nenv > {tmp_path}/environment\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    if limit is not None:
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", limit)
    _call(("arlarena-bench", "train"), device)
    lines = (tmp_path / "environment").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert found["OMP_NUM_THREADS"] == "1"
    assert found.get("ATEN_CPU_CAPABILITY") == (limit if expected == "as it is" else expected)


def test_instructions_that_are_not_here_are_named_before_anything_is_trained(
    entries: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = Copy(Path(shutil.copytree(entries / "20260102_small", tmp_path / "20260102_small")))
    copy.log(_from_elsewhere, seed=7)
    copy.log(_moved, seed=7)
    (tmp_path / "cpuinfo").write_text("model name : old\nflags : fpu sse2\n")
    monkeypatch.setattr(devices, "_CPUINFO", tmp_path / "cpuinfo")
    assert reproduce(tmp_path, "20260102_small", "--dry-run") == 0
    said = capsys.readouterr()
    assert said.err.startswith("note: seed 7 was trained with AVX2, which this CPU lacks")
    assert said.out.startswith("ATEN_CPU_CAPABILITY=avx2 arlarena-bench train ")


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> str:
    assert reproduce(folder, *arguments) == EXIT_USER_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("arlarena-bench reproduce: ")


def test_what_is_not_there_is_named(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    around = policy.parent
    assert refused(capsys, around, "20260102_polici") == (
        f"there is no entry '20260102_polici' in {around}; did you mean "
        "20260102_policy or 20260102_trained?"
    )
    found = refused(capsys, around, policy.name, "--seed", "5")
    assert found == "20260102_policy has no seed 5; it has 0"
    found = refused(capsys, around / "none", policy.name)
    assert (
        found == f"{around}/none is not a folder; give the folder with the entries (--submissions)"
    )


@pytest.mark.slow
def test_weights_of_the_authors_own_cannot_be_played(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their log has a configuration that this version does not know, or there is no log."""
    found = refused(capsys, trained.parent, trained.name)
    assert found.startswith(f"{trained.name}, seed 0: the log's configuration is not valid in")
    copy = Copy(Path(shutil.copytree(trained, tmp_path / trained.name)))

    def without_logs(submission: Json) -> None:
        for point in submission["checkpoints"]:
            point["training_log"] = None
        submission["files"] = [f for f in submission["files"] if "training" not in f["path"]]

    copy.about(without_logs)
    shutil.rmtree(copy.folder / "training")
    found = refused(capsys, tmp_path, trained.name)
    assert found.startswith(
        f"{trained.name}, seed 0: the entry has no training log, and its weights"
    )
    assert reproduce(tmp_path, trained.name, "--dry-run") == 1
    shown = capsys.readouterr()
    assert shown.out.count("arlarena-bench eval --model <weights of seed ") == 2
    assert "note: the entry has no training log" in shown.err


def test_an_init_that_has_changed_is_said(
    entries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Copy(Path(shutil.copytree(entries / "20260102_small", tmp_path / "20260102_small")))

    def change(lines: list[Line]) -> None:
        lines[0]["init"] |= {"sha256": "0" * 64}

    copy.log(change, seed=7)
    found = refused(capsys, tmp_path, "20260102_small")
    assert "the shipped init has changed" in found


def test_plugins_are_asked_for_and_checked(
    entries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Copy(Path(shutil.copytree(entries / "20260102_small", tmp_path / "20260102_small")))
    plugin = tmp_path / "rank.py"
    plugin.write_text(RANK)

    def change(lines: list[Line]) -> None:
        lines[0]["plugins"] = {"rank.py": sha256_of(RANK)}

    copy.log(change, seed=7)
    needed = f"training needs the code of its plug-ins, rank.py (SHA-256 {sha256_of(RANK)}): "
    assert needed in refused(capsys, tmp_path, "20260102_small")
    dry = ("20260102_small", "--dry-run")
    assert reproduce(tmp_path, *dry) == 1
    assert f"note: {needed}" in capsys.readouterr().err
    try:
        assert reproduce(tmp_path, *dry, "--plugin", str(plugin)) == 0
        assert f" --plugin {plugin} " in capsys.readouterr().out
        Advantage.choices.pop("rank")
        other = plugin.rename(tmp_path / "other.py")
        assert reproduce(tmp_path, *dry, "--plugin", str(other)) == 2
        said = capsys.readouterr().err
        assert f"--plugin {other}: no log of the entry names a plug-in other.py" in said
        assert "(there are: rank.py)" in said
        plugin.write_text(RANK + "\n")
        assert reproduce(tmp_path, *dry, "--plugin", str(plugin)) == 2
        assert "but the original rank.py has" in capsys.readouterr().err
        assert "rank" not in Advantage.choices
    finally:
        Advantage.choices.pop("rank", None)


def test_code_that_is_not_the_logs_own_is_not_run(
    entries: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An untrusted file is rejected before it runs, and so is a module with its package."""
    copy = Copy(Path(shutil.copytree(entries / "20260102_small", tmp_path / "20260102_small")))
    names = {"rank.py": "a" * 64, "hostile.rank": "a" * 64}
    copy.log(lambda lines: lines[0].update(plugins=names), seed=7)
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w').close()\n"
    package = tmp_path / "hostile"
    package.mkdir()
    for file in (tmp_path / "rank.py", package / "__init__.py", package / "rank.py"):
        file.write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    for given in (str(tmp_path / "rank.py"), "hostile.rank"):
        said = refused(capsys, tmp_path, "20260102_small", "--plugin", given)
        assert f"--plugin {given} has SHA-256 {sha256_of(code)[:12]}..., but the original" in said
    said = refused(capsys, tmp_path, "20260102_small", "--plugin", "hostile.none")
    assert said.startswith("--plugin hostile.none: there is no such module")
    assert not ran.exists()
