"""Real git repositories for tests, made by a git without user or system configuration."""

import os
import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return its output."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        capture_output=True,
        check=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"},
    )
    return done.stdout.decode().strip()


def commit(root: Path) -> str:
    """Commit all files in the folder and return the commit."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "x")
    return git(root, "rev-parse", "HEAD")


def put(root: Path, name: str, content: str = "text\n") -> None:
    """Write a file."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content)


def tree_of(root: Path, *entries: tuple[str, str, str]) -> str:
    """Write a raw tree object.

    Args:
        root: The repository.
        entries: Mode, name and SHA of each entry, in any order and form.

    Returns:
        Its SHA.
    """
    file = root.parent / "tree"
    file.write_bytes(
        b"".join(
            f"{mode} {name}".encode() + bytes(1) + bytes.fromhex(sha) for mode, name, sha in entries
        )
    )
    return git(root, "hash-object", "-w", "-t", "tree", "--literally", str(file))


def bomb(root: Path, place: str, mode: str, sha: str) -> str:
    """Commit folders nested ten deep, ten in each: 10^10 paths to one object.

    Args:
        root: The repository.
        place: The folder's path, the only one in the commit.
        mode: Mode of the object: `100644`, or `40000` for a tree.
        sha: The object.

    Returns:
        The commit.
    """
    for _ in range(10):
        sha = tree_of(root, *((mode, str(number), sha) for number in range(10)))
        mode = "40000"
    for part in reversed(place.split("/")):
        sha = tree_of(root, ("40000", part, sha))
    return git(root, "commit-tree", "-p", "main", "-m", "x", sha)


def bare_repository(folder: Path, program: str) -> None:
    """Make a folder that git mistakes for a repository if started in it, with a program in it.

    Any commit could contain these files. Git runs the program when an object is missing.
    """
    put(folder, "HEAD", "ref: refs/heads/main\n")
    put(folder, "objects/x.txt")
    put(folder, "refs/x.txt")
    put(folder, "config", promising(program))


def promising(program: str) -> str:
    """Configuration of a partial clone that fetches missing objects with a given program."""
    return (
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tworktree = .\n"
        f'\tsshCommand = "{program}"\n\tfsmonitor = "{program}"\n\thooksPath = .\n'
        "[extensions]\n\tpartialClone = origin\n"
        '[remote "origin"]\n\turl = ssh://x/y\n\tpromisor = true\n'
        '[protocol "ssh"]\n\tallow = always\n'
    )


def with_submission(clone: Path, path: str) -> Path:
    """A new repository with a README and the file of an accepted submission."""
    clone.mkdir()
    git(clone, "init", "--quiet", "--initial-branch", "main")
    put(clone, "README.md")
    put(clone, path, "as accepted\n")
    commit(clone)
    return clone
