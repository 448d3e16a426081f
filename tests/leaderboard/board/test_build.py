"""From submissions to the board: real ones, checked by the code that judges pull requests."""

import json
import shutil
from dataclasses import replace
from operator import methodcaller
from pathlib import Path

import pytest

from baselines.reproduction import train_command
from benchmark.cli.main import main
from benchmark.evaluation.evaluate import Plan
from benchmark.evaluation.protocol import PIXELS, THINKING, SamplingOverrides
from benchmark.submissions.badges import Badges
from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.results import panel_results, stability_of
from benchmark.submissions.reading.replays import Replays
from leaderboard.board.board import load
from leaderboard.board.build import ARCHIVES, Built, build, write
from leaderboard.board.entries import row_of as make_row
from leaderboard.board.file import json_bytes, parquet_bytes, read_content
from leaderboard.board.rows import BoardCheckpoint, FullRow, RecipeChoices
from leaderboard.table.columns import success_of
from leaderboard.table.table import table
from leaderboard.table.view import badges_of, default_view
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.seeding import sha256_text
from tests.support.submissions.on_tracks import on_track
from tests.support.submissions.small import (
    INITS,
    SEEDS,
    Copy,
    copied,
    lose_at_the_end,
    play_policy,
    policy_submission,
)
from tests.support.training.logs import Line

POLICY, TRAINED = "20260102_policy", "20260102_trained"
KEY = ("sokoban", "builtin")


@pytest.fixture(scope="module")
def built(submissions: Path) -> Built:
    return build(submissions, INITS, env_processes=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "submissions").mkdir()
    return tmp_path / "submissions"


def row_of(built: Built, entry: str) -> FullRow:
    (row,) = [row for row in built.content.rows if row.id == entry]
    return row


def test_what_is_accepted_is_on_the_board(built: Built) -> None:
    assert built.accepted == (POLICY, TRAINED)
    assert [row.id for row in built.content.rows] == [POLICY, TRAINED]
    assert (built.refused, built.archived) == ((), ())
    (protocol,) = built.content.facts.protocols
    assert protocol.name == "v1"
    (panel,) = protocol.panels
    assert (panel.key, panel.title, panel.field) == (KEY, "Sokoban", True)
    entries = {e.id: e.category for e in load_task("sokoban").panel("builtin").entries}
    assert dict(zip(panel.episodes, panel.categories, strict=True)) == entries
    assert list(panel.episodes) == sorted(entries)
    assert json.loads(panel.protocol)["sampling"]["temperature"] == 0


def test_the_numbers_are_those_of_the_check(built: Built, submissions: Path) -> None:
    entry = read_accepted(submissions / TRAINED)
    result = panel_results(entry)[KEY]
    row = row_of(built, TRAINED)
    (numbers,) = row.panels
    assert (numbers.success, numbers.low, numbers.high) == (
        result.over_episodes.value,
        result.over_episodes.low,
        result.over_episodes.high,
    )
    assert {each.seed: each.success for each in numbers.seeds} == dict(result.seeds)
    shown = success_of(row, [KEY])
    assert shown is not None
    assert (shown.low, shown.high) == (result.success.low, result.success.high)
    assert (numbers.episodes, numbers.plays, numbers.fingerprint) == (256, 2, result.fingerprint)
    dependable = numbers.dependable
    assert dependable is not None
    collapsed = [bool(curves.collapsed) for curves in row.curves]
    kept = [0.0 if lost else each.success
            for lost, each in zip(collapsed, numbers.seeds, strict=True)]  # fmt: skip
    assert dependable.value == pytest.approx(sum(kept) / len(kept))
    assert dependable.low <= dependable.value <= dependable.high
    stability = stability_of(entry)
    assert stability is not None
    assert row.stability is not None
    found = {column.name: column.value for column in row.stability.columns}
    assert found == dict(stability.columns)
    assert row.stability.seeds == tuple(curves.seed for curves in row.curves) == SEEDS


def test_categories_and_outcomes_add_up_to_the_success(built: Built) -> None:
    (protocol,) = built.content.facts.protocols
    categories = protocol.panels[0].categories
    for row in built.content.rows:
        (numbers,), (outcome,) = row.panels, row.outcomes
        total = sum(outcome.solved)
        assert numbers.success == pytest.approx(total / (256 * numbers.plays))
        for each in numbers.categories:
            solved = [
                count
                for count, category in zip(outcome.solved, categories, strict=True)
                if category == each.category
            ]
            assert each.episodes == len(solved)
            assert each.success == pytest.approx(sum(solved) / (len(solved) * numbers.plays))
            assert each.low <= each.success <= each.high
        assert sum(each.episodes for each in numbers.categories) == 256


def test_what_a_policy_has_and_what_not(built: Built) -> None:
    row = row_of(built, POLICY)
    assert (row.kind, row.base_model, row.parameters, row.init) == ("policy", None, None, None)
    assert (row.stability, row.curves, row.training_data) == (None, (), None)
    assert row.choices == RecipeChoices(None, None, None, None, None)
    assert (row.badges.replayed, row.badges.stability, row.badges.init) == (True, "none", None)
    assert row.panels[0].success == 1  # the expert
    (point,) = row.checkpoints
    assert (point.model.name, point.model.kind, point.log_sha256) == ("expert", "policy", None)


def test_an_entry_is_on_the_track_of_its_logs(submissions: Path, tmp_path: Path) -> None:
    copy = on_track(copied(submissions / TRAINED, tmp_path))
    proven = Badges(replayed=True, stability="logs", init="fixed", rerun=False)
    row = make_row(read_accepted(copy.folder), proven, ())
    assert row.track == "small"


def test_a_seed_that_lost_half_at_the_end_is_named(submissions: Path, tmp_path: Path) -> None:
    """The mean of three validations hides the last one."""
    copy = copied(submissions / TRAINED, tmp_path)
    proven = Badges(replayed=True, stability="logs", init="fixed", rerun=False)
    before = make_row(read_accepted(copy.folder), proven, ())
    copy.log(lose_at_the_end, 1)
    row = make_row(read_accepted(copy.folder), proven, ())
    assert before.stability is not None and row.stability is not None
    assert (before.stability.halved, row.stability.halved) == ((), (1,))
    assert [each.collapsed for each in row.curves] == [False, False]


def test_who_has_played(built: Built, submissions: Path) -> None:
    about = json.loads((submissions / TRAINED / "submission.json").read_bytes())
    hashes = {file["path"]: file["sha256"] for file in about["files"]}
    row = row_of(built, TRAINED)
    assert row.badges.init == "fixed"
    assert row.init is not None
    assert row.init.sha256 == sha256_text("init")
    for point, seed in zip(row.checkpoints, SEEDS, strict=True):
        assert isinstance(point, BoardCheckpoint)
        assert point.seed == seed
        assert point.model.sha256 == sha256_text(f"s{seed}")
        assert point.engines == ("transformers float32",)
        assert point.log_sha256 == hashes[f"training/s{seed}.jsonl.zst"]
        assert point.agrees == "update 20 of 20, the last one"
    assert row.submission_sha256 == sha256_text(
        (submissions / TRAINED / "submission.json").read_text("utf-8")
    )


def test_the_curves_are_those_of_the_logs(built: Built, submissions: Path) -> None:
    entry = read_accepted(submissions / TRAINED)
    for point, curves in zip(entry.checkpoints, row_of(built, TRAINED).curves, strict=True):
        assert point.log is not None
        success, grad = curves.of("success"), curves.of("grad_norm")
        assert success is not None
        assert grad is not None
        assert success.values == tuple(line.success for line in point.log.validations)
        assert success.steps == tuple(range(21))
        assert grad.values == tuple(point.log.series("policy/grad_norm"))
        assert (curves.panel, curves.last_step) == ("sokoban/builtin", 20)
        assert curves.of("kl_init") is None  # these logs have only the clipped mean


@pytest.mark.slow
def test_the_same_submissions_give_the_same_bytes(built: Built, submissions: Path) -> None:
    again = build(submissions, INITS, env_processes=2)
    assert parquet_bytes(again.content) == parquet_bytes(built.content)
    assert json_bytes(again.content) == json_bytes(built.content)


def test_an_app_reads_what_was_written(built: Built, tmp_path: Path) -> None:
    parquet, in_json = write(built, tmp_path / "board")
    board = load(parquet)
    frame = table(board, default_view(board))
    assert list(frame.index) == [TRAINED, POLICY]
    assert frame["rank"].tolist()[:1] == [1]  # the expert has no log
    assert json.loads(in_json.read_bytes())["entries"][0]["id"] == POLICY


def test_a_board_that_cannot_be_written(built: Built, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        write(built, tmp_path / "file")


def dropped(copy: Copy) -> None:
    copy.records(lambda records: records[1:])


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_checked(
    submissions: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(submissions / POLICY, folder)
    file = tmp_path / "file"
    file.touch()
    assert main(["leaderboard", "build", "--submissions", str(folder), "--out", f"{file}/b"]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said == f"arlarena-bench leaderboard build: {file}/b cannot be written: Not a directory"


@pytest.mark.slow
def test_what_is_not_accepted_is_named(
    submissions: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(submissions / POLICY, folder)
    shutil.copytree(submissions / POLICY, folder / "20260102_again")
    dropped(Copy(folder / "20260102_again"))
    (folder / "No such name").mkdir()
    (folder / ".20260103_half.new").mkdir()
    (folder / "README.md").write_text("not a submission")
    out = tmp_path / "board"
    options = ["--submissions", str(folder), "--out", str(out), "--env-processes", "1"]
    assert main(["leaderboard", "build", *options]) == 1
    said = capsys.readouterr()
    assert "1 entries: " in said.out
    first, second, third, again, odd = said.err.splitlines()
    assert first == "1 of 3: 20260102_again not accepted"
    assert second == f"2 of 3: {POLICY} accepted"
    assert third == "3 of 3: No such name not accepted"
    assert again.startswith("20260102_again: rejected: ")
    assert "1 of 256 episodes are missing" in again
    assert odd.startswith(
        "No such name: rejected: name: 'No such name' is not a valid submission name;"
    )
    content = read_content(out / "leaderboard.parquet")
    assert [row.id for row in content.rows] == [POLICY]
    assert [each.id for each in content.facts.refused] == ["20260102_again", "No such name"]
    shutil.rmtree(folder / "20260102_again")
    shutil.rmtree(folder / "No such name")
    assert main(["leaderboard", "build", *options]) == 0


@pytest.mark.slow
def test_of_two_that_are_the_same_the_first_stays(submissions: Path, folder: Path) -> None:
    copied(submissions / POLICY, folder)
    shutil.copytree(folder / POLICY, folder / "20260102_zeal")
    found = build(folder, INITS, env_processes=1)
    assert found.accepted == (POLICY,)
    (refused,) = found.refused
    assert refused.id == "20260102_zeal"
    assert f"A policy entry is the name of {POLICY}" in refused.reasons[0]


def test_many_findings_are_cut_off(submissions: Path, folder: Path) -> None:
    copy = copied(submissions / POLICY, folder)
    for number in range(20):
        (copy.folder / f"more{number}").touch()
    (refused,) = build(folder, INITS, env_processes=1).refused
    assert len(refused.reasons) == 11
    assert refused.reasons[-1] == "and 10 more"


def test_no_submissions(folder: Path) -> None:
    found = build(folder, INITS)
    assert (found.accepted, found.content.rows, found.refused) == ((), (), ())
    with pytest.raises(UserError, match="none is not a folder; give the folder with"):
        build(folder / "none", INITS)


@pytest.mark.slow
def test_an_entry_of_an_older_protocol_stays_readable(
    built: Built, submissions: Path, folder: Path
) -> None:
    """An entry that is no longer accepted comes from the archive, and from nowhere else."""
    # Here the entry changes its protocol; in reality, the installed protocol changes.
    copy = copied(submissions / POLICY, folder)
    copy.panel(max_turns=99)
    assert build(folder, INITS, env_processes=1).archived == ()
    row = row_of(built, POLICY)
    old = replace_row(built, row, digest(copy))
    archive(old, folder, "v0")
    found = build(folder, INITS, env_processes=1)
    assert (found.accepted, found.archived, found.refused) == ((), (POLICY,), ())
    assert [(row.protocol, row.id) for row in found.content.rows] == [("v0", POLICY)]
    assert [protocol.name for protocol in found.content.facts.protocols] == ["v1", "v0"]
    # An archive of an archive contains both protocols with their names.
    shutil.rmtree(folder / ARCHIVES)
    archive(found, folder, "v2")
    again = build(folder, INITS, env_processes=1)
    assert [protocol.name for protocol in again.content.facts.protocols] == ["v1", "v2", "v0"]
    assert again.content.rows == found.content.rows
    # The folder must still be the one that was accepted then.
    (copy.folder / "README.md").write_text("another one")
    changed = build(folder, INITS, env_processes=1)
    assert (len(changed.refused), changed.content.rows, changed.dropped) == (1, (), (POLICY,))
    copy.relist("README.md")
    changed = build(folder, INITS, env_processes=1)
    assert (len(changed.refused), changed.content.rows, changed.dropped) == (1, (), (POLICY,))
    shutil.rmtree(copy.folder)
    gone = build(folder, INITS)
    assert (gone.content.rows, gone.dropped, gone.refused) == ((), (POLICY,), ())


def test_an_entry_whose_files_have_another_shape_today_stays_readable(
    built: Built, submissions: Path, folder: Path
) -> None:
    """Here the entry lacks a required field; in reality, the field is new."""
    copy = copied(submissions / POLICY, folder)
    copy.manifest(lambda run: run.pop("created"))
    # It also omits fields with defaults.
    copy.about(lambda about: [file.pop("url", None) for file in about["files"]])
    old = replace_row(built, row_of(built, POLICY), digest(copy))
    archive(old, folder, "v0")
    found = build(folder, INITS, env_processes=1)
    assert (found.accepted, found.archived, found.refused) == ((), (POLICY,), ())
    (copy.folder / "README.md").unlink()
    gone = build(folder, INITS, env_processes=1)
    assert (gone.archived, gone.dropped, len(gone.refused)) == ((), (POLICY,), 1)


def digest(copy: Copy) -> str:
    return sha256_text((copy.folder / "submission.json").read_text("utf-8"))


def replace_row(built: Built, row: FullRow, submission_sha256: str) -> Built:
    rows = (replace(row, submission_sha256=submission_sha256),)
    return replace(built, content=replace(built.content, rows=rows))


@pytest.fixture(scope="module")
def three_tables(submissions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The expert's entry under each protocol."""
    root = tmp_path_factory.mktemp("three-tables")
    plans = {
        "a-thinking": Plan.of([KEY], SamplingOverrides(protocol=THINKING)),
        "b-seeing": Plan.of([KEY], settings={"sokoban": {"view": "pixels"}}),
    }
    for name, plan in plans.items():
        run = play_policy(root / f".{name}", "expert", plan)
        other = Copy(policy_submission(root, run))
        other.about(methodcaller("update", name=f"A policy {name[2:]}"))
        other.folder.rename(root / f"20260102_{name}")
    copied(submissions / POLICY, root)
    return root


def archive(built: Built, submissions: Path, name: str) -> None:
    """Archive a board as that of an older protocol."""
    parquet, _ = write(built, submissions / ARCHIVES)
    parquet.rename(parquet.with_name(f"{name}.parquet"))


def build_once(root: Path) -> Built:
    """Rendering images takes long, so successful replays are not repeated."""
    replays = Replays(root / "replays.json")
    return build(root, INITS, env_processes=1, replays=replays)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_another_protocol_has_a_table_of_its_own(three_tables: Path, tmp_path: Path) -> None:
    found = build_once(three_tables)
    assert found.refused == ()
    standard, thinking, pixels = found.content.facts.protocols
    assert (standard.name, thinking.name, pixels.name) == ("v1", THINKING, PIXELS)
    assert len({each.panels[0].fingerprint for each in found.content.facts.protocols}) == 3
    assert json.loads(thinking.panels[0].protocol)["sampling"]["max_tokens"] == 8192
    board = load(write(found, tmp_path)[0])
    assert [row.id for row in board.rows()] == [POLICY]
    assert [row.id for row in board.rows(THINKING)] == ["20260102_a-thinking"]
    assert [row.id for row in board.rows(PIXELS)] == ["20260102_b-seeing"]
    entries = {"v1": POLICY, THINKING: "20260102_a-thinking", PIXELS: "20260102_b-seeing"}
    for name, entry in entries.items():
        assert list(table(board, default_view(board, name)).index) == [entry]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_archive_of_three_tables_gives_each_a_name(three_tables: Path) -> None:
    archive(build_once(three_tables), three_tables, "v0")
    again = build_once(three_tables)
    shutil.rmtree(three_tables / ARCHIVES)
    names = [protocol.name for protocol in again.content.facts.protocols]
    assert names == ["v1", THINKING, PIXELS, "v0", f"v0-{THINKING}", f"v0-{PIXELS}"]


def test_an_archive_is_not_called_like_the_present_protocol(built: Built, folder: Path) -> None:
    archive(built, folder, "v1")
    with pytest.raises(UserError, match="two protocols are called v1"):
        build(folder, INITS)


@pytest.mark.slow
def test_reruns_are_on_the_board(submissions: Path, folder: Path) -> None:
    copied(submissions / POLICY, folder)
    (folder / "reruns.yaml").write_text(
        f'{POLICY}: [{{date: "2026-02-01", by: Ada, note: the same}}]\n'
    )
    (row,) = build(folder, INITS, env_processes=1).content.rows
    assert (row.badges.rerun, row.badges.rerun_note) == (True, "2026-02-01, Ada: the same")
    (folder / "reruns.yaml").write_text(
        f'{POLICY}: [{{date: "2026-02-01", by: Ada, note: the same, sample: {{commit: {"a" * 40}, '
        "what: updates, count: 6, equal: 6, holds: true}}]\n"
    )
    (row,) = build(folder, INITS, env_processes=1).content.rows
    assert (row.badges.rerun, row.badges.retrained) == (False, 6)
    assert badges_of(row) == ("replayed", "first updates trained again")
    assert row.badges.rerun_note == "2026-02-01, Ada: the same"
    (folder / "reruns.yaml").write_text(
        f'{POLICY}: [{{date: "2026-02-01", by: Ada, note: others, sample: {{commit: {"a" * 40}, '
        "what: episodes, count: 160, equal: 6, holds: false}}]\n"
    )
    (row,) = build(folder, INITS, env_processes=1).content.rows
    assert badges_of(row) == ("replayed", "rerun failed")


@pytest.mark.slow
def test_a_log_that_no_command_can_repeat_is_shown_without_one(
    submissions: Path, folder: Path
) -> None:
    on_track(copied(submissions / TRAINED, folder), off_it_with_words_for_settings)
    (row,) = build(folder, INITS, env_processes=1, train_command=train_command).content.rows
    for point in row.checkpoints:
        assert point.commands[0].startswith(f"# seed {point.seed}: the log's configuration is not")


def off_it_with_words_for_settings(start: Line) -> None:
    start["track"] = None
    start["configuration"]["tasks"] = {"sokoban": "x"}
