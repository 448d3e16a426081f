"""Which pull requests are in the queue, tested with a local server in GitHub's place."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmark.submissions.check import CheckResult
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.report import rejection
from leaderboard.board.queue import read_queue
from scripts.comment_on_pull_request import BOT, MARK
from scripts.queue_of_submissions import main
from tests.support.submissions.local_hub import Asked, Reply, serving

WAITING = rejection(
    CheckResult(Path(), (Finding("", "", "", "", until_rerun=True),), None, replayed=0, doubts=0)
)
ROOT = "/repos/owner/bench/"
ENTRY = [{"filename": "submissions/20270102_a/README.md"}]
RUNS: dict[str, list[dict[str, Any]]] = {
    "1" * 40: [{"status": "completed", "conclusion": "success"}],
    "2" * 40: [{"status": "completed", "conclusion": "cancelled"}],
    "3" * 40: [{"status": "in_progress", "conclusion": None}],
    "4" * 40: [],
    "9" * 40: [{"status": "completed", "conclusion": "failure"}],
}
FILES: dict[int, list[dict[str, Any]]] = {
    1: ENTRY, 2: ENTRY, 3: ENTRY, 4: ENTRY,
    # Several folders of submissions, none at all, and more files than a submission may have.
    5: [*ENTRY, {"filename": "benchmark/x.py"}], 6: [{"filename": "README.md"}], 7: [],
    8: 1000 * ENTRY, 9: ENTRY,
}  # fmt: skip


def said(user: str, text: str, commit: str) -> dict[str, Any]:
    return {"user": {"login": user}, "body": f"{MARK}\n{text}\n\nCommit {commit}, [log](x).\n"}


COMMENTS = {
    # One by somebody else, and a verdict on an earlier commit.
    2: [said("somebody", WAITING, "2" * 40), said(BOT, WAITING, "0" * 40)],
    9: [said("somebody", "Rejected.", "9" * 40), said(BOT, WAITING, "9" * 40)],
}


def answer(asked: Asked) -> Reply:
    parts = urlsplit(asked.path)
    query, path = parse_qs(parts.query), parts.path.removeprefix(ROOT)
    if asked.method != "GET" or asked.headers.get("authorization") != "Bearer secret":
        return Reply(b"{}", 403)
    if path == "pulls":
        assert (query["state"], query["base"]) == (["open"], ["main"])
        pulls = [
            {"number": n, "created_at": f"2027-01-0{n}T00:00:00Z", "title": "<script>",
             "head": {"sha": str(n) * 40}}
            for n in FILES
        ]  # fmt: skip
        return Reply(json.dumps(pulls).encode())
    if path == "actions/workflows/submission.yml/runs":
        return Reply(json.dumps({"workflow_runs": RUNS[query["head_sha"][0]]}).encode())
    if path.startswith("issues/"):
        return Reply(json.dumps(COMMENTS[int(path.split("/")[1])]).encode())
    number = int(path.removeprefix("pulls/").removesuffix("/files"))
    size, page = int(query["per_page"][0]), int(query["page"][0])
    # Later pages must not be requested.
    assert page <= 3
    return Reply(json.dumps(FILES[number][size * (page - 1) : size * page]).encode())


def test_submissions_that_wait_and_what_their_check_said(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    with serving(answer) as server:
        environment = {
            "GITHUB_API_URL": server.url, "GITHUB_REPOSITORY": "owner/bench",
            "GITHUB_TOKEN": "secret",
        }  # fmt: skip
        assert main([str(path)], environment) == 0
    # The board can read the file.
    found = read_queue(path).waiting
    assert [(each.number, each.state) for each in found] == [
        (1, "passed"), (2, "failed"), (3, "running"), (4, "waiting"), (9, "rerun"),
    ]  # fmt: skip
    assert {each.entry for each in found} == {"20270102_a"}
    assert found[0].opened == "2027-01-01"
    assert main([], {}) == 2
