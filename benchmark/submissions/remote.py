"""Records that are too large for the repository: files of datasets on the Hugging Face hub.

A file is named by dataset, commit and path, and its size and SHA-256 stand in `submission.json`. No
more than the stated size is read, and what has another hash is thrown away. `HF_ENDPOINT` names a
mirror, as for the hub's own library.
"""

import hashlib
import os
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import platformdirs
import requests

from benchmark.files import write_atomically
from benchmark.submissions.archive import sha256_of
from benchmark.submissions.schema import SUBMISSION, StoredFile, Submission
from tasks.errors import UserError

HUB: Final = "https://huggingface.co"
HOSTS: Final = ("huggingface.co", "hf.co")
"""Where files of the hub come from, with all names below these; a mirror is added to them."""
TIMEOUT_S: Final = 60
_REDIRECTS = 5
_CHUNK = 2**20


def fetched(file: StoredFile) -> Path:
    """The local copy of a file that lies on the hub; fetched if there is none yet.

    Raises:
        UserError: It cannot be fetched, or is not what is stated.
    """
    assert file.url is not None
    place = Path(platformdirs.user_cache_dir("arlarena-bench")) / "submissions" / file.sha256
    if place.exists() and sha256_of(place) == (file.sha256, file.bytes):
        return place
    content = _download(file.url, file.bytes)
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise UserError(f"{file.url} has SHA-256 {digest[:12]}..., {file.sha256[:12]}... is stated")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, content)
    except OSError as error:
        raise UserError(f"{place} cannot be written: {error.strerror}") from error
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
            fetched(stated)
            moved.append(file.path)
            files.append(stated)
        else:
            files.append(file)
    changed = submission.model_copy(update={"files": tuple(files)})
    content = changed.model_dump_json(indent=2) + "\n"
    try:
        write_atomically(folder / SUBMISSION, content.encode())
        for path in moved:
            (folder / path).unlink()
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    return len(moved)


def _download(url: str, size: int) -> bytes:
    """The content at an address, if it is exactly so long.

    Raises:
        UserError: It is not there, elsewhere than on the hub, or of another size.
    """
    mirror = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    address = mirror + url.removeprefix(HUB)
    try:
        with requests.Session() as session:
            for _ in range(_REDIRECTS):
                response = session.get(
                    address, stream=True, timeout=TIMEOUT_S, allow_redirects=False
                )
                if not response.is_redirect:
                    break
                address = urljoin(address, response.headers["location"])
                _check_host(address, mirror)
            else:
                raise UserError(f"{url} is redirected more than {_REDIRECTS} times")
            response.raise_for_status()
            content = bytearray()
            for part in response.iter_content(_CHUNK):
                content += part
                if len(content) > size:
                    raise UserError(f"{url} is longer than the stated {size:,} bytes")
    except requests.RequestException as error:
        raise UserError(f"{url} cannot be fetched: {str(error).splitlines()[0]}") from error
    if len(content) != size:
        raise UserError(f"{url} has {len(content):,} bytes, {size:,} are stated")
    return bytes(content)


def _check_host(address: str, mirror: str) -> None:
    """See that a redirect stays with the hub.

    Raises:
        UserError: It does not.
    """
    parts, own = urlsplit(address), urlsplit(mirror)
    host = parts.hostname or ""
    trusted = any(host == name or host.endswith(f".{name}") for name in HOSTS)
    if (parts.scheme, host) != (own.scheme, own.hostname) and not (
        parts.scheme == "https" and trusted
    ):
        raise UserError(f"the hub redirects to {host}, which is not its own")
