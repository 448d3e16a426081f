"""Git, only called from here: the changes of a pull request, and its files as data.

A pull request's tree can make git run programs: a folder with `HEAD`, `objects`, `refs` and
`config` is a repository to a git that starts within it, attributes choose filters, and a submodule
or a missing object is fetched from where somebody says. So git is told which repository is meant
and never looks for one, nothing is checked out, only commits that already exist are compared,
and no transport is allowed. Settings of the user and the system have no say, nor has the
environment.

A tree can also name one folder many times, and that one another: ten trees are 10^10 files. Git
keeps all changes in memory before it prints one, but lists files one by one. So changes are found
by comparing two lists, and a list that is too long is not read to its end.
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
"""Bytes of a list of files: 60 times as many as this repository has."""
MAX_MEMORY: Final = 2**29
"""Bytes that git takes to list files; one tree alone may be larger."""
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
    # Empty, the list of transports that may be used goes before what a repository's config allows.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""All that git sees of the environment: a `GIT_DIR` or `GIT_EXTERNAL_DIFF` of the caller is not."""
REGULAR: Final = ("100644", "100755")
"""Modes of files; everything else is a link or a submodule."""
_LIMITED: Final = ("/bin/sh", "-c", 'ulimit -d "$0" || :; exec "$@"', str(MAX_MEMORY // 1024))
"""Begins the command of a program with a limit of memory, if the system has one."""
_NOWHERE: Final = "/"
"""Where git starts: nothing of a tree is found by being there, no program and no settings."""


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between two commits.

    Attributes:
        status: `A` added, `D` deleted, `M` changed, `T` of another kind.
        mode: Git's mode in the newer commit, `000000` where it is deleted.
        path: From the repository's root; bytes that are no UTF-8 are surrogates.
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
        size: In bytes; None for a submodule.
        path: From the repository's root.
    """

    mode: str
    name: str
    size: int | None
    path: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A trusted clone with untrusted commits.

    Attributes:
        git_dir: Its `.git`, absolute.
    """

    git_dir: Path

    @classmethod
    def at(cls, root: Path) -> "Repository":
        """The clone whose root is named.

        Raises:
            UserError: There is none.
        """
        git_dir = root.absolute() / ".git"
        if not git_dir.exists():
            raise UserError(f"{root} is not a git repository; give the root of a clone")
        return cls(git_dir)

    @classmethod
    def around(cls, folder: Path) -> "Repository":
        """The clone that a folder lies in.

        Only a `.git` above the folder counts: no commit can hold one, so that nobody's tree can
        pass for a repository here.

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
        """The commit that a name stands for.

        Args:
            name: A branch, a tag or a hash.
            option: Where it comes from, for the message.

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
        """The newest commit that two commits have both grown from.

        Args:
            base: A commit's hash.
            head: Another's.

        Raises:
            UserError: They have none in common, as far as the clone goes back, or several, of
                which each would show other changes.
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
        """What differs between two commits, by hash; a renamed file is deleted and added.

        Raises:
            Rejected: A commit has too many files.
        """
        before = {path: (mode, name) for path, mode, name, *_ in self._listed(old)}
        found = []
        for path, mode, name, *_ in self._listed(new):
            # A path that is there twice is there once more than before.
            was = before.pop(path, None)
            if was is None:
                found.append(Change("A", mode, path))
            elif was != (mode, name):
                found.append(Change("M" if _same_kind(was[0], mode) else "T", mode, path))
        return found + [Change("D", "000000", path) for path in before]

    def files(self, commit: str, folder: str) -> list[Blob]:
        """All files of a folder in a commit, with those of the folders in it.

        Raises:
            Rejected: They are too many.
        """
        return [
            Blob(mode, name, None if size == "-" else int(size), path)
            for path, mode, name, size in self._listed("-l", commit, "--", f"{folder}/")
        ]

    def contents(self, blobs: Sequence[Blob]) -> list[bytes]:
        """The bytes of files as they were committed: no filter and no line ending is applied.

        Args:
            blobs: Regular files, of a size that fits into memory together.
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
        """Files in a tree: path, mode and SHA, with `-l` also the size.

        Raises:
            Rejected: They are too many.
        """
        # With folders in the list, many that hold no file come to its end as well.
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
        """Run git until it has printed more than `MAX_LIST` bytes, and no further."""
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
    """Whether two modes are of a file, or two of a link: only the permissions differ."""
    return one[:3] == other[:3]
