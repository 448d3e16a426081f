"""Model folders from which more would be loaded than is hashed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark.engines.core.chat import Chat
from benchmark.models import from_folder
from tasks.errors import UserError
from tests.support.engines.tiny_model import CHAT_TEMPLATE, make_tiny_model


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "model"))


def setting(file: Path, **settings: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def refused(folder: Path, load: Callable[[Path], object]) -> str:
    with pytest.raises(UserError) as caught:
        load(folder)
    return str(caught.value)


@pytest.mark.parametrize("load", [from_folder, Chat.load])
def test_files_that_the_hash_does_not_cover(folder: Path, load: Callable[[Path], object]) -> None:
    config, tokenizer = folder / "config.json", folder / "tokenizer_config.json"
    configs = [file.read_text() for file in (config, tokenizer)]
    setting(config, transformers_weights="hidden/w.safetensors")
    assert "names the weights file 'hidden/w.safetensors'" in refused(folder, load)
    # transformers also finds it under another name.
    other = {"attribute_map": {"transformers_weights": "a"}, "a": "b/w.safetensors.index.json"}
    setting(config, transformers_weights=None, **other)
    assert "names the weights file 'b/w.safetensors.index.json'" in refused(folder, load)
    config.write_text(configs[0])
    setting(tokenizer, fast_tokenizer_files=["tokenizer.4.0.json", "../tokenizer.5.0.json"])
    assert "names '../tokenizer.5.0.json' (fast_tokenizer_files)" in refused(folder, load)
    tokenizer.write_text(configs[1])
    (folder / "additional_chat_templates").mkdir()
    load(folder)
    (folder / "additional_chat_templates" / "default.jinja").write_text("other")
    assert "has chat templates in additional_chat_templates" in refused(folder, load)


def test_several_templates_stay_in_the_files_that_are_hashed(folder: Path, tmp_path: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    named = {"default": CHAT_TEMPLATE, "tool_use": "other"}
    templates = [{"name": name, "template": text} for name, text in named.items()]
    setting(folder / "tokenizer_config.json", chat_template=templates)
    Chat.load(folder).save(tmp_path / "saved")
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        shutil.copy(folder / name, tmp_path / "saved")
    assert Chat.load(tmp_path / "saved").tokenizer.chat_template == named
