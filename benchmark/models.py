"""Finds a model: from the user's name for it to local files and an identity."""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from benchmark.fields import MAX_NAME, Name, Sha256
from benchmark.model_files import check_own_files
from tasks.errors import UserError
from tasks.strict import Strict
from tasks.texts import counted, digest_text, first_line

# What is loaded: weights as safetensors only, configuration and tokenizer as data only.
FILE_PATTERNS = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")
_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$", re.ASCII)
_CHUNK = 2**20
_POINTER = b"version https://git-lfs"
_STEP = re.compile(r"checkpoint-(\d{1,12})", re.ASCII)


class AdapterIdentity(Strict):
    """Which LoRA adapter was applied to a model.

    Attributes:
        name: Its folder's name or its repository on the hub.
        sha256: Hash over its configuration and its weights.
        revision: Commit of one from the hub.
    """

    name: Name
    sha256: Sha256
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter that can be loaded.

    Attributes:
        identity: What stands in the run.
        path: Folder with `adapter_config.json` and `adapter_model.safetensors`.
        rank: The largest rank of its updates.
    """

    identity: AdapterIdentity
    path: Path
    rank: int


class ModelIdentity(Strict):
    """Identity of the weights that produced the responses.

    Attributes:
        name: An init's name, a folder's name, a hub id, a served model's name or a policy.
        kind: Where it came from.
        revision: Commit of a hub model, as resolved when it was loaded.
        sha256: Hash over the files of a folder (weights, configuration, tokenizer); null for a
            served model or a policy, whose weights this program does not see.
        adapter: A LoRA adapter on top of it; null for none.
    """

    name: Name
    kind: Literal["init", "folder", "hub", "endpoint", "policy"]
    revision: str | None = None
    sha256: Sha256 | None = None
    # Models without one are written as they were before there were adapters.
    adapter: AdapterIdentity | None = Field(None, exclude_if=lambda adapter: adapter is None)

    @property
    def canonical(self) -> "ModelIdentity":
        """The one form of all names that mean the same.

        The hub finds a repository in any case, and its commit says which files are meant: a hash
        beside it says nothing more, and could be invented.
        """
        if self.kind != "hub":
            return self
        return self.model_copy(update={"name": self.name.casefold(), "sha256": None})

    @property
    def text(self) -> str:
        """One line for people."""
        revision = f", revision {self.revision}" if self.revision else ""
        digest = f", SHA-256 {digest_text(self.sha256)}" if self.sha256 else ""
        text = f"{self.name} ({self.kind}{revision}{digest})"
        if self.adapter is not None:
            text += f" with LoRA {self.adapter.name} (SHA-256 {digest_text(self.adapter.sha256)})"
        return text


def same_weights(one: ModelIdentity, other: ModelIdentity) -> bool:
    """Whether two identities are of the same weights, as far as can be seen without them.

    Hub models are compared by commit, which two repositories have in common only if one is a copy
    of the other, all others by the hash of their files; only what has neither (policies, served
    models) by name.
    """
    one, other = one.canonical, other.canonical
    if _adapter_hash(one) != _adapter_hash(other):
        return False
    if one.kind == "hub" and other.kind == "hub" and one.revision and other.revision:
        return one.revision == other.revision
    if one.kind == "hub" or other.kind == "hub":
        return one == other
    if one.sha256 is not None or other.sha256 is not None:
        return one.sha256 == other.sha256
    return (one.name, one.revision) == (other.name, other.revision)


def same_files(one: ModelIdentity, other: ModelIdentity) -> bool:
    """Whether two runs noted one hash of files, whatever their models are called.

    A hash that is noted beside a hub's commit could be invented: an equal one is an objection, and
    no excuse for equal records.
    """
    known = one.sha256 is not None and one.sha256 == other.sha256
    return known and _adapter_hash(one) == _adapter_hash(other)


def _adapter_hash(model: ModelIdentity) -> str | None:
    return None if model.adapter is None else model.adapter.sha256


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that can be opened.

    Attributes:
        identity: What stands in the run.
        path: Folder with its files; None for a served model.
        tasks: The tasks that it was made for, if it is an init.
        adapter: A LoRA adapter on top of it.
    """

    identity: ModelIdentity
    path: Path | None
    tasks: tuple[str, ...] = ()
    adapter: Adapter | None = None


def from_folder(
    path: Path, name: str | None = None, sha256: str | None = None, tasks: tuple[str, ...] = ()
) -> ModelSource:
    """Take a model from a folder.

    Args:
        path: The folder.
        name: The init's name; None for a user's own folder.
        sha256: Hash that the files must have.
        tasks: Tasks of the init.

    Raises:
        UserError: No such folder, no weights in it, another hash, or a model that is more than the
            files which are hashed (`check_own_files`).
    """
    if path.is_file():
        raise UserError(f"{path} is a file; name its folder, {path.parent}")
    if not path.is_dir():
        raise UserError(f"model folder {path} does not exist")
    check_own_files(path)
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise UserError(f"model folder {path} has no .safetensors weights{_what_else(path)}")
    for file in files:
        check_pulled(file)
    digest = folder_sha256(path)
    if sha256 is not None and digest != sha256:
        raise UserError(
            f"init {name}: the files in {path} have SHA-256 {digest_text(digest)}, but the "
            f"registry pins {digest_text(sha256)}; restore them, or pass the "
            "folder itself to --model"
        )
    identity = ModelIdentity(
        name=name or path.resolve().name[:MAX_NAME],
        kind="init" if name else "folder",
        sha256=digest,
    )
    return ModelSource(identity, path, tasks)


def _what_else(path: Path) -> str:
    """What to do about a folder without weights."""
    checkpoints = [path / name for name in ("best", "last")]
    found = [str(folder) for folder in checkpoints if any(folder.glob("*.safetensors"))]
    if found:
        return f": it is the folder of a training run, whose models are {' and '.join(found)}"
    numbered = [file.parent for file in path.glob("checkpoint-*/*.safetensors")]
    steps = {int(step[1]): one for one in numbered if (step := _STEP.fullmatch(one.name))}
    if steps:
        last = steps[max(steps)]
        return f": it holds {counted(len(steps), 'checkpoint')}; name one, such as {last}"
    if any(path.glob("*.bin")) or any(path.glob("*.pt")):
        return "; pickled weights are not loaded, convert them to safetensors"
    return ""


def check_pulled(file: Path) -> None:
    """Refuse the pointer that Git leaves where a large file was.

    Raises:
        UserError: The file is a pointer.
    """
    with file.open("rb") as stream:
        if stream.read(len(_POINTER)) == _POINTER:
            raise UserError(
                f"{file} is a pointer of Git LFS and holds no weights: run `git lfs pull` in "
                f"{file.parent}"
            )


def from_hub(
    hub_id: str, name: str | None = None, tasks: tuple[str, ...] = (), sha256: str | None = None
) -> ModelSource:
    """Take a model from the hub (`owner/name` or `owner/name@revision`), downloading if needed.

    Args:
        hub_id: Repository, with a revision if a certain one is wanted.
        name: The init's name; None for any other model.
        tasks: Tasks of the init.
        sha256: Hash that the files must have.

    Raises:
        UserError: The id is malformed, unknown, or the hub cannot be reached.
    """
    repository, folder = downloaded(hub_id, f"model {hub_id}")
    source = from_folder(folder, name, sha256)
    identity = ModelIdentity(
        name=name or repository,
        kind="hub" if name is None else "init",
        revision=folder.name,
        sha256=source.identity.sha256,
    )
    return ModelSource(identity, source.path, tasks)


def is_hub_id(text: str) -> bool:
    """Whether a text has the form of a hub id: `owner/name` or `owner/name@revision`."""
    return _HUB_ID.match(text.partition("@")[0]) is not None


def downloaded(hub_id: str, what: str) -> tuple[str, Path]:
    """Download what is loaded of a repository on the hub.

    Args:
        hub_id: As for `from_hub`.
        what: What it is called in messages.

    Returns:
        The repository, and the folder with its files, which is named by the commit.

    Raises:
        UserError: The id is malformed, unknown, or the hub cannot be reached.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    repository, _, revision = hub_id.partition("@")
    if not is_hub_id(hub_id):
        raise UserError(f"model {hub_id!r} is not a hub id (owner/name or owner/name@revision)")
    try:
        folder = snapshot_download(
            repository, revision=revision or None, allow_patterns=list(FILE_PATTERNS)
        )
    except GatedRepoError as error:
        raise UserError(
            f"{what} is gated: accept its license at https://huggingface.co/{repository}, and set "
            "HF_TOKEN to a token of the account that accepted it"
        ) from error
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        # The hub begins with a status and a request's number, and gives the reason below.
        said = getattr(error, "server_message", None)
        reason = " ".join(said.split()) if said else first_line(error)
        raise UserError(
            f"{what} cannot be loaded from the hub: {reason}; check the name, "
            "the revision and the network, or pass a local folder"
        ) from error
    return repository, Path(folder)


def served(name: str) -> ModelSource:
    """A model behind an endpoint, by the name that the server knows it by.

    Raises:
        UserError: That can be no name.
    """
    if not name or len(name) > MAX_NAME:
        raise UserError(f"--model must be a name of 1 to {MAX_NAME} characters")
    return ModelSource(ModelIdentity(name=name, kind="endpoint"), None)


def policy(name: str) -> ModelSource:
    """A scripted policy in a model's place."""
    return ModelSource(ModelIdentity(name=name, kind="policy"), None)


def weights_in(path: Path) -> int:
    """Number of weights of the model in a folder, by the heads of its files alone."""
    from safetensors import safe_open

    total = 0
    for file in path.glob("*.safetensors"):
        with safe_open(file, framework="numpy") as tensors:
            names = tensors.keys()
            total += sum(math.prod(tensors.get_slice(name).get_shape()) for name in names)
    return total


def folder_sha256(path: Path, patterns: Sequence[str] = FILE_PATTERNS) -> str:
    """Hash of a model: over the names and hashes of all files that are loaded from its folder."""
    files = sorted({file for pattern in patterns for file in path.glob(pattern)})
    digest = hashlib.sha256()
    for file in files:
        content = hashlib.sha256()
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                content.update(chunk)
        digest.update(f"{file.name}\0{content.hexdigest()}\n".encode())
    return digest.hexdigest()
