"""The registry of inits: hashes match, changed files are rejected, similar names are suggested."""

import re
import shutil
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from baselines.inits.registry import Init, find_model, read_registry
from benchmark.models import folder_sha256, from_folder, from_hub
from tasks.errors import UserError
from tests.support.training.logs import start_line, update_line, validation_line, write_log

TINY = "tiny-sokoban"


def test_shipped_inits_are_the_pinned_ones_and_small() -> None:
    shipped = {name: init for name, init in read_registry().items() if init.folder}
    assert TINY in shipped
    for name, init in shipped.items():
        source = find_model(name)
        assert source.identity.kind == "init"
        assert source.identity.sha256 == init.sha256
        assert source.tasks == init.tasks
        assert init.folder is not None
        assert sum(file.stat().st_size for file in init.folder.iterdir()) < 12_000_000
        assert (init.folder / "README.md").is_file()
        assert (init.folder / "recipe.yaml").is_file()


def test_the_papers_inits_are_registered() -> None:
    hubs = {init.hub for init in read_registry().values() if init.role == "paper"}
    assert "UCLA-SCAI/Qwen3-4B-rft-alfworld" in hubs
    assert "willamazon1/Qwen3-4B-rft-webshop" in hubs


def test_an_init_with_changed_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = read_registry()[TINY]
    assert init.folder is not None
    shutil.copytree(init.folder, tmp_path / TINY)
    config = tmp_path / TINY / "config.json"
    config.write_text(config.read_text() + " ")
    changed = {TINY: init.model_copy(update={"folder": tmp_path / TINY})}
    monkeypatch.setattr("baselines.inits.registry.read_registry", lambda: changed)
    with pytest.raises(UserError, match=r"init tiny-sokoban: .* the registry pins"):
        find_model(TINY)


def test_a_folder_is_taken_as_it_is() -> None:
    folder = read_registry()[TINY].folder
    source = find_model(str(folder))
    assert source.identity.kind == "folder"
    assert source.tasks == ()


def test_the_hash_sees_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    first = folder_sha256(tmp_path)
    (tmp_path / "README.md").write_text("not loaded, not hashed")
    assert folder_sha256(tmp_path) == first
    (tmp_path / "config.json").write_text("{}")
    second = folder_sha256(tmp_path)
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    assert len({first, second, folder_sha256(tmp_path)}) == 3


def test_folders_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        from_folder(tmp_path / "none")
    with pytest.raises(UserError, match=r"has no \.safetensors weights$"):
        from_folder(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UserError, match="pickled weights are not loaded"):
        from_folder(tmp_path)


@pytest.mark.parametrize("name", ["owner/model@", "../x/y", "owner//model", "a b/c"])
def test_what_is_no_hub_id(name: str) -> None:
    with pytest.raises(UserError, match="not a hub id|cannot be loaded from the hub"):
        from_hub(name)


def test_a_model_that_the_hub_does_not_give_is_one_line() -> None:
    with pytest.raises(UserError, match="cannot be loaded from the hub: ") as failed:
        from_hub("owner/model@0123abc")
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "GatedRepo", "accept its license at https://huggingface.co/owner/model, and set"),
        (404, "RepoNotFound", "cannot be loaded from the hub: the hub's own reason; check"),
        (404, "RevisionNotFound", "cannot be loaded from the hub: the hub's own reason; check"),
    ],
)
def test_the_hubs_reason_is_told(
    status: int, code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses the hub's own client, with a server that sends the hub's errors."""

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", "the hub's own reason")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with HTTPServer(("127.0.0.1", 0), Hub) as hub:
        address = f"http://127.0.0.1:{hub.server_port}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        thread = Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        with pytest.raises(UserError, match=re.escape(message)) as failed:
            from_hub("owner/model")
        hub.shutdown()
        thread.join()
    assert "\n" not in str(failed.value)


def test_near_names_are_offered() -> None:
    with pytest.raises(UserError, match="did you mean tiny-sokoban"):
        find_model("tiny-sokban")


@pytest.mark.parametrize(
    "fields",
    [
        {"tasks": ("sokoban",), "role": "tiny"},
        {"tasks": ("sokoban",), "role": "tiny", "folder": "x"},
        {"tasks": ("sokoban",), "role": "tiny", "folder": "x", "hub": "a/b", "sha256": "0" * 64},
        {"tasks": ("sokoban",), "role": "other", "hub": "a/b"},
    ],
)
def test_entries_are_read_strictly(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="init|role"):
        Init.model_validate(fields)


@pytest.mark.parametrize("revision", ["", "@main", f"@{'0123456789' * 4}"])
def test_a_hub_model_is_loaded_at_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    """Uses the hub's own client, with a cache in the client's layout."""
    commit, folder = "0123456789" * 4, read_registry()[TINY].folder
    assert folder is not None
    repository = tmp_path / "models--owner--model"
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    source = from_hub(f"owner/model{revision}")
    assert (source.identity.kind, source.identity.name) == ("hub", "owner/model")
    assert source.identity.revision == commit
    assert source.identity.sha256 == folder_sha256(folder)
    with pytest.raises(UserError, match="the registry pins"):
        from_hub("owner/model", "some-init", sha256="0" * 64)


def _training(folder: Path, *solved: int) -> Path:
    """A run whose validations, before and after each update, solve these numbers of 256."""
    write_log(
        folder,
        [
            start_line(),
            validation_line(0, solved[0]),
            *(
                line
                for update, count in enumerate(solved[1:], 1)
                for line in (update_line(update), validation_line(update, count))
            ),
        ],
    )
    (folder / "last").mkdir()
    return folder


def test_a_missing_best_model_is_explained_by_the_log(tmp_path: Path) -> None:
    folder = _training(tmp_path / "worse", 128, 64, 128)
    with pytest.raises(UserError) as caught:
        find_model(str(folder / "best"))
    assert str(caught.value) == (
        f"model folder {folder / 'best'} does not exist: the training never beat its init (50.0%; "
        f"its best validation has 50.0%), so there is no best/; use {folder / 'last'}, as for "
        "every other seed"
    )
    better = _training(tmp_path / "better", 128, 129)
    for path in (better / "best", tmp_path / "nowhere" / "best", folder / "first"):
        with pytest.raises(UserError, match="there is no init or folder"):
            find_model(str(path))
