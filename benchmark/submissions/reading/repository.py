"""Runs git, the only module to do so: the changes of a pull request, and its files as data.

A pull request's tree can make git run programs: if git starts in a folder with `HEAD`, `objects`,
`refs` and `config`, it treats it as a repository; attributes select filters; and submodules or
missing objects are fetched from addresses in the tree. So git gets an explicit repository and never
searches for one, nothing is checked out, only existing commits are compared, and no transport is
allowed. Settings of the user, the system and the environment are ignored.

A tree can also contain one folder many times, which contains another many times, so that ten trees
make 10^10 files. Git holds all changes in memory before it prints any, but lists files one by one.
So changes are found by comparing two lists, and lists that are too long are not read to the end.
"""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmark.submissions.format.findings import Finding, Rejected
from tasks.errors import UserError

TIMEOUT_S: Final = 60
MAX_LIST: Final = 2**24
"""Maximum size of a list of files in bytes, 60 times that of this repository."""
MAX_MEMORY: Final = 2**29
"""Maximum memory in bytes for git to list files; a single tree can exceed it."""
_OPTIONS: Final = (
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "protocol.allow=never"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.attributesFile=/dev/null"),
)
_ENVIRONMENT: Final = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    # The empty list of allowed transports overrides the repository's config.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Git's whole environment: variables of the caller such as `GIT_DIR` are not passed on."""
REGULAR: Final = ("100644", "100755")
"""Modes of regular files; everything else is a link or a submodule."""
_LIMITED: Final = ("/bin/sh", "-c", 'ulimit -d "$0" || :; exec "$@"', str(MAX_MEMORY // 1024))
"""Command prefix that limits a program's memory, if the system supports it."""
_NOWHERE: Final = "/"
"""Git's working directory, outside of any tree, so that it finds no program or settings there."""


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between two commits.

    Attributes:
        status: `A` added, `D` deleted, `M` modified, `T` type changed.
        mode: Git's mode in the newer commit, `000000` if it was deleted.
        path: Path from the repository's root; bytes that are not UTF-8 are surrogates.
    """

    status: str
    mode: str
    path: str


@dataclass(frozen=True, slots=True)
class Blob:
    """One file of a commit.

    Attributes:
        mode: Git's mode.
        name: SHA of its content.
        size: Size in bytes; None for a submodule.
        path: Path from the repository's root.
    """

    mode: str
    name: str
    size: int | None
    path: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A trusted clone with untrusted commits.

    Attributes:
        git_dir: Absolute path of its `.git`.
    """

    git_dir: Path

    @classmethod
    def at(cls, root: Path) -> "Repository":
        """The clone with the given root.

        Raises:
            UserError: There is none.
        """
        git_dir = root.absolute() / ".git"
        if not git_dir.exists():
            raise UserError(f"{root} is not a git repository; give the root of a clone")
        return cls(git_dir)

    @classmethod
    def around(cls, folder: Path) -> "Repository":
        """The clone that contains a folder.

        Only a `.git` above the folder counts: no commit can contain one, so no submitted tree can
        pass for a repository.

        Raises:
            UserError: There is none, or it is owned by another user.
        """
        place = folder.absolute().parent.resolve()
        for root in (place, *place.parents):
            git_dir = root / ".git"
            if git_dir.exists():
                if git_dir.lstat().st_uid != os.geteuid():
                    raise UserError(
                        f"the git repository {root} is owned by another user; if you trust its "
                        f"settings, name it: --repository {root}"
                    )
                return cls(git_dir)
        raise UserError(f"{folder} is not in a git repository; give one with --repository")

    def commit(self, name: str, option: str) -> str:
        """Resolve a name to a commit.

        Args:
            name: A branch, a tag or a hash.
            option: The option that it was given with, for the message.

        Raises:
            UserError: There is none.
        """
        if name.startswith("-"):
            raise UserError(f"{option} takes a commit or branch, not {name!r}")
        told = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        found = self._run(*told)
        if found.returncode:
            raise UserError(f"{option} {name!a}: the repository has no such commit; fetch it first")
        return found.stdout.decode("ascii").strip()

    def fork(self, base: str, head: str) -> str:
        """The merge base of two commits.

        Args:
            base: Hash of a commit.
            head: Hash of another commit.

        Raises:
            UserError: There is none, as far as the clone goes back, or there are several, which
                would give different changes.
        """
        found = self._run("merge-base", "--all", base, head)
        if found.returncode == 1:
            raise UserError(
                f"{base[:12]} and {head[:12]} have no commit in common; a shallow clone needs its "
                "history first: git fetch --unshallow"
            )
        forks = self._checked("merge-base", found).decode("ascii").split()
        if len(forks) > 1:
            raise UserError(
                f"{base[:12]} and {head[:12]} have been merged into each other, so "
                "the changes cannot be determined; put the submission on a new "
                "branch of the base"
            )
        return forks[0]

    def changes(self, old: str, new: str) -> list[Change]:
        """The differences between two commits, by hash; a renamed file counts as deleted and added.

        Raises:
            Rejected: A commit has too many files.
        """
        before = {path: (mode, name) for path, mode, name, *_ in self._listed(old)}
        found = []
        for path, mode, name, *_ in self._listed(new):
            # The second of two entries with one path counts as added.
            was = before.pop(path, None)
            if was is None:
                found.append(Change("A", mode, path))
            elif was != (mode, name):
                found.append(Change("M" if _same_kind(was[0], mode) else "T", mode, path))
        return found + [Change("D", "000000", path) for path in before]

    def files(self, commit: str, folder: str) -> list[Blob]:
        """All files of a folder in a commit, including subfolders.

        Raises:
            Rejected: There are too many.
        """
        return [
            Blob(mode, name, None if size == "-" else int(size), path)
            for path, mode, name, size in self._listed("-l", commit, "--", f"{folder}/")
        ]

    def contents(self, blobs: Sequence[Blob]) -> list[bytes]:
        """The bytes of files as committed, without filters and line-ending conversion.

        Args:
            blobs: Regular files that fit into memory together.
        """
        wanted = "".join(f"{blob.name}\n" for blob in blobs).encode("ascii")
        answer = self._checked("cat-file", self._run("cat-file", "--batch", stdin=wanted))
        found, at = [], 0
        for blob in blobs:
            start = answer.index(b"\n", at) + 1
            size = int(answer[at:start].split()[2])
            assert size == blob.size, "a commit does not change"
            found.append(answer[start : start + size])
            at = start + size + 1
        return found

    def _listed(self, *arguments: str) -> Iterator[tuple[str, ...]]:
        """List files in a tree: path, mode and SHA, with `-l` also the size.

        Raises:
            Rejected: There are too many.
        """
        # Folders are listed, too, so that many empty ones also exceed the limit.
        told = ("ls-tree", "-r", "-t", "-z", "--full-tree", *arguments)
        listed = self._checked(told[0], self._run_bounded(*told))
        if len(listed) > MAX_LIST:
            problem = f"the list of files is longer than {MAX_LIST:,} bytes"
            raise Rejected(Finding("", "changes", problem, "send the files of a submission alone"))
        for line in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            facts, _, path = line.partition("\t")
            mode, kind, *rest = facts.split()
            if kind != "tree":
                yield (path, mode, *rest)

    def _checked(self, command: str, done: "subprocess.CompletedProcess[bytes]") -> bytes:
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UserError(f"git {command}: {ascii(said[0])[1:-1] if said else 'failed'}")
        return done.stdout

    def _run(self, *arguments: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        try:
            return subprocess.run(  # noqa: S603 - a fixed program; refs and paths are arguments
                self._command(*arguments),
                input=stdin,
                capture_output=True,
                check=False,
                timeout=TIMEOUT_S,
                cwd=_NOWHERE,
                env=_environment(),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"git cannot be run: {error}") from error

    def _run_bounded(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        """Run git, and stop it if it prints more than `MAX_LIST` bytes."""
        command = [*_LIMITED, *self._command(*arguments)]
        try:
            process = subprocess.Popen(  # noqa: S603 - as above
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=_NOWHERE,
                env=_environment(),
            )
        except OSError as error:
            raise UserError(f"git cannot be run: {error}") from error
        late = threading.Timer(TIMEOUT_S, process.kill)
        with process:
            assert process.stdout is not None and process.stderr is not None
            late.start()
            try:
                output = process.stdout.read(MAX_LIST + 1)
                if enough := len(output) > MAX_LIST:
                    process.kill()
                said = process.stderr.read()
                code = process.wait()
            finally:
                late.cancel()
                process.kill()
        if code == -signal.SIGKILL and not enough:
            raise UserError(f"git cannot be run: it took longer than {TIMEOUT_S} s, or was killed")
        return subprocess.CompletedProcess(command, 0 if enough else code, output, said)

    def _command(self, *arguments: str) -> list[str]:
        program = shutil.which("git")
        if program is None:
            raise UserError(
                "git is not installed, so the changes of a pull request cannot be determined"
            )
        return [program, f"--git-dir={self.git_dir}", *_OPTIONS, *arguments]


def _environment() -> dict[str, str]:
    return {**_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)}


def _same_kind(one: str, other: str) -> bool:
    """Whether two modes have the same file type, so that at most permissions differ."""
    return one[:3] == other[:3]
