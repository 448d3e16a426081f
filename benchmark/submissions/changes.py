"""What a pull request changes: a submission touches its own folder and nothing else."""

import subprocess
from pathlib import Path

from benchmark.submissions.findings import Finding
from tasks.errors import UserError

TIMEOUT_S = 60


def check_changes(folder: Path, base: str) -> list[Finding]:
    """Compare with the point at which the branch left the base.

    Args:
        folder: The submission's folder, inside a git repository.
        base: A commit or branch.

    Raises:
        UserError: git cannot say.
    """
    if base.startswith("-"):
        raise UserError(f"--base takes a commit or branch, not {base!r}")
    root = Path(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n"))
    fork = _git(folder, "merge-base", base, "HEAD").strip()
    own = folder.resolve().relative_to(root.resolve()).as_posix() + "/"
    findings = []
    changed = _git(folder, "diff", "--name-status", "--no-renames", "-z", fork, "HEAD").split("\0")
    for status, path in zip(changed[::2], changed[1::2], strict=False):
        if not path.startswith(own):
            verb = {"A": "adds", "D": "deletes"}.get(status, "changes")
            problem = f"the pull request {verb} {ascii(path)[1:-1]}"
            fix = f"a submission touches nothing but {own}"
            findings.append(Finding("", "changes", problem, fix))
        elif status != "A":
            problem = f"{ascii(path)[1:-1]} is there already"
            fix = "send a new folder: what was accepted stays as it was"
            findings.append(Finding("", "changes", problem, fix))
    return findings


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program; refs and paths are arguments
            command, capture_output=True, check=False, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"git cannot be run: {error}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UserError(f"git {arguments[0]}: {said[-1] if said else 'failed'}")
    return done.stdout.decode("utf-8", "surrogateescape")
