"""Trees that git itself does not make: endless, too large, too deep, or with special names."""

import os
import resource
import sys
from pathlib import Path

import pytest

from benchmark.submissions.checks.changes import changes_of, check_changes, export_folder
from benchmark.submissions.format.findings import Rejected
from benchmark.submissions.reading import repository
from benchmark.submissions.reading.repository import Repository
from tasks.errors import UserError
from tests.support.submissions.repositories import bomb, git, tree_of, with_submission

OLD = "submissions/20260101_old/README.md"
NEW = "submissions/20260102_new"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with an accepted submission."""
    return with_submission(tmp_path / "clone", OLD)


def cpu_seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.mark.parametrize("place", [f"{NEW}/x", "x"])
@pytest.mark.parametrize("leaf", ["file", "empty folder"])
def test_a_tree_of_endless_files_is_not_read_to_its_end(
    root: Path, tmp_path: Path, place: str, leaf: str
) -> None:
    """Git stores differences in memory before it prints anything."""
    mode, sha = "100644", git(root, "rev-parse", "HEAD:README.md")
    if leaf == "empty folder":
        mode, sha = "40000", tree_of(root)
    head = bomb(root, place, mode, sha)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, cpu_seconds()
    problem = "the list of files is longer than 16,777,216 bytes"
    with pytest.raises(Rejected, match=problem):
        check_changes(tmp_path / NEW, "main", head, root)
    clone = Repository.at(root)
    with pytest.raises(Rejected, match=problem):
        changes_of(clone, clone.commit("main", "--base"), head)
    if place != "x":
        with pytest.raises(Rejected, match=problem):
            export_folder(clone, head, "20260102_new", tmp_path / "out")
    assert cpu_seconds() - start < 20
    # Kilobytes. Until it is git, a process counts as a copy of this one.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, own + 50_000)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_a_tree_that_is_large_itself_takes_little_memory(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its compressed form is a hundredth of its size."""
    limited = (*repository._LIMITED[:-1], "16384")
    monkeypatch.setattr(repository, "_LIMITED", limited)
    entry = ("100644", "x", git(root, "rev-parse", "HEAD:README.md"))
    tree = tree_of(root, *[entry] * 2**20)
    head = git(root, "commit-tree", "-p", "main", "-m", "x", tree)
    with pytest.raises(UserError, match="git ls-tree: "):
        check_changes(tmp_path / NEW, "main", head, root)


def test_a_path_that_is_there_twice_is_a_change(root: Path, tmp_path: Path) -> None:
    """The second one could hide the first."""
    same, other = (git(root, "rev-parse", f"main:{name}") for name in ("README.md", OLD))
    folder = ("40000", "submissions", git(root, "rev-parse", "main:submissions"))
    for shas in ((same, other), (other, same), (same, same)):
        tree = tree_of(root, *(("100644", "README.md", sha) for sha in shas), folder)
        head = git(root, "commit-tree", "-p", "main", "-m", "x", tree)
        texts = [finding.problem for finding in check_changes(tmp_path / NEW, "main", head, root)]
        assert "the pull request adds README.md" in texts


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["x/" * 1_000 + "y"], "is nested too deeply; remove it"),
        (["x" * 300], "cannot be written: File name too long; give every file a short path"),
        (["x", "x"], "cannot be written: File exists; give every file a short path"),
        (["x", "x/y/z"], "cannot be written: Not a directory; give every file a short path"),
    ],
)
def test_paths_that_no_disk_has(root: Path, tmp_path: Path, names: list[str], problem: str) -> None:
    blob = git(root, "rev-parse", "HEAD:README.md")
    entries = []
    for name in names:
        *folders, last = name.split("/")
        made = ("100644", last, blob)
        for folder in reversed(folders):
            made = ("40000", folder, tree_of(root, made))
        entries.append(made)
    tree = tree_of(root, *entries)
    for part in ("20260102_new", "submissions"):
        tree = tree_of(root, ("40000", part, tree))
    head = git(root, "commit-tree", "-m", "x", tree)
    with pytest.raises(Rejected, match=problem):
        export_folder(Repository.at(root), head, "20260102_new", tmp_path / "out")


def test_a_tree_that_leaves_its_folder_is_refused(root: Path, tmp_path: Path) -> None:
    """Handwritten trees can contain names that git itself does not produce."""
    blob = git(root, "rev-parse", "HEAD:README.md")
    for name in ("..", ".git"):
        made = tree_of(root, ("100644", name, blob))
        for parent in ("20260102_new", "submissions"):
            made = tree_of(root, ("40000", parent, made))
        made = git(root, "commit-tree", "-m", "x", made)
        with pytest.raises(Rejected, match=r"is not a valid file path; remove it"):
            export_folder(Repository.at(root), made, "20260102_new", tmp_path / "out")
    assert not (tmp_path / "out").exists()
