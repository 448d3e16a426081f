"""The files that a pull request may change, tested on real git repositories."""

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from benchmark.submissions.checks.changes import (
    MAX_SHOWN,
    check_changes,
    export_folder,
)
from benchmark.submissions.format.findings import Rejected
from benchmark.submissions.reading.repository import Repository
from tasks.errors import UserError
from tests.support.submissions.repositories import (
    bare_repository,
    commit,
    git,
    promising,
    put,
    with_submission,
)
from tests.support.submissions.small import check, copied

OLD = "submissions/20260101_old/README.md"
NEW = "submissions/20260102_new"
TAKEN = f"changes: {NEW}/ already exists; send a new folder: accepted submissions never change"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose branch `entry` adds a submission."""
    clone = with_submission(tmp_path / "clone", OLD)
    git(clone, "checkout", "--quiet", "-b", "entry")
    put(clone, f"{NEW}/README.md")
    put(clone, f"{NEW}/runs/r0/run.json")
    commit(clone)
    return clone


def found(root: Path, base: str = "main") -> list[str]:
    return [finding.text for finding in check_changes(root / NEW, base)]


def test_a_new_folder_alone_is_in_order(root: Path) -> None:
    assert found(root) == []


def test_what_others_have_done_meanwhile_is_not_the_authors(root: Path) -> None:
    git(root, "checkout", "--quiet", "main")
    put(root, OLD, "fixed by maintainers\n")
    put(root, "another.py")
    commit(root)
    git(root, "checkout", "--quiet", "entry")
    assert found(root) == []


@pytest.mark.slow
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
    fix = f"; a submission may only change {NEW}/"
    assert f"changes: the pull request {message}" + fix in found(root)
    assert all(text.isprintable() for text in found(root))


def test_an_accepted_folder_stays_as_it_is(root: Path) -> None:
    git(root, "checkout", "--quiet", "main")
    git(root, "merge", "--quiet", "entry")
    git(root, "checkout", "--quiet", "-b", "again")
    put(root, f"{NEW}/README.md", "with hindsight\n")
    put(root, f"{NEW}/more")
    commit(root)
    assert found(root) == [TAKEN]


def test_a_name_that_somebody_else_has_used_since(root: Path) -> None:
    """The branch adds a folder, and the base now has one with the same name."""
    git(root, "checkout", "--quiet", "main")
    put(root, f"{NEW}/summary.json", "of another\n")
    commit(root)
    git(root, "checkout", "--quiet", "entry")
    assert found(root) == [TAKEN]


def test_an_accepted_folder_that_is_gone_by_now_stays_gone(root: Path) -> None:
    git(root, "checkout", "--quiet", "main")
    git(root, "merge", "--quiet", "entry")
    git(root, "checkout", "--quiet", "-b", "again")
    put(root, f"{NEW}/README.md", "with hindsight\n")
    commit(root)
    git(root, "checkout", "--quiet", "main")
    git(root, "rm", "-r", "--quiet", NEW)
    commit(root)
    git(root, "checkout", "--quiet", "again")
    assert found(root) == [TAKEN]


def test_many_changes_are_counted(root: Path) -> None:
    for number in range(MAX_SHOWN + 5):
        put(root, f"x{number}")
    commit(root)
    texts = found(root)
    assert len(texts) == MAX_SHOWN + 1
    assert "changes: 5 more paths are changed that must not be; " in texts[-1]


@pytest.mark.parametrize("kind", ["link", "submodule"])
def test_only_regular_files_are_added(root: Path, kind: str) -> None:
    if kind == "link":
        (root / NEW / "x").symlink_to("/etc/passwd")
        commit(root)
    else:
        here = git(root, "rev-parse", "HEAD")
        git(root, "update-index", "--add", "--cacheinfo", f"160000,{here},{NEW}/x")
        git(root, "commit", "--quiet", "--message", "x")
    problem = f"{NEW}/x is a link or a submodule"
    assert found(root) == [f"changes: {problem}; send regular files"]
    clone = Repository.at(root)
    with pytest.raises(Rejected, match=f"{problem}; send regular files"):
        export_folder(clone, clone.commit("HEAD", "--head"), "20260102_new", root / "out")


@pytest.mark.parametrize("setting", ["all", "dirty"])
def test_a_submodule_cannot_ask_to_be_ignored(root: Path, setting: str) -> None:
    here = git(root, "rev-parse", "HEAD")
    settings = f'[submodule "x"]\n\tpath = x\n\turl = ./x\n\tignore = {setting}\n'
    put(root, ".gitmodules", settings)
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{here},x")
    git(root, "add", ".gitmodules")
    git(root, "commit", "--quiet", "--message", "x")
    assert any("the pull request adds x;" in text for text in found(root))


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("--output=/tmp/x", "--base takes a commit or branch, not '--output=/tmp/x'"),
        ("nowhere", "--base 'nowhere': the repository has no such commit; fetch it first"),
        ("", "--base '': the repository has no such commit; fetch it first"),
    ],
)
def test_a_base_that_is_none(root: Path, base: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_changes(root / NEW, base)


def test_a_base_that_has_nothing_to_do_with_it(root: Path) -> None:
    git(root, "checkout", "--quiet", "--orphan", "other")
    commit(root)
    git(root, "checkout", "--quiet", "entry")
    with pytest.raises(UserError, match="have no commit in common; a shallow clone needs"):
        check_changes(root / NEW, "other")


def test_branches_that_were_merged_crosswise(root: Path) -> None:
    """Compared with only one of two merge bases, a changed file may look unchanged."""
    git(root, "checkout", "--quiet", "main")
    put(root, "README.md", "better\n")
    commit(root)
    git(root, "branch", "before")
    git(root, "merge", "--quiet", "entry")
    git(root, "checkout", "--quiet", "entry")
    git(root, "merge", "--quiet", "before")
    with pytest.raises(UserError, match="put the submission on a new branch of the base"):
        check_changes(root / NEW, "main")


def test_a_folder_outside_of_any_repository(tmp_path: Path, root: Path) -> None:
    with pytest.raises(UserError, match="is not in a git repository; give one with --repository"):
        check_changes(tmp_path / "20260102_x", "main")
    with pytest.raises(UserError, match="is not a git repository; give the root of a clone"):
        check_changes(root / NEW, "main", repository=tmp_path)
    (tmp_path / "20260102_new").mkdir()
    assert check_changes(tmp_path / "20260102_new", "main", "entry", root) == []


def test_a_repository_of_somebody_else_must_be_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.raises(UserError, match="is owned by another user; if you trust its settings"):
        check_changes(root / NEW, "main")
    assert check_changes(root / NEW, "main", repository=root) == []


def test_a_worktree_is_a_repository(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "--quiet", str(tmp_path / "tree"), "-b", "more")
    put(tmp_path / "tree", "another.py")
    commit(tmp_path / "tree")
    (finding,) = check_changes(tmp_path / "tree" / NEW, "main")
    assert finding.problem == "the pull request adds another.py"


def test_a_repository_in_the_folder_runs_nothing(root: Path, tmp_path: Path) -> None:
    """Git started in the folder mistakes it for a repository and runs the program it configures."""
    ran = tmp_path / "ran"
    bare_repository(root / NEW, f"touch {ran}; false")
    commit(root)
    assert found(root) == []
    assert not ran.exists()
    # The forgery works if git discovers the repository itself.
    base = git(root, "rev-parse", "main")
    with pytest.raises(CalledProcessError):
        git(root / NEW, "-c", "safe.bareRepository=all", "merge-base", base, "HEAD")
    assert ran.exists()


def test_a_repository_around_the_folder_runs_nothing(root: Path, tmp_path: Path) -> None:
    """`submissions/` itself is a repository, with links to allowed folders as its parts."""
    ran = tmp_path / "ran"
    bare_repository(root / NEW, f"touch {ran}; false")
    for name in ("HEAD", "config", "objects", "refs"):
        (root / "submissions" / name).symlink_to(f"20260102_new/{name}")
    commit(root)
    assert sorted(finding.partition(": ")[2].partition(";")[0] for finding in found(root)) == [
        f"the pull request adds submissions/{name}"
        for name in ("HEAD", "config", "objects", "refs")
    ]
    assert not ran.exists()


def test_a_clone_with_settings_of_somebody_else_runs_nothing(root: Path, tmp_path: Path) -> None:
    """An unpacked archive may contain a configured `.git`: missing objects are not fetched."""
    ran = tmp_path / "ran"
    put(root, ".git/config", promising(f"touch {ran}; false"))
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        put(root, name, f"#!/bin/sh\ntouch {ran}\n")
        (root / name).chmod(0o755)
    with pytest.raises(UserError, match="the repository has no such commit"):
        check_changes(root / NEW, "0123456789" * 4)
    assert found(root) == []
    assert not ran.exists()
    with pytest.raises(CalledProcessError):
        git(root, "cat-file", "-p", "0123456789" * 4)
    assert ran.exists(), "the settings do what they are feared for"


def test_the_callers_environment_has_no_say(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a hook, git's environment variables name another repository."""
    git(tmp_path, "init", "--quiet", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere" / ".git"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {tmp_path}/ran")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "diff.renames")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "copies")
    assert found(root) == []
    assert not (tmp_path / "ran").exists()


def test_a_folder_is_taken_out_as_it_was_committed(root: Path, tmp_path: Path) -> None:
    """Attributes in the tree neither change a byte nor omit a file."""
    content = b"$Id$\n\0\xff $Format:%H$\n"
    (root / NEW / "records.zst").write_bytes(content)
    commit(root)
    put(root, f"{NEW}/.gitattributes", "* text eol=crlf ident export-ignore export-subst\n")
    put(root, ".gitattributes", "* filter=lfs diff=lfs merge=lfs\n")
    commit(root)
    clone = Repository.at(root)
    folder = export_folder(clone, clone.commit("entry", "--head"), "20260102_new", tmp_path / "out")
    assert folder == tmp_path / "out" / "20260102_new"
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert names == [".gitattributes", "README.md", "records.zst", "runs/r0/run.json"]
    assert (folder / "records.zst").read_bytes() == content
    assert (folder / "README.md").read_bytes() == b"text\n"


def test_a_folder_that_is_too_large_is_not_taken_out(root: Path, tmp_path: Path) -> None:
    (root / NEW / "x").write_bytes(bytes(10 * 2**20))
    commit(root)
    clone = Repository.at(root)
    head = clone.commit("HEAD", "--head")
    with pytest.raises(Rejected, match="holds more than 289 files or 10,485,760 bytes; put rec"):
        export_folder(clone, head, "20260102_new", tmp_path / "out")
    with pytest.raises(Rejected, match="submissions/20260103_x is not in the pull request"):
        export_folder(clone, head, "20260103_x", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_check_looks_at_changes_where_there_is_a_base(root: Path, policy: Path) -> None:
    copy = copied(policy, root / "submissions")
    put(root, "README.md", "better\n")
    commit(root)
    verdict = check(copy.folder, base="main")
    problems = [finding.problem for finding in verdict.findings]
    assert "the pull request changes README.md" in problems
    assert not verdict.accepted
    assert check(copy.folder).accepted


def test_what_is_checked_is_what_was_committed(root: Path) -> None:
    """The check reads the disk, but a reviewer gets the commit."""
    put(root, f"{NEW}/runs/r0/summary.json")
    put(root, f"{NEW}/README.md", "better\n")
    (root / NEW / "runs/r0/run.json").unlink()
    assert found(root) == [
        "README.md, changes: is committed with different content; git add it, and commit",
        "runs/r0/run.json, changes: is committed but not on disk; git rm it, or restore it",
        "runs/r0/summary.json, changes: is not committed; git add it, and commit",
    ]
    # Staged but uncommitted files are not sent either.
    git(root, "add", "--all")
    assert len(found(root)) == 3
    commit(root)
    assert found(root) == []


def test_a_folder_that_git_does_not_know(root: Path) -> None:
    put(root, "submissions/20260103_other/README.md")
    put(root, "submissions/20260103_other/runs/r0/run.json")
    texts = [f.text for f in check_changes(root / "submissions/20260103_other", "main", "main")]
    assert texts == ["changes: submissions/20260103_other is not committed; git add it, and commit"]


def test_an_ignored_file_is_not_committed(root: Path) -> None:
    put(root, f"{NEW}/.gitignore", "*.zst\n")
    put(root, f"{NEW}/x.zst")
    commit(root)
    assert found(root) == ["x.zst, changes: is not committed; git add it, and commit"]


def test_names_by_sha256_are_understood(tmp_path: Path) -> None:
    root = tmp_path / "sha256"
    told = ("--quiet", "--initial-branch", "main", "--object-format", "sha256")
    git(tmp_path, "init", *told, str(root))
    put(root, "README.md")
    commit(root)
    git(root, "checkout", "--quiet", "-b", "entry")
    put(root, f"{NEW}/README.md")
    commit(root)
    assert found(root) == []
    put(root, f"{NEW}/README.md", "better\n")
    (text,) = found(root)
    assert "is committed with different content" in text


def test_many_files_that_are_not_committed_are_counted(root: Path) -> None:
    for number in range(MAX_SHOWN + 5):
        put(root, f"{NEW}/x{number}")
    texts = found(root)
    assert len(texts) == MAX_SHOWN + 1
    assert texts[-1].startswith("changes: 5 more files differ from the commit; git add them")
