"""What CI runs on a pull request: finds the folder that it adds and checks it.

    python scripts/judge_pull_request.py --head DIR --base COMMIT --out DIR

Writes `verdict.json` and `comment.md`; exit code 1 if the submission is not accepted.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmark.cli import main as command_line
from benchmark.files import write_atomically
from benchmark.submissions.report import escaped

SUBMISSIONS = "submissions"
MAX_NAMED = 10
"""Folders that are named where there is more than one."""


def main(argv: list[str] | None = None) -> int:
    """Check what a pull request adds."""
    parser = argparse.ArgumentParser(description="Check the submission of a pull request.")
    parser.add_argument("--head", type=Path, required=True, help="checkout of the pull request")
    parser.add_argument("--base", required=True, help="commit that it goes to")
    parser.add_argument("--out", type=Path, required=True, help="where the verdict is written")
    arguments = parser.parse_args(argv)
    names = added(arguments.head, arguments.base)
    if len(names) != 1:
        what = ", ".join(escaped(ascii(name)[1:-1]) for name in names[:MAX_NAMED]) or "none"
        text = f"A pull request adds one folder to {SUBMISSIONS}/; this one touches: {what}.\n"
        write_atomically(arguments.out / "comment.md", text.encode())
        print(text, end="")
        return 1
    return command_line(
        [
            "submit",
            "check",
            str(arguments.head / SUBMISSIONS / names[0]),
            "--base",
            arguments.base,
            "--json",
            str(arguments.out / "verdict.json"),
            "--comment",
            str(arguments.out / "comment.md"),
        ]
    )


def added(head: Path, base: str) -> list[str]:
    """Names of the folders under `submissions/` that differ from the base."""
    command = ["git", "-C", str(head), "diff", "--name-only", "-z", f"{base}...HEAD", "--"]
    done = subprocess.run(  # noqa: S603 - a fixed program; the commit is CI's own
        [*command, SUBMISSIONS], capture_output=True, check=True, timeout=60
    )
    paths = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    parts = [path.split("/") for path in paths if path]
    return sorted({part[1] for part in parts if len(part) > 2})


if __name__ == "__main__":
    sys.exit(main())
