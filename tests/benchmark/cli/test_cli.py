"""The command line as a user sees it: real processes, real files, one-line errors."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from baselines.inits.registry import find_model
from benchmark.cli.main import main
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.evaluation.evaluate import Plan
from benchmark.exit_codes import EXIT_ENGINE_DOWN


def cli(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmark.cli", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=250, check=False
    )


def error_line(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail with a user error, and return its one-line message."""
    capsys.readouterr()
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "Traceback" not in line
    return line


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom benchmark.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'vllm', 'transformers', 'pydantic', 'numpy', 'jinja2', 'rich'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "evaluate a model" in done.stdout


@pytest.mark.slow
def test_importing_the_packages_imports_neither_torch_nor_vllm() -> None:
    code = (
        "import sys, benchmark, benchmark.evaluation.evaluate, benchmark.evaluation.replay\n"
        "import benchmark.task_checks.validate, tasks.sokoban.task\n"
        "assert not {'torch', 'vllm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["eval", "--engine", "expert", "--task", "socoban"],
            "unknown task 'socoban'; did you mean sokoban?",
        ),
        (
            ["eval", "--engine", "expert", "--task", "sokoban/bultin"],
            "no panel 'bultin'; did you mean builtin?",
        ),
        (
            ["eval", "--engine", "expert", "--task", "sokoban", "--panel", "x"],
            "no panel 'x'; there are builtin, two_boxes",
        ),
        (
            ["eval", "--model", "tiny-sokobn"],
            "no init or folder 'tiny-sokobn'; did you mean tiny-sokoban",
        ),
        (["eval"], "--model is missing"),
        (["eval", "--engine", "expert", "--model", "x"], "remove --model"),
        (["eval", "--engine", "openai", "--model", "x"], "needs at least one --endpoint"),
        (
            ["eval", "--engine", "vllm", "--model", "x", "--endpoint", "http://x"],
            "--endpoint does not work with --engine vllm",
        ),
        (
            ["eval", "--engine", "expert", "--temperature", "0.001"],
            "--temperature must be 0, which is greedy, or from 0.01 to 10",
        ),
        (
            ["eval", "--engine", "expert", "--task", "webshop/builtin", "--protocol", "pixels"],
            "webshop cannot be shown as images",
        ),
        (["eval", "--engine", "expert", "--top-p", "0"], "--top-p must be above 0"),
        (["eval", "--engine", "expert", "--shard", "3/2"], "--shard must be I/N"),
        (
            ["eval", "--task", "sokoban", "--model", "x", "--limit", "1", "--shard", "2/2"],
            "shard 2/2 has nothing to play: the run has 1 episode; use fewer shards",
        ),
        (["eval", "--engine", "expert", "--task", "sokoban", "--task", "sokoban"], "given twice"),
        (["replay", "/no/such/run"], "is not a run folder"),
        (["report", "/no/such/run"], "is not a run folder"),
        (
            ["play", "sokoban", "--episode", "x"],
            "has no episode 'x'; use an id from one-box-000 to one-box-255",
        ),
        (["validate", "chess"], "unknown task 'chess'"),
        (["bc", "tiny-sokoban", "--out", "/proc/x"], "/proc/x cannot be written"),
        (
            ["bc", "tiny-sokoban", "--tracker", "foo", "--out", "/proc/x"],
            "tracker 'foo' is not installed",
        ),
        (["bc", "tiny-sokobn"], "no recipe 'tiny-sokobn'; did you mean tiny-sokoban"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error_line(capsys, *arguments)
    assert line.startswith(f"arlarena-bench {arguments[0]}: ")
    assert message in line


@pytest.mark.slow
def test_what_a_command_imports_adds_no_line_to_a_mistake() -> None:
    done = cli("bc", "tiny-sokoban", "--out", "/proc/x")  # imports as much as any
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("arlarena-bench bc: /proc/x cannot be written")


@pytest.mark.slow
def test_debug_shows_the_traceback() -> None:
    done = cli("--debug", "replay", "/no/such/run")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


@pytest.mark.slow
def test_a_run_from_eval_to_compare(tmp_path: Path) -> None:
    runs = {}
    for policy in ("expert", "random"):
        runs[policy] = tmp_path / policy
        done = cli("eval", "--engine", policy, "--task", "sokoban", "--out", str(runs[policy]))
        assert done.returncode == 0, done.stderr
        names = {path.name for path in runs[policy].iterdir()} - {".lock"}
        assert names == {
            "run.json",
            "episodes.jsonl",
            "sessions.jsonl",
            "summary.json",
            "report.html",
        }
    assert "100.0%" in cli("report", str(runs["expert"])).stdout
    replay = cli("replay", str(runs["random"]))
    assert replay.returncode == 0
    assert re.search(r"256 records, \d+ turns replayed in [\d.]+ s: all match", replay.stdout)
    compared = cli("compare", str(runs["random"]), str(runs["expert"]))
    assert compared.returncode == 0, compared.stderr
    assert "256 paired episodes" in compared.stdout


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the random policy; tests modify copies of it."""
    run = tmp_path_factory.mktemp("played") / "run"
    words = ["eval", "--engine", "random", "--task", "sokoban/builtin", "--out", str(run)]
    assert main(words) == 0
    return run


@pytest.mark.slow
def test_summary_and_report_can_be_rebuilt_from_the_records(tmp_path: Path) -> None:
    # The title for all tasks.
    run = ["eval", "--engine", "random", "--limit", "4", "--out", str(tmp_path)]
    assert main(run) == 0
    written = {name: (tmp_path / name).read_bytes() for name in ("summary.json", "report.html")}
    for name in written:
        (tmp_path / name).unlink()
    assert main(["report", str(tmp_path)]) == 0
    for name, content in written.items():
        assert (tmp_path / name).read_bytes() == content


@pytest.mark.slow
def test_replay_finds_an_edited_record(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(played, tmp_path / "run"))
    file = run / "episodes.jsonl"
    lines = file.read_text().splitlines()
    failed = next(n for n, line in enumerate(lines) if not json.loads(line)["success"])
    lines[failed] = json.dumps(json.loads(lines[failed]) | {"success": True})
    file.write_text("\n".join(lines) + "\n")
    assert main(["replay", str(run), "--set", "sokoban.view=pixels"]) == 2
    assert "--set sokoban.view=pixels has no effect" in capsys.readouterr().err
    assert main(["replay", str(run)]) == 1
    said = capsys.readouterr().out
    assert "episode, success: recorded True, replayed False" in said
    assert "1 differ" in said


@pytest.mark.slow
def test_replay_says_what_is_missing_and_what_the_summary_claims(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(played, tmp_path / "run"))
    file = run / "episodes.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:10]))
    assert main(["replay", str(run)]) == 1
    said = capsys.readouterr().out
    assert "10 records" in said
    assert "not complete: sokoban/builtin has 10 of 256 plays, 246 are missing" in said
    assert "summary.json does not match the records" in said
    file.write_text("".join(lines))
    assert main(["replay", str(run)]) == 0


@pytest.mark.slow
def test_shards_join_to_the_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["eval", "--engine", "random", "--repeats", "2"]
    run += ["--task", "sokoban/builtin", "--task", "sokoban/two_boxes", "--limit", "10"]
    whole = tmp_path / "whole"
    assert main([*run, "--out", str(whole)]) == 0
    parts = [tmp_path / f"part{i}" for i in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        shard = ["--shard", f"{number}/3", "--out", str(part)]
        assert main([*run, *shard]) == 0
    assert "give each shard once" in error_line(
        capsys, "merge", str(parts[0]), str(parts[1]), "--out", str(tmp_path / "x")
    )
    with (parts[0] / "sessions.jsonl").open("a") as sessions:
        sessions.write('{"started": ')  # truncated by a crash
    joined = tmp_path / "joined"
    assert main(["merge", *map(str, parts), "--out", str(joined)]) == 0
    lines = (joined / "sessions.jsonl").read_text().splitlines()
    assert [set(json.loads(line)) >= {"started", "wall_s"} for line in lines] == [True] * 3
    for name in ("episodes.jsonl", "summary.json"):
        assert (joined / name).read_bytes() == (whole / name).read_bytes()
    (joined / "run.json").unlink()
    records = (joined / "episodes.jsonl").read_bytes()
    assert "already has a run, or a part of one" in error_line(
        capsys, "merge", *map(str, parts), "--out", str(joined)
    )
    assert (joined / "episodes.jsonl").read_bytes() == records
    assert "is not a shard" in error_line(capsys, "merge", str(whole), "--out", str(tmp_path / "y"))


def test_tasks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    said = capsys.readouterr().out
    for word in ("sokoban", "builtin", "two_boxes", "tiny-sokoban", "qwen3-4b-rft-alfworld"):
        assert word in said


@pytest.mark.slow
def test_validate_proves_sokoban() -> None:
    done = cli("validate", "sokoban", "--training-entries", "300")
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    assert done.stdout.count("expert wins") == 4
    assert "all checks passed" in done.stdout


@pytest.mark.slow
def test_a_person_plays_by_lines() -> None:
    done = cli("play", "sokoban", "--episode", "one-box-000", stdin="nonsense\nup\n\n")
    assert done.returncode == 0, done.stderr
    assert "(not a valid action)" in done.stdout
    assert "reward -0.1" in done.stdout
    assert "stopped" in done.stdout


@pytest.mark.slow
def test_a_part_and_another_protocol_are_said_so(tmp_path: Path) -> None:
    shard = ["--shard", "1/16", "--temperature", "0.7", "--out", str(tmp_path)]
    done = cli("eval", "--engine", "random", "--task", "sokoban", *shard)
    assert "shard 1 of 16: these numbers cover a part of the panel" in done.stdout
    assert "not the standard protocol: temperature = 0.7" in done.stdout


@pytest.mark.slow
def test_a_report_of_a_run_that_cannot_be_written_to(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in played.iterdir()}
    report = tmp_path / "elsewhere.html"
    assert main(["report", str(played), "--html", str(report)]) == 0
    assert report.read_bytes() == (played / "report.html").read_bytes()
    assert before == {path.name: path.stat().st_mtime_ns for path in played.iterdir()}
    line = error_line(capsys, "report", str(played), "--html", "/no/such/folder/x.html")
    assert "/no/such/folder/x.html cannot be written" in line


def test_the_readme_shows_todays_protocol() -> None:
    plan = Plan.of([("sokoban", "builtin")])
    readme = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    (shown,) = re.findall(r"runs/tiny-sokoban_(\w+_transformers_\w+)/report.html", readme)
    model = find_model("tiny-sokoban").identity.sha256
    assert model is not None
    assert shown == f"{model[:8]}_transformers_{plan.fingerprint[:8]}"


def test_an_engine_that_cannot_start_is_not_to_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> None:
        raise MemoryError("no room for weights")

    monkeypatch.setattr(TransformersEngine, "_load", fails)
    out = str(tmp_path / "run")
    words = ["eval", "--model", "tiny-sokoban", "--engine", "transformers", "--out", out]
    assert main(words) == EXIT_ENGINE_DOWN
    assert capsys.readouterr().err.splitlines()[-1] == (
        "arlarena-bench eval: the transformers engine did not start: MemoryError: no room for "
        "weights"
    )
