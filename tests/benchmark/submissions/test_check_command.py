"""`arlarena-bench submit check`: exit codes, printed output, and output for programs."""

import gc
import html
from collections.abc import Iterator
from pathlib import Path

import pytest

from baselines.inits.registry import read_registry
from benchmark.cli.main import main
from benchmark.stats.intervals import wilson
from benchmark.submissions.check import check_submission, read_accepted
from benchmark.submissions.checks.accepted_entries import AcceptedEntry
from benchmark.submissions.checks.context import Context
from benchmark.submissions.plays import likeness
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.report import escaped
from tests.support.submissions.check_command import real_init, verdict_of
from tests.support.submissions.local_hub import Reply, serving
from tests.support.submissions.small import Copy, Json, as_init, copied
from tests.support.training.logs import Line

FINDING = {"file", "field", "problem", "fix", "until_rerun"}


@pytest.fixture
def entries(tmp_path: Path) -> Path:
    (tmp_path / "entries").mkdir()
    return tmp_path / "entries"


def test_an_accepted_submission(
    entries: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copied(trained, entries)
    real_init(copy)
    code, content, text = verdict_of(copy.folder)
    assert code == 0
    assert set(content) == {
        "report_version",
        "submission",
        "accepted",
        "findings",
        "notes",
        "replayed_episodes",
        "turns_in_doubt",
        "badges",
        "panels",
        "stability",
        "stability_infinite",
        "foreign_stability",
        "track",
    }
    assert (content["report_version"], content["submission"]) == (1, "20260102_trained")
    assert (content["accepted"], content["findings"], content["notes"]) == (True, [], [])
    assert (content["replayed_episodes"], content["turns_in_doubt"]) == (512, 0)
    proven = {"replayed": True, "stability": "logs", "init": "fixed"}
    assert content["badges"] == proven | {"rerun": False, "retrained": 0, "contradicted": False}
    (panel,) = content["panels"].values()
    assert set(content["panels"]) == {"sokoban/builtin"}
    assert panel["seeds"] == {"0": 151 / 256, "1": 156 / 256}
    assert panel["success"]["value"] == pytest.approx(307 / 512)
    assert (panel["format_valid"], panel["errors"]) == (1.0, 0)
    assert content["stability"]["collapse_rate"] == 0.0
    assert "| badges | replayed, stability: logs, init: fixed |" in text
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "20260102_trained: accepted, 512 episodes replayed, all match"
    assert max(map(len, printed)) <= 100
    for line in (
        "badges: replayed, stability: logs, init: fixed",
        "sokoban/builtin  60.0% [46.8, 73.1]  59.0, 60.9  100.0%        11.0",
        "collapse rate              0 of 2 seeds   seeds that collapse",
        "Nothing to compare with yet.",
    ):
        assert line in printed
    # The last column wraps within itself.
    at = printed.index(f"{' ' * 42}updates")
    assert printed[at - 1].startswith("mismatch, P95 (median)     2.78e-07 nats  k3 of trainer to ")
    assert printed[at - 1].endswith("95th percentile of")
    (seed,) = [line for line in printed if line.startswith("0     20 of 20 ")]
    assert seed.endswith("update 20 of 20, the last one")
    assert "| sokoban/builtin | 60.0% [46.8, 73.1] | 59.0, 60.9 | 100.0% | 11.0 |" in text


def test_a_rejected_submission(
    entries: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The init of the test's logs is not the shipped one."""
    code, content, text = verdict_of(copied(trained, entries).folder)
    assert code == 1
    assert content["accepted"] is False
    assert (content["badges"], content["panels"], content["stability"]) == (None, None, None)
    (finding,) = content["findings"]
    assert set(finding) == FINDING
    assert (finding["file"], finding["field"]) == ("submission.json", "init")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("submission.json, init: the init tiny-sokoban has other weights")
    assert printed[1] == "20260102_trained: rejected, 1 finding"
    assert "Rejected: 1 finding." in text


def test_different_panels_are_a_finding_also_beside_others(
    entries: Path, policy: Path, trained: Path
) -> None:
    """Only complete submissions are compared with others, so rejected ones are not."""
    copied(policy, entries)
    copy = copied(trained, entries)
    copy.manifest(lambda run: run["panels"][0].update(panel="two_boxes"), "runs/r1")
    code, content, _ = verdict_of(copy.folder)
    assert code == 1
    assert content["findings"]


@pytest.mark.slow
def test_a_submission_is_compared_with_its_init_and_with_the_best(
    entries: Path,
    trained: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The init solves what seed 0 solves; the best other entry solves what it and seed 1 solve."""
    # All three are copies of one entry, which this test must ignore.
    monkeypatch.setattr(likeness, "FEWEST_ALIKE", 257)
    digest = read_registry()["tiny-sokoban"].sha256
    init = copied(trained, entries).folder.rename(entries / "20260102_init")
    as_init(Copy(init), digest)
    best = copied(trained, entries).folder.rename(entries / "20260102_best")
    as_other(Copy(best))
    mine = copied(trained, entries)
    real_init(mine)
    for run in ("runs/r0", "runs/r1"):
        mine.records(perturb, run)
    assert verdict_of(mine.folder)[0] == 1
    found = capsys.readouterr().out
    assert found.count("but tiny-sokoban has 59.0% in 20260102_init/runs/r0") == 2
    for seed in (0, 1):
        mine.log(begins_as_its_init, seed)
    code, _, text = verdict_of(mine.folder)
    assert code == 0, text
    rows = [line for line in text.splitlines() if line.startswith("| sokoban/builtin | <code>")]
    assert [row.split("</code>")[0] for row in rows] == [
        "| sokoban/builtin | <code>its init",
        "| sokoban/builtin | <code>the best other",
    ]
    # Seeds 0 and 1 solve 151 and 156 of 256, the init as many as seed 0: half of 5/256 more.
    assert "+1.0 [" in rows[0]
    # Seeds of .590 and .609 on both sides: t(2) = 4.303 times the root of 2 (5/256)^2 / 4.
    name = "paired over episodes and seeds (Newcombe, Welch)"
    test = "sign-flip between these checkpoints p = 1.000"
    assert f"+0.0 [-5.9, +5.9], {name}; {test}, 256 episodes" in rows[1]
    printed = capsys.readouterr().out.splitlines()
    best_other = "sokoban/builtin  the best other (The best)  +0.0 [-5.9, +5.9], paired over "
    assert any(line.startswith(best_other) for line in printed)
    assert any(
        line.startswith("sokoban/builtin  its init (The init)        +1") for line in printed
    )
    assert max(map(len, printed)) <= 100


def begins_as_its_init(lines: list[Line]) -> None:
    found = wilson(151, 256)
    first = next(line for line in lines if line["kind"] == "validation")
    first |= {"success": found.value, "wilson_low": found.low, "wilson_high": found.high}


def as_other(copy: Copy) -> None:
    """Give both seeds other weights, without logs."""
    hashes = ["0" * 64, "1" * 64]

    def change(about: Json) -> None:
        about["name"] = "The best"
        about["files"] = [file for file in about["files"] if "training" not in file["path"]]
        for point, digest in zip(about["checkpoints"], hashes, strict=True):
            point["model"]["sha256"] = digest
            (copy.folder / point["training_log"]).unlink()
            point["training_log"] = None

    copy.about(change)
    copy.manifest(lambda run: run["model"].update(sha256=hashes[0]), "runs/r0")
    copy.manifest(lambda run: run["model"].update(sha256=hashes[1]), "runs/r1")


def perturb(records: list[Json]) -> None:
    """Change log-probabilities, as if from other weights."""
    for record in records:
        for turn in record["turns"]:
            turn["log_prob"] -= 0.25


@pytest.mark.slow
def test_a_broken_neighbor_stops_nobody(
    entries: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The invalid entry is excluded from the comparison, which all outputs mention."""
    copy = copied(policy, entries)
    (entries / "20260101_old").mkdir()
    (entries / "20260101_plain").write_text("a file")
    code, content, text = verdict_of(copy.folder)
    assert code == 0
    notes = content["notes"]
    assert [note.partition(": ")[0] for note in notes] == [
        "not compared with 20260101_old",
        "not compared with 20260101_plain",
    ]
    assert "submission.json: cannot be read: No such file" in notes[0]
    assert "is not a folder" in notes[1]
    printed = capsys.readouterr().out.splitlines()
    assert [f"note: {note}" for note in notes] == printed[:2]
    assert "Not included in this check:" in text
    assert all(f"- {escaped(note)}" in text.splitlines() for note in notes)
    (entries / "elsewhere").mkdir()
    code, content, text = verdict_of(copy.folder, "--submissions", str(entries / "elsewhere"))
    assert (code, content["notes"]) == (0, [])
    assert "Left out" not in text


@pytest.mark.slow
def test_a_neighbor_that_leads_nowhere_stops_nobody(entries: Path, policy: Path) -> None:
    (entries / "20260101_loop").symlink_to("20260101_loop")
    (entries / "20260101_gone").symlink_to("nowhere")
    code, content, _ = verdict_of(copied(policy, entries).folder)
    assert code == 0
    assert [note.partition(":")[0] for note in content["notes"]] == [
        "not compared with 20260101_gone",
        "not compared with 20260101_loop",
    ]
    assert all("is not a folder" in note for note in content["notes"])


@pytest.mark.parametrize("option", ["--json", "--comment"])
def test_outputs_are_tried_before_the_work(
    entries: Path, policy: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """If the folder had been checked, its finding would have been reported instead."""
    copy = copied(policy, entries)
    (copy.folder / "README.md").unlink()
    other = {"--json": "--comment", "--comment": "--json"}[option]
    written = entries / "written"
    for place, reason in (
        (entries, "it is a folder; choose a file name"),
        (entries / "x" / "y", "No such"),
    ):
        told = [option, str(place), other, str(written)]
        assert main(["submit", "check", str(copy.folder), *told]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert f"{place} cannot be written: {reason}" in said.err
    assert not written.exists()
    assert [path.name for path in entries.iterdir()] == [copy.folder.name]


def test_a_name_that_no_file_can_have(entries: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "check", str(entries / f"20260102_{'a' * 300}")]) == 1
    assert "the folder: cannot be read: File name too long" in capsys.readouterr().out


@pytest.mark.slow
def test_an_author_who_deletes_a_dataset_stops_nobody(
    entries: Path, policy: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gone = copied(trained, entries)
    name = "runs/r0/episodes.jsonl.zst"
    address = f"https://huggingface.co/datasets/a/b/resolve/{'0' * 40}/x.zst"

    def move(about: Json) -> None:
        (file,) = [file for file in about["files"] if file["path"] == name]
        file["url"] = address

    gone.about(move)
    (gone.folder / name).unlink()
    other = gone.folder.rename(entries / "20260102_gone")
    with serving(lambda asked: Reply(b"", 404)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        code, content, _ = verdict_of(copied(policy, entries).folder)
        assert code == 0
        (note,) = content["notes"]
        assert note.startswith(f"not compared with {other.name}: {name}: ")
        assert note.endswith("; rebuild the folder with submit prepare")
        assert f"{address} cannot be fetched: the hub answers with status 404" in note


@pytest.mark.slow
def test_the_others_are_read_one_by_one(policy: Path, trained: Path) -> None:
    """However many others there are, none stays in memory with its records."""
    alive = []

    def others() -> Iterator[AcceptedEntry]:
        for _ in range(6):
            yield AcceptedEntry.of(read_accepted(trained))
            alive.append(sum(isinstance(each, Entry) for each in gc.get_objects()))

    verdict = check_submission(policy, Context({}, others()))
    assert len(verdict.peers) == 6
    assert max(alive) <= alive[0] + 1


def test_a_check_that_cannot_be_made_says_so_in_the_comment(
    entries: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copied(policy, entries)
    file = entries / "comment.md"
    told = ["submit", "check", str(copy.folder), "--comment", str(file), "--base", "<b>|@x"]
    assert main(told) == 2
    assert "is not in a git repository" in capsys.readouterr().err
    text = file.read_text()
    assert text.startswith("## Submission `20260102_policy`\n")
    assert "The check could not be completed, so there is no verdict:" in text
    assert "is not in a git repository" in html.unescape(text)


def test_a_row_that_cannot_be_computed_is_a_finding(
    entries: Path,
    policy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("in the row")

    copy = copied(policy, entries)
    monkeypatch.setattr("leaderboard.board.build.row_of", broken)
    code, content, text = verdict_of(copy.folder)
    assert (code, content["accepted"]) == (1, False)
    (finding,) = content["findings"]
    assert "ZeroDivisionError" in finding["problem"] and "ZeroDivisionError" in text
    assert capsys.readouterr().out.endswith("20260102_policy: rejected, 1 finding\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--base", "--output=x"], "--base"),
        (["--base", "main", "--repository", "nowhere"], "nowhere is not a git repository"),
        (["--head", "main"], "--head and --repository need --base"),
        (["--submissions", "nowhere"], "--submissions nowhere is not a folder"),
    ],
)
def test_mistakes_of_the_user(
    entries: Path,
    policy: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    folder = copied(policy, entries).folder
    try:
        code = main(["submit", "check", str(folder), *options])
    except SystemExit as left:  # argparse treats `--output=x` as an option
        code = int(left.code or 0)
    assert code == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_no_folder_and_the_folder_one_is_in(
    entries: Path,
    policy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["submit", "check", str(entries / "20260102_none")]) == 1
    assert "20260102_none is not a folder; give a submission's folder" in capsys.readouterr().out
    monkeypatch.chdir(copied(policy, entries).folder)
    assert main(["submit", "check", "."]) == 0


INVALID = "is not a valid submission name; name it <yyyymmdd>_<name>"
CLAIM = "is what the board says of entries: remove it; rename the folder"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *((n, INVALID) for n in ("20260102_Expert", "2026_x", "expert", "20260102_a\x1b[2J")),
        *((n, CLAIM) for n in ("20260102_sampo-re-run", "20260102_s0ta-2026")),
    ],
)
def test_a_folder_of_another_name(
    entries: Path, policy: Path, capsys: pytest.CaptureFixture[str], name: str, problem: str
) -> None:
    folder = copied(policy, entries).folder.rename(entries / name)
    assert main(["submit", "check", str(folder)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert problem in out and out.isprintable()
