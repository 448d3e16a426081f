"""Which comments are posted on pull requests, tested with a local server in GitHub's place."""

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from scripts.comment_on_pull_request import (
    BOT,
    MARK,
    MAX_COMMENT,
    NO_VERDICT,
    OTHER_BASE,
    UNTRUSTED,
    main,
    of_one_folder,
)
from tests.support.submissions.local_hub import Asked, LocalServer, Reply, serving

SHA = "a" * 40
BASE = "b" * 40
FILE = "submissions/20260102_x/README.md"
REPOSITORY = "/repos/owner/bench"


def zipped(
    content: str | bytes,
    name: str = "comment.md",
    link: bool = False,
    base: bytes | None = None,
) -> bytes:
    stored = io.BytesIO()
    judge = json.dumps({"branch": "main", "commit": BASE}).encode() if base is None else base
    with zipfile.ZipFile(stored, "w") as archive:
        entry = zipfile.ZipInfo(name)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o120777 if link else 0o100644) << 16
        archive.writestr(entry, content)
        if judge:
            archive.writestr("base.json", judge)
    return stored.getvalue()


@dataclass
class Forge:
    """GitHub's data: one pull request, the files of its commit, a verdict and comments."""

    head: str = SHA
    files: list[dict[str, Any]] = field(default_factory=lambda: [{"filename": FILE}])
    archives: dict[int, bytes] = field(default_factory=lambda: {7: zipped("Accepted.\n")})
    expired: bool = False
    comments: list[dict[str, Any]] = field(default_factory=list)
    pushed: str | None = None
    run: dict[str, Any] = field(default_factory=dict)
    server: LocalServer | None = None

    def answer(self, asked: Asked) -> Reply:
        parts = urlsplit(asked.path)
        query = parse_qs(parts.query)
        if parts.path == "/blobs":
            return Reply(self.archives[int(query["id"][0])])
        if asked.headers.get("authorization") != "Bearer secret":
            return Reply(b"{}", 401)
        path = parts.path.removeprefix(f"{REPOSITORY}/")
        if asked.method == "POST" and path == "issues/5/comments":
            said = json.loads(asked.body)["body"]
            self.comments.append({"id": 1000, "user": {"login": BOT}, "body": said})
            return Reply(b"{}", 201)
        if asked.method == "PATCH":
            (comment,) = [c for c in self.comments if path == f"issues/comments/{c['id']}"]
            comment["body"] = json.loads(asked.body)["body"]
            return Reply(b"{}")
        if path.startswith("actions/artifacts/"):
            assert self.server is not None
            # GitHub's files are on another host.
            host = f"http://localhost:{self.server.port}"
            return Reply(b"", 302, {"Location": f"{host}/blobs?id={path.split('/')[2]}"})
        found = self._get(path, query)
        return Reply(b"{}", 404) if found is None else Reply(json.dumps(found).encode())

    def _get(self, path: str, query: dict[str, list[str]]) -> Any:
        match path:
            case "pulls":
                asked = query["head"][0], query["base"][0], query["state"][0]
                mine = asked == ("mallory:a&b=#c/d", "main", "open")
                return [{"number": 5, "head": {"sha": self.head}}] if mine else []
            case "pulls/5":
                return {"number": 5, "head": {"sha": self.pushed or self.head}}
            case "issues/5/comments":
                page, size = int(query["page"][0]), int(query["per_page"][0])
                return self.comments[(page - 1) * size : page * size]
            case "actions/runs/3/artifacts":
                known = [{"id": key, "expired": self.expired} for key in self.archives]
                return {"artifacts": known}
        if path == f"compare/main...{SHA}":
            return {"files": self.files}
        return None

    def post(self, tmp_path: Path) -> list[str]:
        """Run the script; returns the bodies of all comments afterward."""
        run = {
            "id": 3,
            "event": "pull_request",
            "head_sha": SHA,
            "head_branch": "a&b=#c/d",
            "head_repository": {"owner": {"login": "mallory"}},
            "html_url": "https://example.org/run",
            **self.run,
        }
        event = tmp_path / "event.json"
        content = {"workflow_run": run, "repository": {"default_branch": "main"}}
        event.write_text(json.dumps(content))
        assert self.server is not None
        environment = {
            "GITHUB_API_URL": self.server.url,
            "GITHUB_REPOSITORY": "owner/bench",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_TOKEN": "secret",
        }
        assert main(environment) == 0
        return [comment["body"] for comment in self.comments]


@pytest.fixture
def forge() -> Iterator[Forge]:
    known = Forge()
    with serving(known.answer) as server:
        known.server = server
        yield known


def comment_of(text: str) -> str:
    fixed = text in (UNTRUSTED, NO_VERDICT, OTHER_BASE)
    judge = "" if fixed else f"\n\nJudged by main at {BASE}."
    return f"{MARK}\n{text}{judge}\n\nCommit {SHA}, [log](https://example.org/run).\n"


def test_the_verdict_on_a_submission_is_posted(forge: Forge, tmp_path: Path) -> None:
    assert forge.post(tmp_path) == [comment_of("Accepted.")]


def test_the_token_stays_with_github(forge: Forge, tmp_path: Path) -> None:
    forge.post(tmp_path)
    assert forge.server is not None
    sent = {asked.headers["host"].partition(":")[0]: asked for asked in forge.server.asked}
    assert set(sent) == {"127.0.0.1", "localhost"}
    assert "authorization" not in sent["localhost"].headers


@pytest.mark.parametrize(
    "files",
    [
        [{"filename": FILE}, {"filename": ".github/workflows/submission.yml"}],
        [{"filename": ".github/workflows/other.yml"}],
        [{"filename": FILE}, {"filename": "submissions/20260102_y/x"}],
        [{"filename": FILE}, {"filename": "submissions/reruns.yaml"}],
        [{"filename": FILE, "previous_filename": "scripts/judge_pull_request.py"}],
        [{"filename": "submissions/20260102_x/../../scripts/x", "previous_filename": "x"}],
        [{"filename": "xsubmissions/20260102_x/x"}],
        [{"filename": "submissions/20260102_x"}],
        [{"filename": f"{FILE}{number}"} for number in range(300)],
        [],
    ],
)
def test_a_verdict_that_may_be_forged_is_not_posted(
    forge: Forge, tmp_path: Path, files: list[dict[str, Any]]
) -> None:
    """The artifact is not even requested then."""
    forge.files = files
    assert forge.post(tmp_path) == [comment_of(UNTRUSTED)]
    assert forge.server is not None
    assert not any("artifact" in asked.path for asked in forge.server.asked)


def test_a_folder_of_many_files_is_one_folder() -> None:
    assert of_one_folder([{"filename": f"{FILE}{number}"} for number in range(299)])
    assert of_one_folder([{"filename": f"{FILE}\n", "previous_filename": FILE}])


@pytest.mark.parametrize(
    "run",
    [
        {"head_branch": "another"},
        {"head_repository": {"owner": {"login": "alice"}}},
        {"head_repository": None},
        {"event": "push"},
        {"head_sha": "b" * 40},
    ],
)
def test_without_a_pull_request_nothing_is_posted(
    forge: Forge, tmp_path: Path, run: dict[str, Any]
) -> None:
    forge.run = run
    assert forge.post(tmp_path) == []


def test_what_was_pushed_meanwhile_is_not_what_was_judged(forge: Forge, tmp_path: Path) -> None:
    forge.pushed = "c" * 40
    assert forge.post(tmp_path) == []


def test_a_run_that_left_no_verdict(forge: Forge, tmp_path: Path) -> None:
    forge.archives = {}
    assert forge.post(tmp_path) == [comment_of(NO_VERDICT)]
    forge.archives = {7: zipped("text", "other.md")}
    assert forge.post(tmp_path) == [comment_of(NO_VERDICT)]
    forge.archives, forge.expired = {7: zipped("Accepted.")}, True
    assert forge.post(tmp_path) == [comment_of(NO_VERDICT)]


def test_the_last_attempt_counts(forge: Forge, tmp_path: Path) -> None:
    forge.archives = {8: zipped("second"), 7: zipped("first")}
    assert forge.post(tmp_path) == [comment_of("second")]


def test_a_link_in_the_archive_leads_nowhere(forge: Forge, tmp_path: Path) -> None:
    """A followed link would post the token from `/proc/self/environ`."""
    forge.archives = {7: zipped("/proc/self/environ", link=True)}
    assert forge.post(tmp_path) == [comment_of("/proc/self/environ")]


def test_no_word_of_a_comment_is_in_the_log(
    forge: Forge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge.archives = {7: zipped(b"##[error]\x1b]0;x\x07\n\n::warning::x")}
    forge.post(tmp_path)
    assert capsys.readouterr().out == "pull request 5 has its comment\n"


def test_a_long_verdict_is_cut(forge: Forge, tmp_path: Path) -> None:
    forge.archives = {7: zipped(b"x" * 2**26)}
    (text,) = forge.post(tmp_path)
    assert text == comment_of("x" * MAX_COMMENT)
    assert len(text) < 65_536


def test_an_archive_without_end_is_refused(forge: Forge, tmp_path: Path) -> None:
    forge.archives = {7: bytes(2**24 + 1)}
    with pytest.raises(ValueError, match="is longer than 16,777,216 bytes"):
        forge.post(tmp_path)
    assert forge.comments == []


def test_one_comment_is_kept_up_to_date(forge: Forge, tmp_path: Path) -> None:
    """Its comment is on the second page, after somebody else's with the same first line."""
    forged = {"id": 1, "user": {"login": "mallory"}, "body": f"{MARK}\nmine"}
    gone = {"id": 2, "user": None, "body": MARK}
    talk = [{"id": 10 + n, "user": {"login": BOT}, "body": "hello"} for n in range(100)]
    forge.comments = [forged, gone, *talk]
    forge.post(tmp_path)
    forge.archives = {7: zipped("Not accepted.")}
    bodies = forge.post(tmp_path)
    assert len(bodies) == 103
    assert bodies[0] == f"{MARK}\nmine"
    assert bodies[-1] == comment_of("Not accepted.")


def test_a_forge_that_refuses_is_an_error(forge: Forge, tmp_path: Path) -> None:
    assert forge.server is not None
    forge.server.answer = lambda asked: Reply(b"{}", 403)
    with pytest.raises(HTTPError, match="403"):
        forge.post(tmp_path)


@pytest.mark.parametrize(
    "base",
    [
        {"branch": "old", "commit": BASE},
        {"branch": "main2", "commit": BASE},
        {"branch": "refs/heads/main", "commit": BASE},
        {"branch": "main", "commit": "main"},
        {"branch": "main", "commit": f"{BASE}\n@someone"},
    ],
)
def test_a_verdict_of_another_branch_is_not_shown(
    forge: Forge, tmp_path: Path, base: dict[str, str]
) -> None:
    """The same branch is sent to main and to an older branch, whose judge accepts it."""
    forge.archives = {7: zipped("Accepted.", base=json.dumps(base).encode())}
    assert forge.post(tmp_path) == [comment_of(OTHER_BASE)]


def test_a_judge_that_does_not_say_its_base_is_an_older_one(forge: Forge, tmp_path: Path) -> None:
    forge.archives = {7: zipped("Accepted.", base=b"")}
    assert forge.post(tmp_path) == [comment_of(NO_VERDICT)]
