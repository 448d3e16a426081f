"""The Hugging Face hub: records too large for the repository, and whether a model exists.

A file is named by dataset, commit and path, and its size and SHA-256 stand in `submission.json`. No
more than the stated size is read, and what has another hash is thrown away. `HF_ENDPOINT` names a
mirror and `HF_HUB_OFFLINE` keeps from asking, as for the hub's own library; no token is ever sent.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import platformdirs
import requests

from benchmark.archive import sha256_of
from benchmark.files import write_atomically
from benchmark.models import ModelIdentity
from benchmark.submissions.format.schema import SUBMISSION, StoredFile, Submission
from tasks.errors import UserError, os_error_as
from tasks.texts import digest_text, first_line

HUB: Final = "https://huggingface.co"
HOSTS: Final = ("huggingface.co", "hf.co")
"""Where files of the hub come from, with all names below these; a mirror is added to them."""
TIMEOUT_S: Final = 60
MAX_ANSWER: Final = 2**24
"""Bytes of what the hub says of a model."""
_REDIRECTS = 5
_CHUNK = 2**20
_ABSENT = (400, 401, 403, 404, 410, 451)
"""There is no such model, or not for everybody. Of a private one the hub does not say that it
exists, unless one is logged in."""


def fetched(file: StoredFile) -> Path:
    """The local copy of a file that lies on the hub; fetched if there is none yet.

    Raises:
        UserError: It cannot be fetched, or is not what is stated.
    """
    assert file.url is not None
    place = Path(platformdirs.user_cache_dir("arlarena-bench")) / "submissions" / file.sha256
    if place.exists() and sha256_of(place) == (file.sha256, file.bytes):
        return place
    content = _downloaded(file.url, file)
    with os_error_as(f"{place} cannot be written"):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, content)
    return place


def move_to_hub(folder: Path, submission: Submission, dataset: str, revision: str) -> int:
    """Name the hub as the place of a submission's compressed files, and take them out of it.

    They must be there already, as `<folder's name>/<path>`; each is fetched and compared first.

    Args:
        folder: The submission's folder.
        submission: What it says.
        dataset: `OWNER/NAME`.
        revision: The dataset's commit.

    Returns:
        How many files there were.

    Raises:
        UserError: A file is not on the hub as it is here; nothing was changed.
    """
    base = f"{HUB}/datasets/{dataset}/resolve/{revision}/{folder.name}"
    moved = []
    files = []
    for file in submission.files:
        if file.content_bytes is not None and file.url is None:
            stated = StoredFile.model_validate({**file.model_dump(), "url": f"{base}/{file.path}"})
            # Never from the local copies: that it is there is what is asked.
            _downloaded(f"{base}/{file.path}", stated)
            moved.append(file.path)
            files.append(stated)
        else:
            files.append(file)
    changed = submission.model_copy(update={"files": tuple(files)})
    content = changed.model_dump_json(indent=2) + "\n"
    with os_error_as(f"{folder} cannot be written"):
        write_atomically(folder / SUBMISSION, content.encode())
        for path in moved:
            (folder / path).unlink()
    return len(moved)


def is_on_hub(model: ModelIdentity) -> bool:
    """Whether the hub shows everybody a model at the stated commit.

    Args:
        model: Of kind `hub`, with a revision.

    Raises:
        UserError: The hub cannot say.
    """
    name = f"{model.name} at {model.revision}"
    path = f"/api/models/{model.name}/revision/{model.revision}?expand=sha"
    status, content = _read(path, MAX_ANSWER, name)
    if status in _ABSENT:
        return False
    if status != requests.codes.ok:
        raise UserError(f"{name} cannot be looked up: the hub answers with status {status}")
    try:
        found = json.loads(content)["sha"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{name} cannot be looked up: the hub names no commit") from error
    # A branch may be called like a commit.
    return bool(found == model.revision)


def _downloaded(url: str, file: StoredFile) -> bytes:
    """The content at an address, if it is what is stated of a file.

    Raises:
        UserError: It is not there, elsewhere than on the hub, or another.
    """
    status, content = _read(url.removeprefix(HUB), file.bytes, url)
    if status != requests.codes.ok:
        raise UserError(f"{url} cannot be fetched: the hub answers with status {status}")
    if len(content) != file.bytes:
        raise UserError(f"{url} has {len(content):,} bytes, but {file.bytes:,} are stated")
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise UserError(
            f"{url} has SHA-256 {digest_text(digest)}, but {digest_text(file.sha256)} is stated"
        )
    return content


def _read(path: str, limit: int, name: str) -> tuple[int, bytes]:
    """Status of an address of the hub, and its content if there is any to be had.

    Redirects are followed as long as they stay with the hub.

    Args:
        path: From the hub's root.
        limit: Bytes.
        name: What is asked for, for messages.

    Raises:
        UserError: The hub cannot be reached, leads elsewhere, or sends more.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise UserError(f"{name} cannot be fetched: HF_HUB_OFFLINE is set")
    mirror = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    address = mirror + path
    content = bytearray()
    try:
        with requests.Session() as session:
            # Compressed on its way, a short answer could unpack to a long one.
            session.headers["Accept-Encoding"] = "identity"
            # A .netrc file would be a token.
            session.auth = _no_login
            for _ in range(_REDIRECTS + 1):
                answer = session.get(address, stream=True, timeout=TIMEOUT_S, allow_redirects=False)
                if not answer.is_redirect:
                    break
                address = urljoin(address, answer.headers["location"])
                _check_host(address, mirror)
            else:
                raise UserError(f"{name} is redirected more than {_REDIRECTS} times")
            parts = answer.iter_content(_CHUNK) if answer.ok else ()
            for part in parts:
                content += part
                if len(content) > limit:
                    raise UserError(f"{name} is longer than the stated {limit:,} bytes")
    except (requests.RequestException, ValueError) as error:
        raise UserError(f"{name} cannot be fetched: {first_line(error)}") from error
    return answer.status_code, bytes(content)


def _no_login(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _check_host(address: str, mirror: str) -> None:
    """Check that a redirect stays with the hub.

    Raises:
        UserError: It does not.
    """
    parts, own = urlsplit(address), urlsplit(mirror)
    host = parts.hostname or ""
    trusted = any(host == name or host.endswith(f".{name}") for name in HOSTS)
    same = (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
    if not same and not (parts.scheme == "https" and trusted):
        raise UserError(f"the hub redirects to {host}, which is not its own")
