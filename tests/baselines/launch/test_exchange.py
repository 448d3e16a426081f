"""New weights are handed over in memory, and nothing remains there."""

import asyncio
import multiprocessing
import os
import signal
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from baselines.launch import exchange
from baselines.launch.exchange import exchange_folder, in_use, sent_bytes
from benchmark.cli.main import parse
from benchmark.cli.training.train import _open_run
from benchmark.engines.server.weight_transfer import FolderTransfer
from benchmark.engines.transformers.engine import load_model


def test_weights_go_through_memory_where_they_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "free_shared_memory", lambda: 8 * 2**30)
    assert exchange_folder(8 * 2**30, tmp_path).parent == Path("/dev/shm")
    assert not caplog.messages
    assert exchange_folder(9 * 2**30, tmp_path) == tmp_path / "weights"
    said = "/dev/shm has 8.0 GiB free, and new weights take 9.0 GiB: they go through"
    assert caplog.messages[0].startswith(said)
    monkeypatch.setattr(exchange, "free_shared_memory", lambda: None)
    assert exchange_folder(1, tmp_path) == tmp_path / "weights"
    assert "/dev/shm is not there" in caplog.messages[1]


def test_as_many_bytes_are_wanted_as_are_written(tmp_path: Path) -> None:
    arguments = parse(["train", "--recipe", "grpo", "--init", "tiny-sokoban"])
    run = _open_run(arguments)[0]
    assert run.init.path is not None
    weights = load_model(run.init.path, "float32", "cpu").state_dict()
    transfer = FolderTransfer(run.init.path, tmp_path)
    asyncio.run(transfer.prepare(weights, 1))
    (file,) = tmp_path.rglob("*.safetensors")
    # The file also contains names and shapes.
    assert 0 < file.stat().st_size - sent_bytes(run) < 10_000
    assert sent_bytes(replace(run, weights_dtype="bfloat16")) == sent_bytes(run) // 2


def use(memory: Path, begun: Event) -> None:
    """Use a folder in memory until this process is killed."""
    pytest.MonkeyPatch().setattr(exchange, "SHARED_MEMORY", memory)
    with in_use(exchange_folder(0, memory)):
        folder = memory / f"arlarena-weights-{os.getpid()}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights")
        begun.set()
        signal.pause()


def test_what_a_killed_run_left_is_deleted_and_what_is_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SHARED_MEMORY", tmp_path)
    spawn = multiprocessing.get_context("spawn")
    begun = spawn.Event()
    process = spawn.Process(target=use, args=(tmp_path, begun))
    process.start()
    assert begun.wait(120)
    folder = tmp_path / f"arlarena-weights-{process.pid}"
    exchange_folder(0, tmp_path)
    assert (folder / "model.safetensors").exists()
    process.kill()
    process.join()
    assert folder.exists()
    exchange_folder(0, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_gone_when_its_run_has_ended(tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    with pytest.raises(KeyboardInterrupt), in_use(folder):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
