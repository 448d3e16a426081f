"""From runs and logs to a submission's folder that the check accepts, or to none at all."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmark.archive import compress
from benchmark.cli.commands.submit import MAX_OTHER, PART_HEAD, _table
from benchmark.cli.main import main
from benchmark.evaluation.run_folder import read_manifest, read_run
from benchmark.logs.training_log import read_training_log
from benchmark.models import ModelIdentity, folder_sha256
from benchmark.submissions.check import read_accepted
from benchmark.submissions.parts import Played, RunUpload, parts_of
from benchmark.submissions.prepare import prepare
from benchmark.submissions.reading.folder import list_files, read_submission
from tasks.errors import UserError
from tasks.seeding import sha256_text
from tests.support.submissions.small import (
    Copy,
    about,
    check,
    copied,
    played_by,
    policy_submission,
    training_lines,
    with_tokens,
)
from tests.support.training.logs import write_log

LONG = "a_method_with_a_name_longer_than_its_column"


def test_what_was_packed_is_listed_however_long_its_names_are() -> None:
    lines = _table(
        PART_HEAD, [["0", LONG, LONG, LONG, "24", "log.jsonl"], ["1", *"ab", "", "", ""]]
    )
    head, first, second = lines.splitlines()
    assert head.endswith("log") and first.endswith("log.jsonl") and second.startswith("1  ")
    assert LONG not in first and LONG in _table(("a", "b"), [(LONG, "x")], MAX_OTHER)


ABOUT = """\
name: The expert
authors: [Ada Lovelace, Charles Babbage]
contact: ada@example.org
method:
  recipe: expert
  description: Looks ahead.
"""


ABOUT_OF_WEIGHTS = """\
name: The {name}
authors: [Ada Lovelace]
contact: ada@example.org
method: {{recipe: mine, description: Learns.}}
base_model: tiny-sokoban
parameters: 442272
init: tiny-sokoban
weights: https://huggingface.co/ada/{name}/tree/0123456789012345678901234567890123456789
training_data:
  statement: Levels of the training stream.
  training_streams: [sokoban]
  other: false
  panel_episodes: false
"""


def rewritten(run: Path, to: Path, **model: Any) -> Path:
    """A copy of a run that names another model."""
    shutil.copytree(run, to)
    manifest = read_manifest(run)
    named = ModelIdentity(**{"kind": "folder", "sha256": sha256_text(model["name"]), **model})
    changed = manifest.model_copy(update={"model": named})
    (to / "run.json").write_text(changed.model_dump_json(indent=2) + "\n")
    return to


def test_what_is_prepared_is_accepted_and_lists_every_file(policy: Path, trained: Path) -> None:
    for folder in (policy, trained):
        assert check(folder).accepted
        listed = {file.path: file.bytes for file in read_submission(folder).files}
        there = list_files(folder)
        assert listed == {name: size for name, size in there.items() if name != "submission.json"}


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes(tmp_path: Path, policy: Path, expert_run: Path) -> None:
    again = policy_submission(tmp_path, expert_run)
    for name in list_files(policy):
        assert (again / name).read_bytes() == (policy / name).read_bytes()


@pytest.mark.slow
def test_the_readme_says_what_was_done(tmp_path: Path, expert_run: Path) -> None:
    manifest, records = read_run(expert_run)
    part = RunUpload(0, manifest.model, (Played(expert_run, manifest, records),), None)
    prepare([part], about(authors=["Ada Lovelace", "Alan"]), tmp_path / "20260102_a")
    readme = (tmp_path / "20260102_a" / "README.md").read_text()
    assert readme.startswith("# A policy entry\n\nAs the name says.\n")
    assert "| authors | Ada Lovelace, Alan |" in readme
    assert "| method | grpo (policy) |" in readme
    command = "arlarena-bench eval --engine expert --task sokoban/builtin"
    assert f"\n{command} --out runs/reproduce-20260102_a/s0-eval\n" in readme
    assert "`arlarena-bench reproduce submissions/20260102_a` trains again" in readme
    assert "| weights | not given |" in readme
    assert "arlarena-bench submit check submissions/20260102_a" in readme


def test_runs_are_grouped_by_weights_and_logs_go_with_them(
    tmp_path: Path, expert_run: Path, random_run: Path
) -> None:
    one = rewritten(expert_run, tmp_path / "one", name="a")
    two = rewritten(random_run, tmp_path / "two", name="b")
    more = rewritten(random_run, tmp_path / "more", name="a")
    manifest = read_manifest(expert_run)
    logs = [write_log(tmp_path / f"{s}.jsonl", training_lines(s, manifest)) for s in (7, 3)]
    parts = parts_of([one, two, more], logs)
    assert [[run.path for run in part.runs] for part in parts] == [[one, more], [two]]
    assert [part.seed for part in parts] == [7, 3]
    assert [part.log and part.log.path for part in parts] == logs
    assert [part.model.name for part in parts] == ["a", "b"]


def training(folder: Path, seed: int, run: Path, checkpoints: str = "last") -> Path:
    """A training run's folder: its log, with checkpoints that have their own weights."""
    write_log(folder, training_lines(seed, read_manifest(run)))
    for name in checkpoints.split():
        (folder / name).mkdir()
        (folder / name / "model.safetensors").write_text(f"{folder.name}/{name}")
    return folder


def weights(folder: Path) -> dict[str, Any]:
    return {"name": "last", "sha256": folder_sha256(folder)}


@pytest.mark.slow
def test_a_log_goes_with_the_weights_beside_it_in_any_order(
    tmp_path: Path, expert_run: Path, random_run: Path
) -> None:
    folders = [training(tmp_path / f"t{s}", s, expert_run, "best last") for s in (7, 3, 5)]
    runs = [
        rewritten(expert_run, tmp_path / "r7", **weights(folders[0] / "last")),
        rewritten(random_run, tmp_path / "r3", **weights(folders[1] / "best")),
    ]
    for logs in (folders[:2], [folders[1] / "training_log.jsonl", folders[0]]):
        parts = parts_of(runs, logs)
        assert [part.seed for part in parts] == [7, 3]
        assert [part.runs[0].path for part in parts] == runs
        assert [part.log and part.log.path.parent for part in parts] == folders[:2]
    with pytest.raises(UserError) as caught:
        parts_of(runs, [folders[0], folders[2]])
    assert str(caught.value).startswith(
        f"{folders[2] / 'training_log.jsonl'}: no run was played by the weights next to it; "
        f"evaluate {folders[2] / 'best'} or {folders[2] / 'last'}"
    )
    copy, twin = tmp_path / "copy.jsonl", folders[0] / "twin.jsonl"
    for path in (copy, twin):
        shutil.copy(folders[0] / "training_log.jsonl", path)
    with pytest.raises(UserError, match="are both next to the weights of last"):
        parts_of(runs, [folders[0], twin])
    # A log without an adjacent checkpoint takes the remaining place.
    parts = parts_of(runs, [copy, folders[1]])
    assert [part.seed for part in parts] == [7, 3]
    parts = parts_of(runs[::-1], [copy, folders[1]])
    assert [part.seed for part in parts] == [3, 7]


def test_two_checkpoints_of_one_training_are_no_seeds(
    tmp_path: Path, expert_run: Path, random_run: Path
) -> None:
    folder = training(tmp_path / "t", 0, expert_run, "best last")
    runs = [
        rewritten(run, tmp_path / name, **weights(folder / name))
        for run, name in ((expert_run, "best"), (random_run, "last"))
    ]
    log = write_log(tmp_path / "1.jsonl", training_lines(1, read_manifest(expert_run)))
    with pytest.raises(
        UserError, match="were played by checkpoints of one training run, .*: send one"
    ):
        parts_of(runs, [log, folder])


@pytest.mark.slow
def test_seeds_are_never_invented(tmp_path: Path, expert_run: Path, random_run: Path) -> None:
    one = rewritten(expert_run, tmp_path / "one", name="a")
    two = rewritten(random_run, tmp_path / "two", name="b")
    with pytest.raises(
        UserError, match=r"there are 2 checkpoints and no log that names .* --seeds 0,1"
    ):
        parts_of([one, two], [])
    assert [part.seed for part in parts_of([two, one], [], [5, 2])] == [5, 2]
    assert [part.seed for part in parts_of([two], [], [5])] == [5]
    assert [part.seed for part in parts_of([two], [])] == [0]
    with pytest.raises(UserError, match="--seeds has 1 seeds, but there are 2 checkpoints"):
        parts_of([one, two], [], [5])
    logs = [
        write_log(tmp_path / f"{s}.jsonl", training_lines(s, read_manifest(expert_run)))
        for s in (7, 3)
    ]
    assert [part.seed for part in parts_of([one, two], logs, [7, 3])] == [7, 3]
    with pytest.raises(UserError, match="--seeds 3,7: the training logs say 7,3; remove --seeds"):
        parts_of([one, two], logs, [3, 7])


def test_logs_must_be_as_many_as_checkpoints(tmp_path: Path, expert_run: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", training_lines(0, read_manifest(expert_run)))
    with pytest.raises(UserError, match="there are runs of 1 checkpoints but 2 training logs"):
        parts_of([expert_run], [log, log])


def test_the_log_is_sent_as_it_is(tmp_path: Path, trained: Path, expert_run: Path) -> None:
    (point, _) = read_accepted(trained).checkpoints
    solved = sum(record.solved for run in point.runs for record in run.records)
    lines = training_lines(0, read_manifest(expert_run), solved)
    log = write_log(tmp_path / "a.jsonl", lines)
    assert read_training_log(log).start.seed == 0
    assert Copy(trained).read("training/s0.jsonl.zst") == log.read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "\u0415xpert"}, "submission.json: name: may only contain letters from A to Z"),
        ({"authors": "Ada"}, "submission.json: authors: "),
        ({"method": {"kind": "policy"}}, "submission.json: method.recipe: is missing"),
        ({"training_data": "levels"}, "submission.json: training_data: "),
        ({"success": 1.0}, "submission.json: success: there is no such field"),
        ({"date": "today"}, "submission.json: date: "),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_written(
    tmp_path: Path, expert_run: Path, changes: dict[str, Any], message: str
) -> None:
    manifest, records = read_run(expert_run)
    part = RunUpload(0, manifest.model, (Played(expert_run, manifest, records[:2]),), None)
    with pytest.raises(UserError, match=message):
        prepare([part], about() | changes, tmp_path / "20260102_a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_stays(policy: Path, tmp_path: Path) -> None:
    copy = copied(policy, tmp_path)
    before = list_files(copy.folder)
    manifest = read_manifest(policy / "runs" / "r0")
    part = RunUpload(0, manifest.model, (Played(policy, manifest, ()),), None)
    with pytest.raises(UserError, match="already exists: remove it to prepare it again"):
        prepare([part], about(), copy.folder)
    assert list_files(copy.folder) == before
    assert [path.name for path in tmp_path.iterdir()] == [copy.folder.name]


@pytest.mark.parametrize("name", ["entry", "2026_a", "20260102-a", "20260102_A", "20260102_a b"])
def test_a_folder_has_a_day_and_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"must be named <yyyymmdd>_<name>"):
        prepare([], about(), tmp_path / name)


@pytest.mark.slow
def test_the_command_prepares_what_the_command_checks(
    tmp_path: Path, expert_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "about.yaml").write_text(ABOUT)
    folder = tmp_path / "entries" / "20260102_expert"
    folder.parent.mkdir()
    command = ["submit", "prepare", str(expert_run), "--about", str(tmp_path / "about.yaml")]
    assert main([*command, "--out", str(folder)]) == 0
    assert "1 checkpoint, 1 run" in capsys.readouterr().out
    submission = read_submission(folder)
    assert (submission.date, submission.method.kind) == ("2026-01-02", "policy")
    assert submission.authors == ("Ada Lovelace", "Charles Babbage")
    assert main(["submit", "check", str(folder)]) == 0


@pytest.mark.slow
def test_what_only_a_rerun_can_settle_is_prepared(
    tmp_path: Path, expert_run: Path, random_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The author needs the folder to send it; the check says what it is waiting for."""
    entries = tmp_path / "entries"
    entries.mkdir()
    for number, name in enumerate(("first", "second"), 1):
        model = ModelIdentity(name=name, kind="folder", sha256=sha256_text(name))
        played = played_by(model, expert_run, random_run, seed=7)
        records = [with_tokens(record, number) for record in played.records]
        run, folder = tmp_path / name, entries / f"2026010{number}_{name}"
        shutil.copytree(expert_run, run)
        (run / "run.json").write_text(played.manifest.model_dump_json(indent=2) + "\n")
        lines = (record.model_dump_json() + "\n" for record in records)
        (run / "episodes.jsonl").write_text("".join(lines))
        (tmp_path / "about.yaml").write_text(ABOUT_OF_WEIGHTS.format(name=name))
        options = ["--about", str(tmp_path / "about.yaml"), "--seeds", "0", "--out", str(folder)]
        assert main(["submit", "prepare", str(run), *options]) == 0
    said = capsys.readouterr().out
    assert said.count("note: rejected until maintainers have played it again: runs/r0/") == 1
    text = tmp_path / "comment.md"
    assert main(["submit", "check", str(folder), "--comment", str(text)]) == 1
    assert capsys.readouterr().out.endswith("20260102_second: waits for a rerun, 1 finding\n")
    assert "Waiting for a rerun, the only thing that is missing: " in text.read_text("utf-8")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a list", "must be lines of the form `name: ...`"),
        (b"name: x\nmethod: grpo\n", "method: must have fields, such as `method: {"),
        (b"name: \xff", "is not valid YAML"),
        (b"#" * 2**17, "is longer than 65,536 bytes"),
        (ABOUT.encode() + b"rank: 1\n", "about.yaml: rank: there is no such field; there are "),
        (ABOUT.encode() + b"date: 2026-01-02\n", "date: remove it; the command fills it in"),
        (ABOUT.encode() + b"  kind: policy\n", "method.kind: remove it; the command fills it in"),
    ],
)
def test_a_wrong_about_file_is_a_mistake_on_one_line(
    tmp_path: Path,
    expert_run: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    message: str,
) -> None:
    (tmp_path / "about.yaml").write_bytes(content)
    command = ["submit", "prepare", str(expert_run), "--about", str(tmp_path / "about.yaml")]
    assert main([*command, "--out", str(tmp_path / "20260102_expert")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.slow
def test_a_log_of_an_entry_is_sent_again(tmp_path: Path, expert_run: Path) -> None:
    """In the form stored in entries: compressed. It is not compressed twice."""
    plain = write_log(tmp_path / "log.jsonl", training_lines(0, read_manifest(expert_run)))
    packed = tmp_path / "s0.jsonl.zst"
    packed.write_bytes(compress(plain.read_bytes()))
    model = ModelIdentity(name="m", kind="folder", sha256="5" * 64)
    played = played_by(model, expert_run, expert_run, 0)
    folders = []
    for log in (plain, packed):
        folders.append(tmp_path / log.stem / "20260102_again")
        part = RunUpload(0, model, (played,), read_training_log(log))
        prepare([part], about("trained"), folders[-1])
    stored = [(folder / "training" / "s0.jsonl.zst").read_bytes() for folder in folders]
    assert stored[0] == stored[1]
