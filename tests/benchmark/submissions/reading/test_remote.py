"""Files and models on the hub, tested with a local server in its place."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import platformdirs
import pytest

from benchmark.archive import sha256_of
from benchmark.cli.main import main
from benchmark.models import ModelIdentity
from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.hub import check_hub
from benchmark.submissions.format.schema import StoredFile
from benchmark.submissions.reading.folder import read_submission
from benchmark.submissions.reading.remote import fetched, is_on_hub
from tasks.errors import UserError
from tests.benchmark.submissions.conftest import Copies
from tests.support.submissions.local_hub import Asked, LocalServer, Reply, serving
from tests.support.submissions.small import INITS, check

COMMIT = "0123456789" * 4
PATH = f"/datasets/owner/name/resolve/{COMMIT}/20260102_x/runs/r0/episodes.jsonl.zst"
CONTENT = b"what was uploaded"
HASH = hashlib.sha256(CONTENT).hexdigest()
STATED = StoredFile(
    path="runs/r0/episodes.jsonl.zst",
    bytes=len(CONTENT),
    sha256=HASH,
    content_bytes=100,
    url=f"https://huggingface.co{PATH}",
)
MODEL = ModelIdentity(name="owner/model", kind="hub", revision=COMMIT)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A server at the hub's address, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with serving(lambda asked: Reply(CONTENT)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"{server.url}/")
        yield server


def refused(file: StoredFile = STATED) -> str:
    """Why a file is rejected; nothing of it may remain."""
    with pytest.raises(UserError) as error:
        fetched(file)
    assert not any(path.is_file() for path in remote_cache().rglob("*"))
    return str(error.value)


def remote_cache() -> Path:
    return Path(platformdirs.user_cache_dir("arlarena-bench"))


def test_a_file_is_fetched_once_and_kept(hub: LocalServer) -> None:
    assert fetched(STATED).read_bytes() == CONTENT
    assert fetched(STATED).read_bytes() == CONTENT
    (asked,) = hub.asked
    assert (asked.method, asked.path) == ("GET", PATH)
    assert asked.headers["accept-encoding"] == "identity"


def test_a_damaged_copy_is_fetched_anew(hub: LocalServer) -> None:
    fetched(STATED).write_bytes(b"what was uploadex")
    assert fetched(STATED).read_bytes() == CONTENT
    assert len(hub.asked) == 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(CONTENT + b"!"), "is longer than the stated 17 bytes"),
        (Reply(bytes(2**22)), "is longer than the stated 17 bytes"),
        (Reply(CONTENT[:-1]), "has 16 bytes, but 17 are stated"),
        (Reply(b""), "has 0 bytes, but 17 are stated"),
        (Reply(b"what was uploadex"), "has SHA-256 5ce3628a8006..., "),
        (Reply(CONTENT, 404), "cannot be fetched: the hub answers with status 404"),
        (Reply(bytes(2**20), 404), "cannot be fetched: the hub answers with status 404"),
        (Reply(CONTENT, 206), "cannot be fetched: the hub answers with status 206"),
        (Reply(CONTENT, 503), "cannot be fetched: the hub answers with status 503"),
        (
            Reply(CONTENT, 200, {"Content-Length": "99", "Connection": "close"}),
            "cannot be fetched: ",
        ),
        (Reply(CONTENT, 302, {"Location": "http://["}), "cannot be fetched: "),
    ],
)
def test_what_is_not_as_stated_is_refused(hub: LocalServer, reply: Reply, message: str) -> None:
    hub.answer = lambda asked: reply
    text = refused()
    assert text.startswith(f"https://huggingface.co{PATH} {message}")
    assert "\n" not in text


@pytest.mark.slow
def test_what_unpacks_on_its_way_is_bounded(hub: LocalServer) -> None:
    bomb = gzip.compress(bytes(2**27))
    hub.answer = lambda asked: Reply(bomb, 200, {"Content-Encoding": "gzip"})
    assert "is longer than the stated 17 bytes" in refused()


def test_a_redirect_within_the_hub_is_followed(hub: LocalServer) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path == PATH:
            return Reply(b"", 302, {"Location": "/elsewhere?x=1"})
        return Reply(CONTENT)

    hub.answer = answer
    assert fetched(STATED).read_bytes() == CONTENT
    assert [asked.path for asked in hub.asked] == [PATH, "/elsewhere?x=1"]


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("http://localhost:{port}/x", "localhost"),
        ("https://127.0.0.1:{port}/x", "127.0.0.1"),
        ("http://127.0.0.1:1/x", "127.0.0.1"),
        ("https://example.org/x", "example.org"),
        ("https://huggingface.co.example.org/x", "huggingface.co.example.org"),
        ("https://nothuggingface.co/x", "nothuggingface.co"),
        ("https://huggingface.co@example.org/x", "example.org"),
        ("//example.org/x", "example.org"),
        ("http://huggingface.co/x", "huggingface.co"),
        ("file:///etc/passwd", ""),
    ],
)
def test_a_redirect_elsewhere_is_not_followed(hub: LocalServer, location: str, host: str) -> None:
    """No request is sent: the other host may be a service that only this machine can reach."""
    target = location.format(port=hub.port)
    hub.answer = lambda asked: Reply(CONTENT, 302, {"Location": target})
    assert refused() == f"the hub redirects to {host}, which is not its own"
    assert len(hub.asked) == 1


def test_redirects_come_to_an_end(hub: LocalServer) -> None:
    hub.answer = lambda asked: Reply(b"", 302, {"Location": f"{asked.path}x"})
    assert refused().endswith("is redirected more than 5 times")
    assert len(hub.asked) == 6


def test_nobody_is_logged_in(
    hub: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that only the reviewer can access is not a submission."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetched(STATED)
    (asked,) = hub.asked
    assert not {"authorization", "cookie"} & set(asked.headers)


def test_without_a_network(hub: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert refused().startswith(f"https://huggingface.co{PATH} cannot be fetched: ")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert refused().endswith("cannot be fetched: HF_HUB_OFFLINE is set")


def test_a_model_at_a_commit(hub: LocalServer) -> None:
    hub.answer = lambda asked: Reply(json.dumps({"id": "owner/model", "sha": COMMIT}).encode())
    assert is_on_hub(MODEL)
    (asked,) = hub.asked
    assert asked.path == f"/api/models/owner/model/revision/{COMMIT}?expand=sha"
    assert "authorization" not in asked.headers


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_model_that_is_not_there(hub: LocalServer, status: int) -> None:
    """The hub answers 401 for anything missing or private."""
    hub.answer = lambda asked: Reply(b'{"error": "Repository not found"}', status)
    assert not is_on_hub(MODEL)


def test_a_branch_that_is_called_like_a_commit(hub: LocalServer) -> None:
    hub.answer = lambda asked: Reply(json.dumps({"sha": "f" * 40}).encode())
    assert not is_on_hub(MODEL)


@pytest.mark.slow
def test_published_weights_are_looked_up(hub: LocalServer, copies: Copies) -> None:
    copy = copies("trained")
    for address, paths in (
        ("https://huggingface.co/owner/model/tree/main", []),
        (
            f"https://huggingface.co/owner/model/tree/{COMMIT}",
            [f"/api/models/owner/model/revision/{COMMIT}?expand=sha"],
        ),
    ):
        copy.about(partial(dict.update, weights=address))
        hub.asked.clear()
        hub.answer = lambda asked: Reply(b"", 404)
        found = list(check_hub(read_accepted(copy.folder), Context(INITS, hub=True)))
        assert [asked.path for asked in hub.asked] == paths
        assert [finding.field for finding in found] == ["weights"] * len(paths)
    hub.answer = lambda asked: Reply(json.dumps({"sha": COMMIT}).encode())
    assert not list(check_hub(read_accepted(copy.folder), Context(INITS, hub=True)))


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(b"", 503), "the hub answers with status 503"),
        (Reply(b"", 429), "the hub answers with status 429"),
        (Reply(b"<html>"), "the hub names no commit"),
        (Reply(b"[]"), "the hub names no commit"),
        (Reply(b"{}"), "the hub names no commit"),
        (Reply(b"[" * 100_000), "the hub names no commit"),
    ],
)
def test_a_hub_that_cannot_say(hub: LocalServer, reply: Reply, message: str) -> None:
    hub.answer = lambda asked: reply
    with pytest.raises(UserError) as error:
        is_on_hub(MODEL)
    assert str(error.value) == f"owner/model at {COMMIT} cannot be looked up: {message}"


def stored(copy_folder: Path, dataset: str) -> dict[str, bytes]:
    """A submission's compressed files by their paths on the hub."""
    return {
        f"/datasets/{dataset}/resolve/{COMMIT}/{copy_folder.name}/"
        f"{path.relative_to(copy_folder).as_posix()}": path.read_bytes()
        for path in copy_folder.rglob("*.zst")
    }


@pytest.mark.slow
def test_records_move_to_the_hub(
    hub: LocalServer, copies: Copies, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copies("policy")
    there = stored(copy.folder, "owner/name")
    hub.answer = lambda asked: Reply(there[asked.path])
    told = ["submit", "to-hub", str(copy.folder), "--dataset", f"owner/name@{COMMIT}"]
    assert main(told) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"1 file of {copy.folder} moved to the hub; check the folder")
    assert not list(copy.folder.rglob("*.zst"))
    (address,) = there
    (moved,) = [file for file in read_submission(copy.folder).files if file.url]
    assert moved.url == f"https://huggingface.co{address}"
    assert check(copy.folder).findings == ()
    assert main(told) == 0
    assert capsys.readouterr().out.startswith("0 files")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (lambda content: Reply(content[::-1]), "has SHA-256 "),
        (lambda content: Reply(content[:-1]), "are stated"),
        (lambda content: Reply(content + b"x"), "is longer than the stated "),
        (lambda content: Reply(b"", 404), "the hub answers with status 404"),
    ],
)
def test_records_that_are_not_on_the_hub_stay(
    hub: LocalServer,
    copies: Copies,
    capsys: pytest.CaptureFixture[str],
    reply: "type[Reply]",
    message: str,
) -> None:
    """Nothing is changed before all files have been found on the hub."""
    copy = copies("trained")
    there = stored(copy.folder, "owner/name")
    last = max(there)
    hub.answer = lambda asked: (reply if asked.path == last else Reply)(there[asked.path])
    before = {path: path.read_bytes() for path in copy.folder.rglob("*") if path.is_file()}
    told = ["submit", "to-hub", str(copy.folder), "--dataset", f"owner/name@{COMMIT}"]
    assert main(told) == 2
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("owner/name", "give the dataset and its commit, OWNER/NAME@COMMIT with 40 hex digits"),
        ("owner/name@main", "give the dataset and its commit"),
        (f"name@{COMMIT}", "give the dataset and its commit"),
        (f"a/b/c@{COMMIT}", "give the dataset and its commit"),
        (f"a b/c@{COMMIT}", "not a file of a dataset on the hub at a commit"),
        (f"a/?@{COMMIT}", "not a file of a dataset on the hub at a commit"),
    ],
)
def test_a_dataset_is_named_with_its_commit(
    hub: LocalServer,
    copies: Copies,
    capsys: pytest.CaptureFixture[str],
    dataset: str,
    message: str,
) -> None:
    told = ["submit", "to-hub", str(copies("policy").folder), "--dataset", dataset]
    assert main(told) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"arlarena-bench submit to-hub: --dataset {dataset}: ")
    assert message in line
    assert not hub.asked


def test_a_folder_that_is_no_submission_stays(
    hub: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["submit", "to-hub", str(tmp_path), "--dataset", f"owner/name@{COMMIT}"]
    assert main(told) == 2
    assert f"{tmp_path}: submission.json: cannot be read" in capsys.readouterr().err


def test_a_copy_from_elsewhere_does_not_show_that_a_file_is_on_the_hub(
    hub: LocalServer, copies: Copies, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copies("policy")
    (records,) = copy.folder.rglob("*.zst")
    place = remote_cache() / "submissions" / sha256_of(records)[0]
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(records, place)
    hub.answer = lambda asked: Reply(b"", 404)
    told = ["submit", "to-hub", str(copy.folder), "--dataset", f"nobody/nothing@{COMMIT}"]
    assert main(told) == 2
    assert "the hub answers with status 404" in capsys.readouterr().err
    assert records.exists()


def test_records_that_are_gone_are_a_finding(hub: LocalServer, copies: Copies) -> None:
    copy = copies("policy")
    there = stored(copy.folder, "owner/name")
    hub.answer = lambda asked: Reply(there[asked.path])
    told = ["submit", "to-hub", str(copy.folder), "--dataset", f"owner/name@{COMMIT}"]
    assert main(told) == 0
    hub.answer = lambda asked: Reply(b"", 404)
    (finding,) = check(copy.folder).findings
    assert finding.file == "runs/r0/episodes.jsonl.zst"
    assert finding.problem.endswith("cannot be fetched: the hub answers with status 404")
