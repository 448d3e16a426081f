"""Messages about paths that are almost a model, a run or a log."""

import json
import shutil
from pathlib import Path

import pytest

from baselines.inits.registry import find_model, read_registry
from benchmark.cli.main import main
from benchmark.logs.foreign import find
from tasks.errors import UserError


def refused(name: Path | str) -> str:
    with pytest.raises(UserError) as refusal:
        find_model(str(name))
    return str(refusal.value)


def test_a_folder_from_elsewhere_is_not_taken_for_the_hubs_alone() -> None:
    message = refused("models/my-ckpt")
    assert message.startswith("folder models/my-ckpt does not exist, and model models/my-ckpt ")
    assert "cannot be loaded from the hub" in message


def test_a_model_of_an_api_is_told_of_endpoints() -> None:
    assert refused("gpt-4o").endswith("`eval` reaches a model behind a server with --endpoint URL")
    assert "--endpoint" not in refused("tiny-sokobn")


def test_a_file_of_weights_is_told_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    assert refused(file) == f"{file} is a file; name its folder, {tmp_path}"


def test_an_adapter_is_told_to_be_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.safetensors").touch()
    message = refused(tmp_path)
    assert f"name its base with --model, and the adapter with --lora {tmp_path}" in message


def test_a_pointer_of_git_lfs_is_no_model(tmp_path: Path) -> None:
    source = read_registry()["tiny-sokoban"].folder
    assert source is not None
    folder = shutil.copytree(source, tmp_path / "model")
    (folder / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"
    )
    assert f"holds no weights: run `git lfs pull` in {folder}" in refused(folder)


def test_checkpoints_of_a_trainer_are_found(tmp_path: Path) -> None:
    for step in (20, 100):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "model.safetensors").touch()
    message = refused(tmp_path)
    assert f"it holds 2 checkpoints; name one, such as {tmp_path / 'checkpoint-100'}" in message


def test_the_log_of_a_trainers_last_checkpoint_is_named(tmp_path: Path) -> None:
    for step in (9, 60):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").touch()
    with pytest.raises(UserError, match="name the log of its last checkpoint, .*checkpoint-60/tra"):
        find(tmp_path)
    verl = tmp_path / "verl"
    verl.mkdir()
    (verl / "train.log").touch()
    with pytest.raises(UserError, match=f"if {verl / 'train.log'} is the console of verl, name it"):
        find(verl)


def test_training_has_no_panels(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--dry-run", "--task"]
    assert main([*words, "sokoban/two_boxes"]) == 2
    err = capsys.readouterr().err
    assert "write --task sokoban, and --set validation.panel=two_boxes" in err


def test_tasks_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    panel = found["tasks"]["sokoban"]["panels"]["builtin"]
    assert (panel["episodes"], panel["here"], panel["standard"]["max_tokens"]) == (256, True, 512)
    assert found["tasks"]["webshop"]["settings"]["compat"]["default"] == "off"
    assert found["inits"]["tiny-sokoban"]["tasks"] == ["sokoban"]
