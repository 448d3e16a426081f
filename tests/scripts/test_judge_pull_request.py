"""The judge of pull requests, on real commits: gives a verdict or a reason, and runs nothing."""

import html
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from baselines.inits.registry import read_registry
from scripts.judge_pull_request import main
from tasks.seeding import sha256_text
from tests.support.submissions.repositories import bare_repository, bomb, commit, git, put
from tests.support.submissions.small import Copy, Json, copied

VICTIM = "20260101_victim"
FOLDER = "20260102_policy"


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory, submissions: Path) -> dict[str, Path]:
    """A policy's submission, and one of a training run from the shipped init."""
    copy = copied(submissions / "20260102_trained", tmp_path_factory.mktemp("entries"))
    digest = read_registry()["tiny-sokoban"].sha256
    copy.about(lambda about: about["init"].update(sha256=digest))
    for seed in (0, 1):
        copy.log(lambda lines: lines[0]["init"].update(sha256=digest), seed)
    return {"policy": submissions / FOLDER, "trained": copy.folder}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The base branch without any submission."""
    root = tmp_path / "base"
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", str(root))
    put(root, "README.md")
    put(root, "submissions/README.md")
    commit(root)
    return root


def pull_request(clone: Path, change: Callable[[Path], object], fork: str = "main") -> str:
    """Make a pull request's commits; the clone is on the base branch again afterward.

    Returns:
        Its last commit.
    """
    git(clone, "checkout", "--quiet", "--detach", fork)
    change(clone)
    head = commit(clone)
    git(clone, "checkout", "--quiet", "--force", "main")
    return head


def judged(clone: Path, head: str, base: str = "HEAD") -> tuple[int, str, Json | None]:
    """Exit code, comment and verdict."""
    out = clone.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    told = [
        "--repository",
        str(clone),
        "--base-branch",
        "main",
        "--head",
        head,
        "--base",
        base,
        "--out",
        str(out),
    ]
    code = main(told)
    file = out / "verdict.json"
    verdict: Json | None = json.loads(file.read_bytes()) if file.exists() else None
    return code, (out / "comment.md").read_text("utf-8"), verdict


def adds(folder: Path) -> Callable[[Path], object]:
    """A pull request that adds a folder."""
    return lambda root: shutil.copytree(folder, root / "submissions" / folder.name)


@pytest.mark.slow
def test_a_submission_is_accepted(clone: Path, entries: dict[str, Path]) -> None:
    code, text, verdict = judged(clone, pull_request(clone, adds(entries["policy"])))
    assert code == 0
    assert text.startswith(f"## Submission `{FOLDER}`\n\nAccepted. 256 episodes were replayed")
    assert verdict is not None
    assert (verdict["accepted"], verdict["submission"]) == (True, FOLDER)
    assert not (clone / "submissions" / FOLDER).exists()


def test_what_else_is_touched_is_a_finding(clone: Path, entries: dict[str, Path]) -> None:
    def change(root: Path) -> None:
        adds(entries["policy"])(root)
        put(root, "README.md", "better\n")

    code, text, verdict = judged(clone, pull_request(clone, change))
    assert code == 1
    assert verdict is not None
    (finding,) = verdict["findings"]
    assert finding["problem"] == "the pull request changes README.md"
    assert "the pull request changes README.md" in html.unescape(text)


def other_weights(copy: Copy, number: int, run: str) -> None:
    """Claim that a checkpoint has other weights."""
    model = {"sha256": sha256_text(f"stolen {number}")}
    copy.about(lambda about: about["checkpoints"][number]["model"].update(model))
    copy.manifest(lambda manifest: manifest["model"].update(model), run)


@pytest.mark.slow
def test_the_comparison_is_with_what_the_base_has_by_now(
    clone: Path, entries: dict[str, Path]
) -> None:
    """A branch from before somebody's submission cannot copy its records."""
    fork = git(clone, "rev-parse", "main")
    victim = copied(entries["trained"], clone / "submissions")
    victim.folder.rename(clone / "submissions" / VICTIM)
    Copy(clone / "submissions" / VICTIM).about(lambda about: about.update(date="2026-01-01"))
    commit(clone)

    def steal(root: Path) -> None:
        assert not (root / "submissions" / VICTIM).exists()
        copy = copied(entries["trained"], root / "submissions")
        for number, run in enumerate(("runs/r0", "runs/r1")):
            other_weights(copy, number, run)
        copy.about(lambda about: about.update(name="Thief"))

    code, _, verdict = judged(clone, pull_request(clone, steal, fork))
    assert code == 1
    assert verdict is not None
    problem = "256 of 256 episodes have the answers and log-probabilities of 20260101_victim"
    assert any(finding["problem"].startswith(problem) for finding in verdict["findings"])


@pytest.mark.slow
def test_a_broken_entry_of_somebody_else_is_left_out(clone: Path, entries: dict[str, Path]) -> None:
    put(clone, "submissions/20260101_broken/README.md")
    commit(clone)
    code, text, verdict = judged(clone, pull_request(clone, adds(entries["policy"])))
    assert code == 0
    assert verdict is not None
    (note,) = verdict["notes"]
    assert note.startswith("not compared with 20260101_broken: submission.json: cannot be read")
    assert "not compared with 20260101_broken" in html.unescape(text).replace("</code>", "")


def test_submissions_as_a_repository_runs_nothing(clone: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    def change(root: Path) -> None:
        bare_repository(root / "submissions" / FOLDER, f"touch {ran}; false")
        for name in ("HEAD", "config", "objects", "refs"):
            (root / "submissions" / name).symlink_to(f"{FOLDER}/{name}")
            (root / name).symlink_to(f"submissions/{FOLDER}/{name}")

    code, text, _ = judged(clone, pull_request(clone, change))
    assert code == 1
    assert "the pull request adds submissions/config" in html.unescape(text)
    assert not ran.exists()


def test_a_reason_is_harmless(clone: Path) -> None:
    """Anyone can choose the names in a comment."""

    def change(root: Path) -> None:
        put(root, f"submissions/{FOLDER}/README.md")
        put(root, "submissions/<img src=x>@octocat/README.md")

    code, text, verdict = judged(clone, pull_request(clone, change))
    assert (code, verdict) == (1, None)
    assert text.startswith("A pull request adds one folder to submissions/, called &lt;yyyymmdd")
    assert "img src" in text
    assert not set(text) & set("@[]!`")
    assert "<img" not in text


def link(root: Path) -> None:
    put(root, f"submissions/{FOLDER}/README.md")
    (root / "submissions" / FOLDER / "run.json").symlink_to("/etc/passwd")


def large(root: Path) -> None:
    put(root, f"submissions/{FOLDER}/README.md", "x" * (10 * 2**20 + 1))


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda root: put(root, "x"), 1, "touches: none"),
        (lambda root: put(root, f"submissions/{FOLDER}"), 1, "touches: none"),
        (lambda root: put(root, "submissions/Mine/x"), 1, "touches: <code>Mine</code>"),
    ],
)
def test_there_is_always_a_comment(
    clone: Path, change: Callable[[Path], object], code: int, message: str
) -> None:
    found, text, verdict = judged(clone, pull_request(clone, change))
    assert (found, verdict) == (code, None)
    assert message in html.unescape(text)


@pytest.mark.parametrize(
    ("change", "problem", "fix"),
    [
        (link, f"submissions/{FOLDER}/run.json is a link or a submodule", "send regular files"),
        (
            large,
            f"submissions/{FOLDER} holds more than 289 files or 10,485,760 bytes",
            "put records on the hub (submit to-hub)",
        ),
    ],
)
def test_a_folder_that_cannot_be_taken_out_is_rejected(
    clone: Path, change: Callable[[Path], object], problem: str, fix: str
) -> None:
    code, text, verdict = judged(clone, pull_request(clone, change))
    assert code == 1
    shown = html.unescape(text)
    assert shown.startswith(f"## Submission `{FOLDER}`\n\nRejected: 1 finding.\n")
    assert f"<code>{problem}</code> | <code>{fix}</code>" in shown
    assert verdict is not None
    assert (verdict["accepted"], verdict["submission"]) == (False, FOLDER)
    (finding,) = verdict["findings"]
    assert (finding["problem"], finding["fix"]) == (problem, fix)


def test_a_pull_request_without_end_is_rejected(clone: Path) -> None:
    sha = git(clone, "rev-parse", "HEAD:README.md")
    code, text, verdict = judged(clone, bomb(clone, f"submissions/{FOLDER}", "100644", sha))
    assert code == 1
    assert text.startswith("## Submission\n\nRejected: 1 finding.\n")
    assert verdict is not None
    assert verdict["findings"][0]["problem"].startswith("the list of files is longer than")


def test_a_folder_that_is_taken_away(clone: Path) -> None:
    put(clone, f"submissions/{FOLDER}/README.md")
    commit(clone)
    head = pull_request(clone, lambda root: shutil.rmtree(root / "submissions" / FOLDER))
    code, text, _ = judged(clone, head)
    assert code == 1
    assert f"submissions/{FOLDER} is not in the pull request" in html.unescape(text)


@pytest.mark.parametrize(
    ("head", "base", "message"),
    [
        ("f" * 40, "HEAD", "--head 'ffff"),
        ("main", "nowhere", "--base 'nowhere': the repository has no such commit"),
        ("--output=x", "HEAD", "--head takes a commit or branch"),
    ],
)
def test_commits_that_are_not_there(clone: Path, head: str, base: str, message: str) -> None:
    out = clone.parent / "out"
    told = [
        "--repository",
        str(clone),
        "--base-branch",
        "main",
        f"--head={head}",
        f"--base={base}",
        f"--out={out}",
    ]
    assert main(told) == 2
    text = html.unescape((out / "comment.md").read_text())
    assert "The check could not be completed, so there is no verdict:" in text
    assert message in text


def test_nothing_foreign_reaches_the_log_as_it_is(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither terminal escapes nor, on a separate line, commands to the runner."""
    wild = "\x1b]0;x\x07\n::error::x\u202e"
    out = str(clone.parent / f"out{wild}")
    told = ["--repository", str(clone), "--base-branch", "main", "--out", out]
    assert main([*told, "--head", wild]) == 2
    said = capsys.readouterr().err
    assert "--head" in said
    for place in (clone / "README.md" / wild, clone / "README.md"):
        assert main([*told[:-1], str(place), "--head", "main"]) == 2
        said += capsys.readouterr().err
    lines = said.splitlines()
    assert len(lines) == 3 and all(line.isprintable() for line in lines)
    assert "U+001B]0;xU+0007U+000A::error::xU+202E" in said


def test_a_place_that_cannot_be_written(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = clone / "README.md"
    told = ["--repository", str(clone), "--base-branch", "main", "--head", "main", "--out"]
    for place, reason in ((out, "File exists"), (out / "x", "Not a directory")):
        assert main([*told, str(place)]) == 2
        said = f"judge_pull_request: --out {place} cannot be written: {reason}\n"
        assert capsys.readouterr().err == said


def test_a_judge_that_breaks_leaves_a_comment(
    clone: Path, entries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If killed or broken, it has already reported that it did not finish."""
    head = pull_request(clone, adds(entries["policy"]))
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    with pytest.raises(NotADirectoryError):
        judged(clone, head)
    text = (clone.parent / "out" / "comment.md").read_text()
    assert "it did not come to its end" in html.unescape(text)
