"""Writes the open pull requests that submit an entry to a file, for `leaderboard build --queue`.

    python -m scripts.queue_of_submissions queue.json

It reads GITHUB_API_URL, GITHUB_REPOSITORY (OWNER/NAME) and GITHUB_TOKEN.

A pull request is in the queue if its last commit changes one folder of `submissions/` and nothing
else. Its state is that of the last run of the workflow `submission` for that commit; where only a
rerun is missing, the comment with the verdict says so. Titles and other words of people who are not
maintainers are not taken over; the name of the folder is, which the page shows as foreign text.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

from scripts.comment_on_pull_request import (
    FOLDER,
    MOST_FILES,
    PAGE,
    GitHub,
    Json,
    comment_of,
    of_one_folder,
)

BRANCH: Final = "main"
WORKFLOW: Final = "submission.yml"
WAITS: Final = "Waiting for a rerun"
"""Start of the line in a verdict that asks for a rerun (`benchmark.submissions.report`)."""


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Write the queue; the exit code is 2 if no output file is given."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}"
    found = queue(GitHub(root, environment["GITHUB_TOKEN"]))
    day = datetime.now(UTC).date().isoformat()
    Path(arguments[0]).write_text(json.dumps({"day": day, "waiting": found}) + "\n", "utf-8")
    print(f"{len(found)} submissions are waiting")
    return 0


def queue(github: GitHub) -> list[dict[str, str | int]]:
    """The first `PAGE` open submissions, oldest first: number, entry, day and state."""
    found: list[dict[str, str | int]] = []
    pulls = github.get(
        "pulls", state="open", base=BRANCH, sort="created", direction="asc", per_page=PAGE
    )
    for pull in pulls:
        # Anything with more files is not a submission.
        files = github.all(f"pulls/{pull['number']}/files", MOST_FILES)
        match = FOLDER.fullmatch(files[0]["filename"]) if files else None
        if match is None or not of_one_folder(files):
            continue
        found.append(
            {
                "number": int(pull["number"]),
                "entry": match[1],
                "opened": str(pull["created_at"])[:10],
                "state": state_of(github, int(pull["number"]), pull["head"]["sha"]),
            }
        )
    return found


def state_of(github: GitHub, number: int, commit: str) -> str:
    """State of the check of a pull request's last commit.

    Returns:
        `waiting`, `running`, `passed`, `failed`, or `rerun` if only a rerun is missing.
    """
    path = f"actions/workflows/{WORKFLOW}/runs"
    runs: list[Json] = github.get(path, head_sha=commit, per_page=1)["workflow_runs"]
    if not runs:
        return "waiting"
    if runs[0]["status"] != "completed":
        return "running"
    if runs[0]["conclusion"] == "success":
        return "passed"
    comment = comment_of(github, number)
    lines = [] if comment is None else comment["body"].splitlines()
    # A comment on an earlier commit does not apply to this one.
    judged = any(line.startswith(f"Commit {commit},") for line in lines)
    return "rerun" if judged and any(line.startswith(WAITS) for line in lines) else "failed"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HTTPError as error:
        sys.exit(f"queue_of_submissions: {error.url}: {error.code} {error.reason}")
