"""The Hugging Face hub: records too large for the repository, and whether a model exists.

A file is identified by dataset, commit and path, and `submission.json` has its size and SHA-256. No
more than the stated size is read, and content with another hash is discarded. `HF_ENDPOINT` sets a
mirror and `HF_HUB_OFFLINE` disables requests, as in the hub's own library; no token is ever sent.
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
"""Hosts of the hub, including their subdomains; a mirror is added to them."""
TIMEOUT_S: Final = 60
MAX_ANSWER: Final = 2**24
"""Maximum size of the hub's response about a model in bytes."""
_REDIRECTS = 5
_CHUNK = 2**20
_ABSENT = (400, 401, 403, 404, 410, 451)
"""Statuses for models that do not exist or are not public. The hub does not reveal private models
without a login."""


def fetched(file: StoredFile) -> Path:
    """The local copy of a file on the hub, which is downloaded if necessary.

    Raises:
        UserError: It cannot be downloaded, or its size or hash is not the stated one.
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
    """Replace a submission's compressed files by links to the hub.

    The files must already be on the hub, as `<folder's name>/<path>`; each is downloaded and
    compared first.

    Args:
        folder: The submission's folder.
        submission: Content of its `submission.json`.
        dataset: `OWNER/NAME`.
        revision: The dataset's commit.

    Returns:
        Number of replaced files.

    Raises:
        UserError: A file is missing on the hub or differs; nothing was changed.
    """
    base = f"{HUB}/datasets/{dataset}/resolve/{revision}/{folder.name}"
    moved = []
    files = []
    for file in submission.files:
        if file.content_bytes is not None and file.url is None:
            stated = StoredFile.model_validate({**file.model_dump(), "url": f"{base}/{file.path}"})
            # Not from the local copies, because the file must exist on the hub.
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
    """Whether a model is public on the hub at the stated commit.

    Args:
        model: A model of kind `hub`, with a revision.

    Raises:
        UserError: The hub gives no answer.
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
    # A branch may have the name of a commit.
    return bool(found == model.revision)


def _downloaded(url: str, file: StoredFile) -> bytes:
    """Download a file and check its size and hash.

    Raises:
        UserError: It is missing, not on the hub, or differs from the stated size or hash.
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
    """Request a path from the hub, and return the status and any content.

    Redirects are followed within the hub.

    Args:
        path: Path from the hub's root.
        limit: Maximum number of bytes.
        name: The requested item, for messages.

    Raises:
        UserError: The hub cannot be reached, redirects elsewhere, or sends too much.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise UserError(f"{name} cannot be fetched: HF_HUB_OFFLINE is set")
    mirror = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    address = mirror + path
    content = bytearray()
    try:
        with requests.Session() as session:
            # With compression, a short response could expand to a long one.
            session.headers["Accept-Encoding"] = "identity"
            # A .netrc file would add credentials.
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
    """Check that a redirect stays within the hub.

    Raises:
        UserError: It does not.
    """
    parts, own = urlsplit(address), urlsplit(mirror)
    host = parts.hostname or ""
    trusted = any(host == name or host.endswith(f".{name}") for name in HOSTS)
    same = (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
    if not same and not (parts.scheme == "https" and trusted):
        raise UserError(f"the hub redirects to {host}, which is not its own")
