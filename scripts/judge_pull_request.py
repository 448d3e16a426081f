"""The judge that CI runs on a pull request: finds the folder that it adds, and checks it.

    python scripts/judge_pull_request.py --repository CLONE --base-branch main --head COMMIT \
        --out DIR

The clone is the current base branch, with the pull request's commits fetched into it: git runs only
there, the folder is extracted from the commits byte for byte, and it is compared with the current
submissions of the base branch. Always writes `comment.md`; also `base.json` with the branch and
commit that judge, and `verdict.json` if there is a verdict. Exit code 1 if the submission is not
accepted, 2 if the check could not run.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmark.cli.main import main as command_line
from benchmark.files import write_atomically
from benchmark.submissions.check import CheckResult
from benchmark.submissions.checks.changes import SUBMISSIONS, changes_of, export_folder
from benchmark.submissions.format.findings import Rejected
from benchmark.submissions.format.schema import FOLDER_NAME
from benchmark.submissions.reading.repository import Repository
from benchmark.submissions.report import comment, escaped, no_verdict, verdict_json
from tasks.errors import UserError
from tasks.texts import printable

COMMENT = "comment.md"
BASE = "base.json"
VERDICT = "verdict.json"
MAX_NAMED = 10
"""Maximum number of folders to name if there are several."""


def main(argv: Sequence[str] | None = None) -> int:
    """Check the additions of a pull request."""
    parser = argparse.ArgumentParser(description="Check the submission of a pull request.")
    parser.add_argument("--repository", type=Path, required=True, help="clone of the base branch")
    parser.add_argument("--base", default="HEAD", help="commit that it goes to (default: HEAD)")
    parser.add_argument("--base-branch", required=True, help="name of the branch that it goes to")
    parser.add_argument("--head", required=True, help="last commit of the pull request")
    parser.add_argument("--out", type=Path, required=True, help="where the verdict is written")
    arguments = parser.parse_args(argv)
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        # Remains if the check is killed for its memory or time, or crashes.
        text = no_verdict("", "it did not come to its end; see the workflow's log")
        _comment(arguments.out, text)
    except OSError as error:
        reason = f"--out {arguments.out} cannot be written: {error.strerror}"
        print(f"judge_pull_request: {printable(reason)}", file=sys.stderr)
        return 2
    try:
        _note_base(arguments.repository, arguments.base, arguments.base_branch, arguments.out)
        return judge(arguments.repository, arguments.base, arguments.head, arguments.out)
    except UserError as error:
        _comment(arguments.out, no_verdict("", str(error)))
        print(f"judge_pull_request: {printable(str(error))}", file=sys.stderr)
        return 2


def judge(repository: Path, base: str, head: str, out: Path) -> int:
    """Find the folder and check it.

    Args:
        repository: Root of a clone of the base branch.
        base: Target branch of the pull request.
        head: Its last commit.
        out: Folder for the verdict.

    Returns:
        Exit code.

    Raises:
        UserError: git cannot list the changes, or the folder cannot be written.
    """
    clone = Repository.at(repository)
    commit = clone.commit(head, "--head")
    try:
        changes = changes_of(clone, clone.commit(base, "--base"), commit)
    except Rejected as rejected:
        return _reject(out, "", rejected)
    names = added([change.path for change in changes])
    if len(names) != 1 or not FOLDER_NAME.fullmatch(names[0]):
        what = ", ".join(escaped(ascii(name)[1:-1]) for name in names[:MAX_NAMED]) or "none"
        text = (
            f"A pull request adds one folder to {SUBMISSIONS}/, called &lt;yyyymmdd&gt;_&lt;name"
            f"&gt; in lowercase letters, digits and hyphens; this one touches: {what}.\n"
        )
        _comment(out, text)
        print(text, end="")
        return 1
    with tempfile.TemporaryDirectory() as place:
        try:
            folder = export_folder(clone, commit, names[0], Path(place))
        except Rejected as rejected:
            return _reject(out, names[0], rejected)
        return command_line(
            [
                *("submit", "check", str(folder)),
                *("--submissions", str(repository / SUBMISSIONS)),
                *("--repository", str(repository), "--base", base, "--head", commit),
                *("--json", str(out / VERDICT), "--comment", str(out / COMMENT)),
            ]
        )


def _reject(out: Path, name: str, rejected: Rejected) -> int:
    """Write the verdict on something not worth checking; the name is empty if unknown."""
    verdict = CheckResult(Path(name), (rejected.finding,), entry=None, replayed=0, doubts=0)
    write_atomically(out / VERDICT, verdict_json(verdict, None).encode())
    _comment(out, comment(verdict, None))
    print(printable(rejected.finding.text))
    return 1


def _note_base(repository: Path, base: str, branch: str, out: Path) -> None:
    """Record whose code and submissions judge: a verdict is only as trustworthy as its base.

    Raises:
        UserError: The base is not a commit.
    """
    commit = Repository.at(repository).commit(base, "--base")
    content = json.dumps({"branch": branch, "commit": commit}) + "\n"
    write_atomically(out / BASE, content.encode())


def added(paths: Sequence[str]) -> list[str]:
    """Names of the folders under `submissions/` that contain changed paths."""
    parts = [path.split("/") for path in paths]
    return sorted({part[1] for part in parts if part[0] == SUBMISSIONS and len(part) > 2})


def _comment(out: Path, text: str) -> None:
    write_atomically(out / COMMENT, text.encode())


if __name__ == "__main__":
    sys.exit(main())
