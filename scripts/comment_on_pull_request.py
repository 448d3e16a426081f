"""Posts a verdict on the pull request that it is about, if it can be trusted.

    GITHUB_TOKEN=... python3 scripts/comment_on_pull_request.py

The workflow `submission comment` runs this after the workflow `submission`, with GitHub's own
description of that run (`GITHUB_EVENT_PATH`). A pull request that edits the judge can write any
verdict. So this asks GitHub which pull request was judged and what the judged commit changes: if
that is one folder of `submissions/`, the judge was the base branch's, and its comment is posted;
otherwise a fixed text is. It needs no package, so that nothing is installed where there is write
access.
"""

import io
import json
import math
import os
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPResponse
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

Json = Any

MARK: Final = "<!-- verdict on a submission -->"
"""First line of the single comment that is kept up to date."""
BOT: Final = "github-actions[bot]"
UNTRUSTED: Final = (
    "No verdict is shown: this pull request touches something else than one folder of "
    "`submissions/`, which may be what judges it. A submission adds one folder and nothing else."
)
OTHER_BASE: Final = (
    "No verdict is shown: this commit was judged by another branch than the one that submissions "
    "go to. Push it again, or close the pull request to the other branch and run the check again."
)
NO_VERDICT: Final = "The check of this pull request did not come to an end; its log says why."
FOLDER: Final = re.compile(r"submissions/([^/]+)/.+", re.DOTALL)
COMMIT: Final = re.compile(r"[0-9a-f]{40}")
MAX_BASE: Final = 4096
"""Maximum size of the judge's note on its base, in bytes."""
MAX_COMMENT: Final = 64_000
"""Maximum length in characters; GitHub accepts 65,536."""
MAX_ARCHIVE: Final = 2**24
"""Maximum size of a verdict's archive, in bytes."""
PAGE: Final = 100
MOST_FILES: Final = 300
"""GitHub lists at most this many changed files of a comparison."""
TIMEOUT_S: Final = 60


@dataclass(frozen=True, slots=True)
class GitHub:
    """GitHub's API for one repository.

    Attributes:
        root: URL of the repository's part of the API.
        token: The workflow's token.
    """

    root: str
    token: str

    def get(self, path: str, **query: str | int) -> Json:
        """Get the resource at a path."""
        asked = f"?{urlencode(query)}" if query else ""
        return json.loads(self._send("GET", path + asked).read())

    def all(self, path: str, enough: float = math.inf) -> list[Json]:
        """The items on all pages of a list, or on the first pages with `enough` items."""
        found: list[Json] = []
        for page in count(1):
            items = self.get(path, per_page=PAGE, page=page)
            found += items
            if len(items) < PAGE or len(found) >= enough:
                break
        return found

    def write(self, method: str, path: str, **content: str) -> None:
        """Create or change a resource."""
        self._send(method, path, json.dumps(content).encode()).read()

    def download(self, path: str, limit: int) -> bytes:
        """Download a file, which GitHub serves through a redirect to another host.

        Raises:
            ValueError: It is longer than the limit.
        """
        content = self._send("GET", path).read(limit + 1)
        if len(content) > limit:
            raise ValueError(f"{path} is longer than {limit:,} bytes")
        return content

    def _send(self, method: str, path: str, body: bytes | None = None) -> HTTPResponse:
        request = Request(f"{self.root}/{path}", body, method=method)  # noqa: S310 - GitHub's own
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("X-GitHub-Api-Version", "2022-11-28")
        # The token must not be sent to the target of a redirect.
        request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        answer: HTTPResponse = urlopen(request, timeout=TIMEOUT_S)  # noqa: S310
        return answer


def main(environment: Mapping[str, str] = os.environ) -> int:
    """Post a comment; the exit code is also 0 if there is no pull request to post it on."""
    event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_bytes())
    root = f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}"
    github = GitHub(root, environment["GITHUB_TOKEN"])
    run = event["workflow_run"]
    base = event["repository"]["default_branch"]
    number = judged(github, run, base)
    if number is None:
        print("the judged commit is not the last one of an open pull request")
        return 0
    text = verdict(github, run["id"], base) if trusted(github, base, run["head_sha"]) else UNTRUSTED
    # A commit pushed in the meantime has not been judged.
    if github.get(f"pulls/{number}")["head"]["sha"] != run["head_sha"]:
        print(f"pull request {number} has a newer commit")
        return 0
    post(github, number, f"{MARK}\n{text}\n\nCommit {run['head_sha']}, [log]({run['html_url']}).\n")
    # Print nothing from the comment, because GitHub executes commands in the log.
    print(f"pull request {number} has its comment")
    return 0


def judged(github: GitHub, run: Json, base: str) -> int | None:
    """The number of the pull request that a run of the judge was about.

    Its artifact could name any, but GitHub knows the branch of the run.

    Args:
        github: The repository.
        run: GitHub's description of the run.
        base: The branch for submissions.
    """
    if run["event"] != "pull_request" or run["head_repository"] is None:
        return None
    head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
    for pull in github.get("pulls", state="open", head=head, base=base, per_page=PAGE):
        if pull["head"]["sha"] == run["head_sha"]:
            return int(pull["number"])
    return None


def trusted(github: GitHub, base: str, commit: str) -> bool:
    """Whether a commit changes only one folder of submissions, and thus none of the judge's code.

    Args:
        github: The repository.
        base: The target branch.
        commit: Its hash, since a pull request's branch may change in the meantime.
    """
    compared = github.get(f"compare/{quote(base, safe='')}...{commit}", per_page=1)
    return of_one_folder(compared["files"])


def of_one_folder(files: Sequence[Json]) -> bool:
    """Whether all changed files are in a single folder of submissions.

    Args:
        files: As listed by GitHub; a moved file has two names. A list that may have been truncated
            proves nothing.
    """
    names = [name for f in files for name in (f["filename"], f.get("previous_filename")) if name]
    folders = {match and match[1] for match in map(FOLDER.fullmatch, names)}
    return len(files) < MOST_FILES and len(folders) == 1 and None not in folders


def verdict(github: GitHub, run: int, base: str) -> str:
    """The comment left by a run of the judge; a fixed text if there is none.

    A branch can be sent to several others, whose code and submissions may be older: only the
    verdict of the branch for submissions is shown, with the commit that judged.

    Args:
        github: The repository.
        run: Number of the run.
        base: The branch.
    """
    found = github.get(f"actions/runs/{run}/artifacts", name="verdict")["artifacts"]
    kept = [artifact["id"] for artifact in found if not artifact["expired"]]
    if not kept:
        return NO_VERDICT
    # A run that was restarted has left one for each attempt.
    content = github.download(f"actions/artifacts/{max(kept)}/zip", MAX_ARCHIVE)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if not {"comment.md", "base.json"} <= set(archive.namelist()):
            return NO_VERDICT
        with archive.open("base.json") as file:
            judge = json.loads(file.read(MAX_BASE))
        commit = judge["commit"]
        if judge["branch"] != base or not COMMIT.fullmatch(commit):
            return OTHER_BASE
        # Read from the archive and never unpacked: a link in it is just text.
        with archive.open("comment.md") as file:
            text = file.read(4 * MAX_COMMENT).decode("utf-8", "replace")[:MAX_COMMENT].strip()
    return f"{text}\n\nJudged by {base} at {commit}."


def post(github: GitHub, number: int, text: str) -> None:
    """Create the comment, or update the existing one."""
    there = comment_of(github, number)
    if there is None:
        github.write("POST", f"issues/{number}/comments", body=text)
    else:
        github.write("PATCH", f"issues/comments/{there['id']}", body=text)


def comment_of(github: GitHub, number: int) -> Json | None:
    """The comment with the verdict on a pull request."""
    for comment in github.all(f"issues/{number}/comments"):
        # Anyone can write the mark or edit their own comment, so the author counts, too.
        if comment["user"] and comment["user"]["login"] == BOT and comment["body"].startswith(MARK):
            return comment
    return None


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HTTPError as error:
        sys.exit(f"comment_on_pull_request: {error.url}: {error.code} {error.reason}")
