"""`arlarena-bench submit check`: exit codes, what is printed, and what is written for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from baselines.registry import read_registry
from benchmark.cli import main
from tests.benchmark.submissions.conftest import Copies
from tests.submissions import Copy, Json, copied

FINDING = {"file", "field", "problem", "fix"}


def real_init(copy: Copy) -> None:
    """Starts a trained submission from the init that is shipped."""
    digest = read_registry()["tiny-sokoban"].sha256
    copy.about(lambda about: about["init"].update(sha256=digest))
    for seed in (0, 1):
        copy.log(lambda lines: lines[0]["init"].update(sha256=digest), seed)


def verdict_of(folder: Path, *options: str) -> tuple[int, Json, str]:
    """Exit code, verdict for programs, and comment."""
    files = folder.parent.parent / "verdict.json", folder.parent.parent / "comment.md"
    written = ["--json", str(files[0]), "--comment", str(files[1])]
    code = main(["submit", "check", str(folder), *written, *options])
    content: dict[str, Any] = json.loads(files[0].read_bytes())
    return code, content, files[1].read_text("utf-8")


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
        "replayed_episodes",
        "turns_in_doubt",
        "badges",
        "panels",
        "stability",
        "stability_infinite",
    }
    assert (content["report_version"], content["submission"]) == (1, "20260102_trained")
    assert (content["accepted"], content["findings"]) == (True, [])
    assert (content["replayed_episodes"], content["turns_in_doubt"]) == (512, 0)
    badges = {"replayed": True, "stability": "logs", "init": "fixed", "rerun": False}
    assert content["badges"] == badges
    (panel,) = content["panels"].values()
    assert set(content["panels"]) == {"sokoban/builtin"}
    assert panel["seeds"] == {"0": 152 / 256, "1": 157 / 256}
    assert panel["success"]["value"] == pytest.approx(309 / 512)
    assert (panel["format_valid"], panel["errors"]) == (1.0, 0)
    assert content["stability"]["collapse_rate"] == 0.0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("sokoban/builtin: success 60.4% [")
    assert printed[1] == "20260102_trained: accepted, 512 episodes replayed and all hold"
    assert "Badges: replayed, stability: logs, init: fixed" in text
    assert "| sokoban/builtin | 60.4% [55.9, 64.7] | 59.4, 61.3 | 100.0% | 11.0 |" in text


def test_a_rejected_submission(
    entries: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The init of the test's logs is not the one that is shipped."""
    code, content, text = verdict_of(copied(trained, entries).folder)
    assert code == 1
    assert content["accepted"] is False
    assert (content["badges"], content["panels"], content["stability"]) == (None, None, None)
    (finding,) = content["findings"]
    assert set(finding) == FINDING
    assert (finding["file"], finding["field"]) == ("submission.json", "init")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("submission.json, init: the init tiny-sokoban has other weights")
    assert printed[1] == "20260102_trained: not accepted, 1 finding(s)"
    assert "Not accepted: 1 finding(s)." in text


def test_different_panels_are_a_finding_also_beside_others(
    entries: Path, policy: Path, trained: Path
) -> None:
    """What is compared with others must be whole: of a rejected submission nothing is."""
    copied(policy, entries)
    copy = copied(trained, entries)
    copy.manifest(lambda run: run["panels"][0].update(panel="two_boxes"), "runs/r1")
    code, content, _ = verdict_of(copy.folder)
    assert code == 1
    assert content["findings"]


def test_a_submission_is_compared_with_its_init_and_with_the_best(
    entries: Path, trained: Path, copies: Copies
) -> None:
    """The init solves what seed 0 solves, the best so far what it and seed 1 solve."""
    digest = read_registry()["tiny-sokoban"].sha256
    init = copied(trained, entries).folder.rename(entries / "20260102_init")
    as_init(Copy(init), digest)
    best = copied(trained, entries).folder.rename(entries / "20260102_best")
    as_other(Copy(best))
    mine = copied(trained, entries)
    real_init(mine)
    for run in ("runs/r0", "runs/r1"):
        mine.records(perturb, run)
    code, _, text = verdict_of(mine.folder)
    assert code == 0, text
    rows = [line for line in text.splitlines() if line.startswith("| sokoban/builtin | <code>")]
    assert [row.split("</code>")[0] for row in rows] == [
        "| sokoban/builtin | <code>its init",
        "| sokoban/builtin | <code>the best so far",
    ]
    # Seeds 0 and 1 solve 152 and 157 of 256, the init as much as seed 0: half of 5/256 more.
    assert "+1.0 [" in rows[0]
    assert "+0.0 [+0.0, +0.0], p = 1.000, 256 episodes" in rows[1]


def as_init(copy: Copy, digest: str | None) -> None:
    """Makes an init's submission of a trained one: seed 0's records alone."""

    def change(about: Json) -> None:
        about["method"]["kind"] = "init"
        about["init"] = None
        about["checkpoints"] = about["checkpoints"][:1]
        about["checkpoints"][0]["training_log"] = None
        about["checkpoints"][0]["model"] = model
        kept = ("README.md", "runs/r0/")
        about["files"] = [file for file in about["files"] if file["path"].startswith(kept)]

    model = {"name": "tiny-sokoban", "kind": "init", "revision": None, "sha256": digest}
    for name in ("training/s0.jsonl.zst", "training/s1.jsonl.zst"):
        (copy.folder / name).unlink()
    for name in ("run.json", "episodes.jsonl.zst", "summary.json"):
        (copy.folder / "runs" / "r1" / name).unlink()
    copy.manifest(lambda run: run.update(model=model))
    copy.about(change)


def as_other(copy: Copy) -> None:
    """Makes other weights of both seeds."""
    hashes = ["0" * 64, "1" * 64]

    def change(about: Json) -> None:
        for point, digest in zip(about["checkpoints"], hashes, strict=True):
            point["model"]["sha256"] = digest

    copy.about(change)
    copy.manifest(lambda run: run["model"].update(sha256=hashes[0]), "runs/r0")
    copy.manifest(lambda run: run["model"].update(sha256=hashes[1]), "runs/r1")


def perturb(records: list[Json]) -> None:
    """Other log-probabilities, as of other weights."""
    for record in records:
        record["turns"][0]["log_prob"] -= 0.25


def test_a_broken_neighbour_is_a_mistake_of_ones_own(
    entries: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copied(policy, entries)
    (entries / "20260101_old").mkdir()
    assert main(["submit", "check", str(copy.folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "20260101_old: submission.json: cannot be read" in line
    (entries / "elsewhere").mkdir()
    aside = ["--submissions", str(entries / "elsewhere")]
    assert main(["submit", "check", str(copy.folder), *aside]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--base", "--output=x"], "--base"),
        (["--base", "main"], "not a git repository"),
        (["--json", "nowhere/x.json"], "nowhere/x.json cannot be written"),
        (["--comment", "nowhere/x.md"], "nowhere/x.md cannot be written"),
        (["--submissions", "nowhere"], "--submissions nowhere is no folder"),
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
    except SystemExit as left:  # argparse takes `--output=x` for an option
        code = int(left.code or 0)
    assert code == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_no_folder_and_the_folder_one_is_in(
    entries: Path,
    policy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["submit", "check", str(entries / "20260102_none")]) == 1
    assert "20260102_none is no folder; name a submission's folder" in capsys.readouterr().out
    monkeypatch.chdir(copied(policy, entries).folder)
    assert main(["submit", "check", "."]) == 0


@pytest.mark.parametrize("name", ["20260102_Expert", "2026_x", "expert", "20260102_a\x1b[2J"])
def test_a_folder_of_another_name(
    entries: Path, policy: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = copied(policy, entries).folder.rename(entries / name)
    assert main(["submit", "check", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "is no name of a submission; call it <yyyymmdd>_<name>" in out
    assert all(line.isprintable() for line in out.splitlines())
