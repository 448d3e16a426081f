"""The run folder: written incrementally, resumed after a crash, rejected for a different run."""

import asyncio
import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmark.archive import compress
from benchmark.cli.main import main
from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.evaluate import Plan, evaluate, recorded_command
from benchmark.evaluation.manifest import Manifest, Shard
from benchmark.evaluation.merge import merge
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.evaluation.run_folder import (
    PACKED,
    RECORDS,
    RunFolder,
    read_manifest,
    read_run,
    read_sessions,
)
from benchmark.files import append_durably
from benchmark.models import ModelIdentity
from tasks.errors import UserError
from tests.support.submissions.repositories import put

PLAN = Plan.of([("sokoban", "builtin")])


def manifest(plan: Plan = PLAN, policy: str = "random") -> Manifest:
    return plan.manifest(ModelIdentity(name=policy, kind="policy"), ScriptedEngine(policy))


def play(path: Path, plan: Plan = PLAN, policy: str = "random", concurrency: int = 16) -> int:
    async def run() -> int:
        with RunFolder(path, manifest(plan, policy), plan.keys()) as folder:
            session = await evaluate(plan, ScriptedEngine(policy), folder, concurrency)
        return session.episodes

    return asyncio.run(run())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run of the random policy to copy."""
    folder = tmp_path_factory.mktemp("played")
    play(folder)
    return folder


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(played, tmp_path / "run"))


@pytest.mark.slow
def test_a_run_is_byte_identical_at_any_concurrency(tmp_path: Path) -> None:
    for concurrency in (1, 8, 64):
        assert play(tmp_path / str(concurrency), concurrency=concurrency) == 256
    contents = {(tmp_path / str(n) / RECORDS).read_bytes() for n in (1, 8, 64)}
    assert len(contents) == 1
    ids = [json.loads(line)["episode"] for line in contents.pop().splitlines()]
    assert ids == [entry.id for entry in PLAN.panels[0].panel.entries]


def test_a_finished_run_plays_nothing_again(run: Path) -> None:
    before = (run / RECORDS).read_bytes()
    assert play(run) == 0
    assert (run / RECORDS).read_bytes() == before


def test_a_run_of_an_entry_is_read_replayed_and_left_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = read_run(run)
    assert main(["report", str(run)]) == 0
    (run / PACKED).write_bytes(compress((run / RECORDS).read_bytes()))
    (run / RECORDS).unlink()
    assert read_run(run) == whole
    files = sorted(run.iterdir())
    assert main(["replay", str(run)]) == 0
    assert "256 records" in capsys.readouterr().out
    assert main(["report", str(run)]) == 2
    assert "name its report with --html FILE" in capsys.readouterr().err
    assert main(["report", str(run), "--html", str(tmp_path / "report.html")]) == 0
    with pytest.raises(UserError, match="is a run of an entry, which stays as it is"):
        play(run)
    assert sorted(run.iterdir()) == files
    (run / PACKED).write_bytes(compress(b'{"cut": '))
    with pytest.raises(UserError, match="ends in the middle of a record"):
        read_run(run)


@pytest.mark.parametrize("cut", [1, 100, 2_000, 30_000])
def test_a_cut_last_line_is_dropped_and_played_again(run: Path, cut: int) -> None:
    whole = (run / RECORDS).read_bytes()
    (run / RECORDS).write_bytes(whole[:-cut])
    lost = 256 - whole[:-cut].count(b"\n")
    assert play(run) == lost
    assert (run / RECORDS).read_bytes() == whole


def test_episodes_that_have_ended_are_kept_when_the_run_is_stopped(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk has a queue: records wait for others, and their episodes must not be repeated."""
    go = threading.Event()

    def slow(descriptor: int, content: bytes) -> None:
        assert go.wait(120)
        append_durably(descriptor, content)

    monkeypatch.setattr("benchmark.evaluation.run_folder.append_durably", slow)
    records = read_run(played)[1][:3]

    async def stopped() -> None:
        with RunFolder(tmp_path, manifest(), PLAN.keys()) as folder:
            tasks = [asyncio.create_task(folder.append(record)) for record in records]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            go.set()

    asyncio.run(stopped())
    assert read_run(tmp_path)[1] == records


def test_a_file_without_any_complete_line_is_resumed(run: Path) -> None:
    whole = (run / RECORDS).read_bytes()
    (run / RECORDS).write_bytes(whole[:50])
    with RunFolder(run, manifest(), PLAN.keys()) as folder:
        assert folder.dropped_bytes == 50
        assert folder.records == {}


def test_a_broken_line_in_the_middle_is_named(run: Path) -> None:
    lines = (run / RECORDS).read_bytes().splitlines(keepends=True)
    lines[6] = b'{"schema_version": 2}\n'
    (run / RECORDS).write_bytes(b"".join(lines))
    with pytest.raises(UserError, match=r"line 7: not a record: task: Field required"):
        read_run(run)
    with pytest.raises(UserError, match="line 7"):
        play(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
        ({"score": "1"}, "score: Input should be a valid number"),
        ({"success": 1}, "success: Input should be a valid boolean"),
        ({"penalty": -0.1}, "penalty: Input should be greater than or equal to 0"),
        ({"repeat": -1}, "repeat"),
        ({"schema_version": 3}, "schema_version"),
    ],
)
def test_records_are_read_strictly(run: Path, change: dict[str, object], message: str) -> None:
    lines = (run / RECORDS).read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), **change})
    (run / RECORDS).write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=f"line 1: not a record: {message}"):
        read_run(run)


def test_nan_is_no_number(run: Path) -> None:
    lines = (run / RECORDS).read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "score": float("nan")})
    (run / RECORDS).write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match="line 1: not a record"):
        read_run(run)


def test_a_record_that_is_there_twice_is_named(run: Path) -> None:
    with (run / RECORDS).open("ab") as file:
        file.write((run / RECORDS).read_bytes().splitlines(keepends=True)[3])
    with pytest.raises(UserError, match=r"line 257: .*one-box-003.* appears twice"):
        read_run(run)


def test_a_record_of_another_panel_is_refused(run: Path) -> None:
    content = (run / RECORDS).read_text().replace("one-box-000", "two-boxes-000", 1)
    (run / RECORDS).write_text(content)
    with pytest.raises(UserError, match="two-boxes-000.* is not part of this run"):
        play(run)


def test_another_protocol_model_or_shard_is_refused(run: Path) -> None:
    warm = Plan.of([("sokoban", "builtin")], SamplingOverrides(temperature=1.0))
    with pytest.raises(UserError, match="another protocol .* choose another folder"):
        play(run, warm)
    with pytest.raises(UserError, match="another model"):
        play(run, policy="expert")
    part = Plan.of([("sokoban", "builtin")], shard=Shard(index=1, count=2))
    with pytest.raises(UserError, match="holds all shards, this is shard 1/2"):
        play(run, part)


def test_an_edited_manifest_is_refused(run: Path) -> None:
    file = run / "run.json"
    file.write_text(file.read_text().replace('"max_turns": 15', '"max_turns": 150'))
    with pytest.raises(UserError, match="fingerprint does not match the panels"):
        read_manifest(run)


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path, manifest(), PLAN.keys()),
        pytest.raises(UserError, match="being written by another process"),
    ):
        RunFolder(tmp_path, manifest(), PLAN.keys())
    RunFolder(tmp_path, manifest(), PLAN.keys()).close()


def test_what_is_no_run_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run folder: it has no run\.json$"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(UserError, match=r"run\.json is not valid"):
        read_run(tmp_path)


def test_runs_of_a_study_are_found_to_be_named(tmp_path: Path) -> None:
    for seed in (0, 1):
        run = tmp_path / "mine" / "sokoban-stress" / f"rank-s{seed}" / "eval"
        run.mkdir(parents=True)
        (run / "run.json").touch()
    first = tmp_path / "mine" / "sokoban-stress" / "rank-s0" / "eval"
    for around in (tmp_path / "mine", tmp_path / "mine" / "sokoban-stress"):
        with pytest.raises(UserError, match=re.escape(f"holds 2 runs, such as {first}: name one")):
            read_run(around)


@pytest.mark.parametrize(
    "name",
    [
        "training_log.jsonl",
        "submission.json",
        "pyproject.toml",
        "config.json",
        ".git/config",
        "episodes.jsonl",
        "summary.json",
        "report.html",
    ],
)
def test_a_run_does_not_begin_in_a_folder_that_is_something_else(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "eval.o123")  # what a scheduler leaves
    RunFolder(tmp_path, manifest(), PLAN.keys()).close()
    folder = tmp_path / "mine"
    put(folder, name)
    before = sorted(folder.rglob("*"))
    words = ["eval", "--engine", "random", "--task", "sokoban", "--out", str(folder)]
    assert main(words) == 2
    said = (
        f"{folder} holds {name.split('/', maxsplit=1)[0]}, but no evaluation; choose another --out"
    )
    assert said in capsys.readouterr().err.splitlines()[-1]
    with pytest.raises(UserError, match="but no evaluation"):
        RunFolder(folder, manifest(), PLAN.keys())
    with pytest.raises(UserError, match="but no evaluation|has a run, or a part of one"):
        merge([tmp_path], folder)
    assert sorted(each for each in folder.rglob("*") if each.name != ".lock") == before


def test_a_path_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a folder"):
        RunFolder(tmp_path / "file", manifest(), PLAN.keys())
    with pytest.raises(UserError, match="cannot be written"):
        RunFolder(tmp_path / "file" / "run", manifest(), PLAN.keys())


@pytest.mark.slow
def test_a_full_disk_keeps_what_was_recorded(tmp_path: Path) -> None:
    """Runs the command in a process whose files may not exceed 200 kB."""
    command = [sys.executable, "-m", "benchmark.cli", "eval", "--engine", "random"]
    command += ["--task", "sokoban"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert re.search("cannot be written: .* run the same command again to resume", line)
    kept = (tmp_path / RECORDS).read_bytes()
    assert kept.endswith(b"\n")
    assert 0 < len(read_run(tmp_path)[1]) < 256
    assert play(tmp_path) == 256 - kept.count(b"\n")
    assert len((tmp_path / "sessions.jsonl").read_text().splitlines()) == 2


def test_records_that_cannot_be_opened_again_are_an_error_and_close_nothing_twice(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, flags: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with RunFolder(run, manifest(), PLAN.keys()) as folder:
        monkeypatch.setattr("benchmark.evaluation.run_folder.open_no_link", refused)
        with pytest.raises(UserError, match="cannot be written: Too many open files"):
            folder.finish()
        monkeypatch.undo()
    assert play(run) == 0  # the lock is free


def test_links_are_not_followed(run: Path, tmp_path: Path) -> None:
    whole = (run / RECORDS).read_bytes()
    (run / RECORDS).write_bytes(whole[:-10])
    victim = tmp_path / "victim"
    for name in (RECORDS, "sessions.jsonl", ".lock", "run.json"):
        folder = tmp_path / f"with-{name}"
        shutil.copytree(run, folder)
        (folder / name).unlink()
        victim.write_text("untouched")
        (folder / name).symlink_to(victim)
        with pytest.raises(UserError, match="cannot be (written|read)"):
            play(folder)
        assert victim.read_text() == "untouched"


def test_a_torn_session_is_cut_off_before_the_next(run: Path) -> None:
    with (run / "sessions.jsonl").open("a") as file:
        file.write('{"started": ')
    with RunFolder(run, manifest(), PLAN.keys()) as folder:
        folder.add_session('{"ended": "finished"}')
    assert [session["ended"] for session in read_sessions(run)] == ["finished"] * 2


def test_deeply_nested_sessions_are_passed_over(run: Path) -> None:
    with (run / "sessions.jsonl").open("a") as file:
        file.write("[" * 100_000 + "\n" + "not JSON\n" + "[1]\n")
    assert len(read_sessions(run)) == 1


@pytest.mark.parametrize(
    ("fact", "value"),
    [("dtype", "bfloat16"), ("device", "cuda"), ("context", 300), ("server", "other")],
)
def test_another_engine_is_refused(run: Path, fact: str, value: object) -> None:
    other = manifest().model_copy(update={"engine": {**manifest().engine, fact: value}})
    with pytest.raises(UserError, match=f"another engine {fact}"):
        RunFolder(run, other, PLAN.keys())


@pytest.mark.slow
def test_edited_overrides_are_refused(tmp_path: Path) -> None:
    warm = Plan.of([("sokoban", "builtin")], SamplingOverrides(temperature=1))
    play(tmp_path, warm)
    assert read_manifest(tmp_path).overrides == {"temperature": 1.0}
    file = tmp_path / "run.json"
    edited = json.loads(file.read_text()) | {"overrides": {}}
    file.write_text(json.dumps(edited))
    with pytest.raises(UserError, match="overrides do not match the panels"):
        read_manifest(tmp_path)


def test_the_order_in_which_panels_are_named_does_not_matter(tmp_path: Path) -> None:
    names = [("sokoban", "builtin"), ("sokoban", "two_boxes")]
    plans = [Plan.of(order) for order in (names, names[::-1])]
    assert plans[0].keys() == plans[1].keys()
    assert plans[0].fingerprint == plans[1].fingerprint


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ("http://me:secret@host:1/v1", "URL"),
        ("--e=https://h", "--e=URL"),
        ("/home/me/runs/mine/best", ".../best"),
        ("--out=/home/me/x/", "--out=.../x/"),
        ("/home/jane doe/models/x", ".../x"),
        ("alfworld=/home/jane/My Data/alf", "alfworld=.../alf"),
        ("/home/jane\ndoe/x\ny", ".../x\ny"),
        ("webshop=/data/me/shop", "webshop=.../shop"),
        ("runs/mine/best", "runs/mine/best"),
        ("owner/name", "owner/name"),
        ("sokoban/builtin", "sokoban/builtin"),
    ],
)
def test_a_recorded_command_names_no_address_and_no_home(given: str, recorded: str) -> None:
    found = recorded_command(["/x/benchmark/cli.py", "eval", given])
    assert found == ("arlarena-bench", "eval", recorded)


@pytest.mark.slow
def test_errors_are_played_again_on_request(run: Path) -> None:
    whole = (run / RECORDS).read_bytes()
    lines = whole.decode().splitlines()
    for number in (0, 5):
        record = json.loads(lines[number])
        record |= {"error": "EngineError: gone", "turns": [], "success": False}
        lines[number] = json.dumps(record)
    (run / RECORDS).write_text("\n".join(lines) + "\n")
    with RunFolder(run, manifest(), PLAN.keys()) as folder:
        assert folder.drop_errors() == 2
    assert play(run) == 2
    assert (run / RECORDS).read_bytes() == whole


@pytest.mark.slow
def test_sessions_say_what_was_done(tmp_path: Path) -> None:
    play(tmp_path, concurrency=8)
    (line,) = (tmp_path / "sessions.jsonl").read_text().splitlines()
    session = json.loads(line)
    assert session["ended"] == "finished"
    assert session["episodes"] == 256
    assert session["requests"] == sum(len(record.turns) for record in read_run(tmp_path)[1])
    assert session["response_tokens"] is None
    assert session["versions"]["arlarena-bench"]
