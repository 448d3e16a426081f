"""Checks a pull request's changes: a submission may only add its own folder."""

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmark.files import open_no_link
from benchmark.submissions.format.findings import Finding, Rejected
from benchmark.submissions.format.schema import MAX_FILES
from benchmark.submissions.reading.folder import MAX_DEPTH, MAX_FOLDER, list_files
from benchmark.submissions.reading.repository import REGULAR, Blob, Change, Repository
from tasks.errors import UserError, os_error_as
from tasks.texts import on_one_line

SUBMISSIONS: Final = "submissions"
"""The folder of all submissions, from a repository's root."""
MAX_SHOWN: Final = 20
"""Maximum number of changes listed; the others are counted."""
_OF_PATHS: Final = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
"""Errors in writing a file that are caused by its path."""


def check_changes(
    folder: Path, base: str, head: str = "HEAD", repository: Path | None = None
) -> list[Finding]:
    """Compare the branch with its merge base, and the folder on disk with the commit.

    Args:
        folder: The submission's folder, of which only the name is compared with paths.
        base: Target commit or branch of a pull request.
        head: The pull request's commit.
        repository: Root of a clone with both; None for the clone that contains the folder.

    Raises:
        Rejected: There are too many files.
        UserError: git fails.
    """
    clone = Repository.around(folder) if repository is None else Repository.at(repository)
    target, newest = clone.commit(base, "--base"), clone.commit(head, "--head")
    own = f"{SUBMISSIONS}/{folder.name}/"
    # Somebody else may have used the name since the branch was created.
    taken = bool(clone.files(target, own.rstrip("/")))
    findings = []
    for change in changes_of(clone, target, newest):
        if not change.path.startswith(own):
            verb = {"A": "adds", "D": "deletes"}.get(change.status, "changes")
            problem = f"the pull request {verb} {_shown(change.path)}"
            findings.append(_found(problem, f"a submission may only change {own}"))
        elif change.status != "A":
            taken = True
        elif change.mode not in REGULAR:
            problem = f"{_shown(change.path)} is a link or a submodule"
            findings.append(_found(problem, "send regular files"))
    if taken:
        problem = f"{own} already exists"
        findings.insert(0, _found(problem, "send a new folder: accepted submissions never change"))
    sent = list(_uncommitted(folder, clone.files(newest, own.rstrip("/"))))
    fix = f"a submission may only change {own}"
    return _shortened(findings, "more paths are changed that must not be", fix) + _shortened(
        sent, "more files differ from the commit", "git add them, and commit"
    )


def _shortened(findings: list[Finding], of: str, fix: str) -> list[Finding]:
    """The first findings, and the number of the others."""
    more = len(findings) - MAX_SHOWN
    return [*findings[:MAX_SHOWN], _found(f"{more} {of}", fix)] if more > 0 else findings


def _uncommitted(folder: Path, blobs: Sequence[Blob]) -> Iterator[Finding]:
    """Check that the files on disk, which were checked, are those of the commit.

    A folder that is not a valid submission is skipped, since other findings report it.
    """
    try:
        there = list_files(folder)
    except (Rejected, OSError):
        return
    if not there:
        return
    if not blobs:
        yield _found(f"{SUBMISSIONS}/{folder.name} is not committed", "git add it, and commit")
        return
    start = f"{SUBMISSIONS}/{folder.name}/"
    # Links and submodules are reported elsewhere.
    committed = {blob.path.removeprefix(start): blob for blob in blobs if blob.mode in REGULAR}
    for name in sorted({*there, *committed}):
        blob = committed.get(name)
        if blob is None:
            yield Finding(_shown(name), "changes", "is not committed", "git add it, and commit")
        elif name not in there:
            problem = "is committed but not on disk"
            yield Finding(_shown(name), "changes", problem, "git rm it, or restore it")
        elif blob.name != _blob_name(folder / name, len(blob.name)):
            problem = "is committed with different content"
            yield Finding(_shown(name), "changes", problem, "git add it, and commit")


def _blob_name(path: Path, digits: int) -> str:
    """Git's name of a file's content: SHA-1, or SHA-256 in repositories with 64 digits.

    Raises:
        UserError: It cannot be read.
    """
    refused = os_error_as(f"{path} cannot be read")
    with refused, os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as file:
        content = file.read(MAX_FOLDER + 1)
    digest = hashlib.new("sha256" if digits == 64 else "sha1", usedforsecurity=False)
    digest.update(b"blob %d\0" % len(content) + content)
    return digest.hexdigest()


def drafts_in(submissions: Path) -> dict[str, Path]:
    """Submissions that are not in the last commit, by name.

    Args:
        submissions: The folder of submissions.

    Returns:
        Their folders. Empty if git fails, as outside of a clone, or for a folder that is not named
        `SUBMISSIONS`, which may contain copies of accepted entries.
    """
    if submissions.name != SUBMISSIONS or submissions.is_symlink():
        return {}
    try:
        clone = Repository.around(submissions)
        place = submissions.resolve().relative_to(clone.git_dir.parent.resolve())
        blobs = clone.files(clone.commit("HEAD", "HEAD"), place.as_posix())
    except (UserError, Rejected, ValueError):
        return {}
    committed = {Path(blob.path).relative_to(place).parts[0] for blob in blobs}
    there = {path.name: path for path in submissions.iterdir()} if submissions.is_dir() else {}
    return {name: path for name, path in there.items() if name not in committed}


def changes_of(clone: Repository, base: str, head: str) -> list[Change]:
    """The changes of a branch relative to its merge base.

    Args:
        clone: A clone with both commits.
        base: Hash of the target commit.
        head: Hash of the branch's last commit.

    Raises:
        Rejected: There are too many files.
        UserError: git fails.
    """
    return clone.changes(clone.fork(base, head), head)


def export_folder(clone: Repository, commit: str, name: str, to: Path) -> Path:
    """Write a submission's folder as committed, byte for byte, without a checkout.

    Args:
        clone: A clone with the commit.
        commit: Hash of the commit.
        name: The folder's name.
        to: Parent folder, in which the folder is created.

    Raises:
        Rejected: The commit has no such folder, or the folder is too large, too deep, or contains
            anything but regular files.
        UserError: It cannot be written.
    """
    source = f"{SUBMISSIONS}/{name}"
    blobs = clone.files(commit, source)
    if not blobs:
        raise _rejected(f"{source} is not in the pull request", "add the folder of a submission")
    for blob in blobs:
        if blob.mode not in REGULAR:
            raise _rejected(f"{_shown(blob.path)} is a link or a submodule", "send regular files")
    total = sum(blob.size or 0 for blob in blobs)
    if len(blobs) > MAX_FILES or total > MAX_FOLDER:
        raise _rejected(
            f"{source} holds more than {MAX_FILES} files or {MAX_FOLDER:,} bytes",
            "put records on the hub (submit to-hub)",
        )
    folder = to / name
    for blob, content in zip(blobs, clone.contents(blobs), strict=True):
        parts = blob.path.removeprefix(f"{source}/").split("/")
        if not {"", ".", "..", ".git"}.isdisjoint(parts):
            raise _rejected(f"{_shown(blob.path)} is not a valid file path", "remove it")
        if len(parts) > MAX_DEPTH + 1:
            finding = Finding(_shown(blob.path), "changes", "is nested too deeply", "remove it")
            raise Rejected(finding)
        place = folder.joinpath(*parts)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            # No honest tree has a path twice.
            with place.open("xb") as file:
                file.write(content)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            problem = f"cannot be written: {reason}"
            if error.errno in _OF_PATHS:
                fix = "give every file a short path of its own"
                raise Rejected(Finding(_shown(blob.path), "changes", problem, fix)) from error
            raise UserError(f"{_shown(blob.path)} {problem}") from error
    return folder


def _rejected(problem: str, fix: str) -> Rejected:
    return Rejected(_found(problem, fix))


def _found(problem: str, fix: str) -> Finding:
    return Finding("", "changes", problem, fix)


def _shown(path: str) -> str:
    return on_one_line(ascii(path)[1:-1])
