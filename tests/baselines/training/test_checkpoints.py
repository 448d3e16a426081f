"""Checkpoints: they restore what was saved, and a complete one exists at every moment."""

import errno
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from transformers import Qwen3Config, Qwen3ForCausalLM

from baselines.inits.registry import find_model
from baselines.training import checkpoints
from baselines.training.checkpoints import (
    BEST,
    LAST,
    TrainingState,
    find_last,
    load_last,
    save_best,
    save_last,
)
from benchmark.engines.core.chat import Chat
from benchmark.models import from_folder
from tasks.errors import UserError
from tests.support.training.full_disk import files_of_at_most

CONFIGURATION = "c" * 64
STATE = TrainingState(
    update=3,
    validated=2,
    position=24,
    seconds=12.5,
    best=0.5,
    skipped=(0, 2),
    older_version=1,
    checkpoint_seconds=0.25,
    configuration=CONFIGURATION,
)


def chat() -> Chat:
    source = find_model("tiny-sokoban")
    assert source.path is not None
    return Chat.load(source.path)


class Training:
    """A policy and an optimizer with its own moments, in the format of accelerate.

    Args:
        width: Width of the network, which determines the size of the files.
    """

    def __init__(self, width: int = 8) -> None:
        config = Qwen3Config(
            vocab_size=64,
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=4,
            max_position_embeddings=32,
            tie_word_embeddings=True,
        )
        self.accelerator = Accelerator(cpu=True)
        model = Qwen3ForCausalLM(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)

    def step(self) -> None:
        """Take one optimizer step on random tokens."""
        ids = torch.randint(64, (2, 8))
        self.accelerator.backward(self.model(input_ids=ids, labels=ids).loss)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of the policy."""
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def save(self, folder: Path, update: int = 3, **also: Any) -> None:
        """Write a checkpoint in place of the last one."""
        state = replace(STATE, update=update)
        save_last(self.accelerator, self.model, chat(), folder, state, **also)


def found(folder: Path) -> TrainingState | None:
    return find_last(folder, CONFIGURATION)


def updates(folder: Path) -> int:
    state = found(folder)
    assert state is not None
    return state.update


def test_a_new_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert found(tmp_path) is None
    assert found(tmp_path / "not" / "there") is None


def test_training_goes_on_from_a_checkpoint_as_if_nothing_had_been(tmp_path: Path) -> None:
    training = Training()
    training.step()
    older = training.weights()
    training.step()
    training.save(tmp_path, older=older)
    drawn = random.random(), np.random.random(), torch.rand(3).tolist()
    training.step()
    expected = training.weights()

    other = Training()
    loaded = load_last(other.accelerator, tmp_path)
    assert found(tmp_path) == STATE
    assert loaded is not None and loaded.keys() == older.keys()
    for name, value in older.items():
        torch.testing.assert_close(loaded[name], value, rtol=0, atol=0)
    assert (random.random(), np.random.random(), torch.rand(3).tolist()) == drawn
    other.step()
    for name, value in other.weights().items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0)


def test_there_is_an_older_policy_only_where_there_was_one(tmp_path: Path) -> None:
    training = Training()
    training.save(tmp_path, older=training.weights())
    training.save(tmp_path)
    assert load_last(training.accelerator, tmp_path) is None


def test_both_checkpoints_are_model_folders(tmp_path: Path) -> None:
    training = Training()
    save_best(training.accelerator, training.model, chat(), tmp_path)
    training.step()
    training.save(tmp_path)
    for name in (LAST, BEST):
        source = from_folder(tmp_path / name)
        assert source.path is not None
        assert Chat.load(source.path).render(({"role": "user", "content": "up"},))
        assert not list((tmp_path / name).glob("*.bin"))
    best = Qwen3ForCausalLM.from_pretrained(tmp_path / BEST)
    last = Qwen3ForCausalLM.from_pretrained(tmp_path / LAST)
    assert not torch.equal(best.lm_head.weight, last.lm_head.weight)
    torch.testing.assert_close(last.lm_head.weight, training.weights()["lm_head.weight"])


def test_nothing_but_the_checkpoints_is_left(tmp_path: Path) -> None:
    training = Training()
    for update in (1, 2):
        training.save(tmp_path, update)
        save_best(training.accelerator, training.model, chat(), tmp_path)
    assert updates(tmp_path) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [BEST, LAST]


@pytest.mark.parametrize(
    ("width", "size", "writer"),
    [
        # The tokenizer has 21 kB. Weights have more, or less; the optimizer has twice as much.
        (8, 16_000, "tokenizer.json"),
        (64, 50_000, "model.safetensors"),
        (64, 140_000, "optimizer.bin"),
    ],
)
def test_a_failing_disk_leaves_the_old_checkpoint(
    width: int, size: int, writer: str, tmp_path: Path
) -> None:
    training = Training(width)
    training.step()
    training.save(tmp_path, update=1)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / LAST).rglob("*")}
    assert sizes[writer] > size, "this is the one that fails"
    weights = training.weights()
    training.step()
    with files_of_at_most(size), pytest.raises(UserError) as caught:
        training.save(tmp_path, update=2)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"the checkpoint in {tmp_path} cannot be written: ")
    assert line.endswith("kept: free disk space and run the same command again")
    assert "File too large" in line or "a file could not be written whole" in line
    # The incomplete checkpoint takes up no space.
    assert [path.name for path in tmp_path.iterdir()] == [LAST]
    assert updates(tmp_path) == 1
    other = Training(width)
    load_last(other.accelerator, tmp_path)
    for name, value in other.weights().items():
        torch.testing.assert_close(value, weights[name], rtol=0, atol=0)
    training.save(tmp_path, update=2)
    assert updates(tmp_path) == 2


def test_a_failing_disk_leaves_nothing_of_a_first_checkpoint(tmp_path: Path) -> None:
    training = Training(64)
    with files_of_at_most(50_000), pytest.raises(UserError) as caught:
        training.save(tmp_path, update=1)
    assert str(caught.value).endswith(": free disk space and run the same command again")
    assert "kept" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    refused = pytest.raises(UserError, match="Read-only file system: make it writable and run the ")
    with refused, checkpoints._writing(tmp_path, LAST, "checkpoint"):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize(("width", "size"), [(8, 16_000), (64, 50_000)])
def test_a_failing_disk_leaves_the_old_best_model(width: int, size: int, tmp_path: Path) -> None:
    training = Training(width)
    save_best(training.accelerator, training.model, chat(), tmp_path)
    before = from_folder(tmp_path / BEST).identity.sha256
    training.step()
    with files_of_at_most(size), pytest.raises(UserError, match="the best model in .* written"):
        save_best(training.accelerator, training.model, chat(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [BEST]
    assert from_folder(tmp_path / BEST).identity.sha256 == before


def test_an_error_that_is_not_the_disks_is_not_taken_for_one(tmp_path: Path) -> None:
    training = Training()
    with pytest.raises(TypeError, match="JSON"):
        save_last(
            training.accelerator,
            training.model,
            chat(),
            tmp_path,
            replace(STATE, best=object()),  # type: ignore[arg-type]
        )
    assert found(tmp_path) is None


def test_a_crash_between_the_two_renames_is_mended(tmp_path: Path) -> None:
    training = Training()
    training.save(tmp_path, update=1)
    # The old one is moved away, and the new one is not in place yet.
    (tmp_path / LAST).rename(tmp_path / f"{LAST}.old")
    training.save(tmp_path / "elsewhere", update=2)
    (tmp_path / "elsewhere" / LAST).rename(tmp_path / f"{LAST}.new")
    assert updates(tmp_path) == 2
    load_last(training.accelerator, tmp_path)
    training.save(tmp_path, update=3)
    assert updates(tmp_path) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", LAST]


def test_a_crash_while_the_first_checkpoint_is_written_leaves_none(tmp_path: Path) -> None:
    training = Training()
    training.save(tmp_path)
    (tmp_path / LAST).rename(tmp_path / f"{LAST}.new")
    (tmp_path / f"{LAST}.new" / "state" / "training_state.json").unlink()
    assert found(tmp_path) is None


def test_a_first_checkpoint_whose_files_are_not_all_on_the_disk_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def power_cut(folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "sync_tree", power_cut)
    with pytest.raises(KeyboardInterrupt):
        Training().save(tmp_path)
    assert (tmp_path / f"{LAST}.new" / "model.safetensors").exists()
    assert found(tmp_path) is None


def test_a_crash_while_a_later_one_is_written_changes_nothing(tmp_path: Path) -> None:
    training = Training()
    training.save(tmp_path, update=1)
    half = tmp_path / f"{LAST}.new"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert updates(tmp_path) == 1
    training.save(tmp_path, update=2)
    assert updates(tmp_path) == 2


def test_a_best_model_whose_update_is_made_again_goes_back_to_the_old_one(tmp_path: Path) -> None:
    training = Training()
    training.save(tmp_path)
    save_best(training.accelerator, training.model, chat(), tmp_path)
    before = from_folder(tmp_path / BEST).identity.sha256
    (tmp_path / BEST).rename(tmp_path / f"{BEST}.old")
    training.step()
    save_best(training.accelerator, training.model, chat(), tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / BEST).rename(tmp_path / f"{BEST}.new")
    found(tmp_path)
    assert from_folder(tmp_path / BEST).identity.sha256 == before


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    Training().save(tmp_path)
    with pytest.raises(UserError, match=r"another configuration, init, seed or plug-in"):
        find_last(tmp_path, "d" * 64)


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"update": 3}', '{"updates": 3}'])
def test_a_state_that_is_none_is_refused(content: str, tmp_path: Path) -> None:
    Training().save(tmp_path)
    path = tmp_path / LAST / "state" / "training_state.json"
    assert json.loads(path.read_text())["update"] == 3
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        found(tmp_path)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path} is not a training state: ")


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.bin", "random_states_0.pkl"])
@pytest.mark.parametrize("damage", ["half", "noise", "none"])
def test_a_damaged_checkpoint_is_refused(name: str, damage: str, tmp_path: Path) -> None:
    training = Training()
    training.step()
    training.save(tmp_path)
    path = tmp_path / LAST / "state" / name
    content = path.read_bytes()
    if damage == "none":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "half" else b"\x07noise" * 100)
    with pytest.raises(UserError) as caught:
        load_last(training.accelerator, tmp_path)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"the checkpoint {tmp_path / LAST} could not be loaded: ")


def test_memory_that_ran_out_is_no_reason_to_give_up_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training()
    training.step()
    training.save(tmp_path)

    def full(*given: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")

    monkeypatch.setattr(training.accelerator, "load_state", full)
    with pytest.raises(UserError, match="OutOfMemoryError: CUDA out of memory") as caught:
        load_last(training.accelerator, tmp_path)
    assert "may be intact" in str(caught.value) and "remove" not in str(caught.value)
