"""What a pull request may touch, seen in real git repositories."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmark.submissions.changes import check_changes
from scripts.judge_pull_request import added
from scripts.judge_pull_request import main as judge
from tasks.errors import UserError
from tests.submissions import check, copied

OLD = "submissions/20260101_old/README.md"
NEW = "submissions/20260102_new"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        capture_output=True,
        check=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"},
    )
    return done.stdout.decode().strip()


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "x")


def put(root: Path, name: str, content: str = "text\n") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose branch `entry` adds a submission."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    put(tmp_path, "README.md")
    put(tmp_path, OLD, "as accepted\n")
    commit(tmp_path)
    git(tmp_path, "checkout", "--quiet", "-b", "entry")
    put(tmp_path, f"{NEW}/README.md")
    put(tmp_path, f"{NEW}/runs/r0/run.json")
    commit(tmp_path)
    return tmp_path


def found(root: Path, base: str = "main") -> list[str]:
    return [finding.text for finding in check_changes(root / NEW, base)]


def test_a_new_folder_alone_is_in_order(root: Path) -> None:
    assert found(root) == []


def test_what_others_have_done_meanwhile_is_not_the_authors(root: Path) -> None:
    git(root, "checkout", "--quiet", "main")
    put(root, OLD, "mended by maintainers\n")
    put(root, "another.py")
    commit(root)
    git(root, "checkout", "--quiet", "entry")
    assert found(root) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root: put(root, "benchmark/x.py"), "adds benchmark/x.py"),
        (lambda root: put(root, "README.md", "better\n"), "changes README.md"),
        (lambda root: put(root, OLD, "forged\n"), f"changes {OLD}"),
        (lambda root: (root / OLD).unlink(), f"deletes {OLD}"),
        (lambda root: put(root, "submissions/20260101_old/x"), "adds submissions/20260101_old/x"),
        (lambda root: put(root, "submissions/reruns.yaml"), "adds submissions/reruns.yaml"),
        (lambda root: put(root, f"{NEW}er/README.md"), f"adds {NEW}er/README.md"),
        (lambda root: put(root, ".github/workflows/x.yml"), "adds .github/workflows/x.yml"),
        (lambda root: (root / OLD).rename(root / NEW / "README.md"), f"deletes {OLD}"),
        (lambda root: (root / "README.md").chmod(0o755), "changes README.md"),
        (lambda root: put(root, "a\nb\x1b[2J"), r"adds a\nb\x1b[2J"),
    ],
)
def test_everything_else_is_named(
    root: Path, change: Callable[[Path], object], message: str
) -> None:
    change(root)
    commit(root)
    fix = f"; a submission touches nothing but {NEW}/"
    assert f"changes: the pull request {message}" + fix in found(root)
    assert all(text.isprintable() for text in found(root))


def test_an_accepted_folder_stays_as_it_is(root: Path) -> None:
    git(root, "checkout", "--quiet", "main")
    git(root, "merge", "--quiet", "entry")
    git(root, "checkout", "--quiet", "-b", "again")
    put(root, f"{NEW}/README.md", "with hindsight\n")
    put(root, f"{NEW}/more")
    commit(root)
    (text,) = found(root)
    assert f"{NEW}/README.md is there already; send a new folder" in text


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("--output=/tmp/x", "--base takes a commit or branch, not '--output=/tmp/x'"),
        ("nowhere", "git merge-base: "),
        ("", "git merge-base: "),
    ],
)
def test_a_base_that_is_none(root: Path, base: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_changes(root / NEW, base)


def test_a_folder_outside_of_any_repository(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="git rev-parse: .*not a git repository"):
        check_changes(tmp_path, "main")


def test_the_judge_takes_one_folder_and_names_others_harmlessly(root: Path, tmp_path: Path) -> None:
    assert added(root, "main") == ["20260102_new"]
    put(root, "submissions/<img src=x>@octocat/README.md")
    commit(root)
    (tmp_path / "out").mkdir()
    options = ["--head", str(root), "--base", "main", "--out", str(tmp_path / "out")]
    assert judge(options) == 1
    text = (tmp_path / "out" / "comment.md").read_text()
    assert text.startswith("A pull request adds one folder to submissions/; this one touches: ")
    assert "img src" in text
    assert not set(text) & set("@[]!`")
    assert "<img" not in text


def test_the_check_looks_at_changes_where_there_is_a_base(root: Path, policy: Path) -> None:
    copy = copied(policy, root / "submissions")
    put(root, "README.md", "better\n")
    commit(root)
    verdict = check(copy.folder, base="main")
    problems = [finding.problem for finding in verdict.findings]
    assert "the pull request changes README.md" in problems
    assert not verdict.accepted
    assert check(copy.folder).accepted
