"""LoRA adapters: their effect, how a run names them, and which are rejected."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import benchmark
from benchmark.adapters import find_adapter, with_adapter
from benchmark.cli.main import main
from benchmark.engines.core.base import Engine, Generation, Sampling
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.engines.vllm.engine import VllmEngine
from benchmark.evaluation.run_folder import read_run
from benchmark.models import Adapter, from_folder, same_weights
from tasks.errors import UserError
from tests.support.engines.tiny_lora import make_adapter, merge_by_hand
from tests.support.engines.tiny_model import answer_all, make_tiny_model, mixed_prompts

needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="peft is not installed")
needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
GREEDY = Sampling(max_tokens=16)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`base`, `adapter` and `merged`."""
    root = tmp_path_factory.mktemp("lora")
    base = make_tiny_model(root / "base", context=512)
    merge_by_hand(base, make_adapter(base, root / "adapter"), root / "merged")
    return root


async def answers(engine: Engine) -> list[Generation]:
    async with engine:
        return await answer_all(engine, mixed_prompts(12, seed=3), GREEDY)


def as_merged(found: list[Generation], merged: list[Generation], base: list[Generation]) -> None:
    """Check that answers come from the merged model and not from its base."""
    assert [one.response_ids for one in found] == [one.response_ids for one in merged]
    for one, other in zip(found, merged, strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-3)
    same = sum(a.response_ids == b.response_ids for a, b in zip(found, base, strict=True))
    assert same <= 2


@pytest.mark.slow
@needs_peft
async def test_transformers_answers_as_the_merged_model(folders: Path) -> None:
    adapter = find_adapter(str(folders / "adapter"))
    found = await answers(TransformersEngine(folders / "base", lora=adapter))
    merged = await answers(TransformersEngine(folders / "merged"))
    as_merged(found, merged, await answers(TransformersEngine(folders / "base")))


@pytest.mark.vllm
@needs_vllm
async def test_vllm_answers_as_the_merged_model(folders: Path) -> None:
    adapter = find_adapter(str(folders / "adapter"))
    found = await answers(VllmEngine(folders / "base", lora=adapter))
    merged = await answers(TransformersEngine(folders / "merged"))
    as_merged(found, merged, await answers(TransformersEngine(folders / "base")))


@pytest.mark.slow
@needs_peft
def test_a_run_names_the_adapter(folders: Path, tmp_path: Path) -> None:
    words = ["--task", "sokoban", "--limit", "1", "--max-tokens", "4", "--out", str(tmp_path / "r")]
    model = ["--model", str(folders / "base")]
    lora = ["--lora", str(folders / "adapter")]
    assert main(["eval", *model, *lora, *words]) == 0
    said = json.loads((tmp_path / "r" / "run.json").read_text())["model"]
    assert said["adapter"]["name"] == "adapter"
    assert said["adapter"]["sha256"] == find_adapter(str(folders / "adapter")).identity.sha256
    manifest, _ = read_run(tmp_path / "r")
    assert "with LoRA adapter (SHA-256 " in manifest.model.text
    # The same folder without the adapter is another model.
    assert main(["eval", *model, *words]) == 2
    # The Python interface has the same option.
    again = benchmark.evaluate(
        folders / "base", "sokoban", lora=folders / "adapter", limit=1, max_tokens=4,
        out=tmp_path / "r",
    )  # fmt: skip
    assert again.manifest == manifest


def test_models_differ_by_their_adapters(folders: Path, tmp_path: Path) -> None:
    base = from_folder(folders / "base")
    one = with_adapter(base, find_adapter(str(folders / "adapter")))
    twin = find_adapter(str(make_adapter(folders / "base", tmp_path / "twin")))
    other = find_adapter(str(make_adapter(folders / "base", tmp_path / "other", seed=1)))
    assert not same_weights(base.identity, one.identity)
    assert same_weights(one.identity, with_adapter(base, twin).identity)
    assert not same_weights(one.identity, with_adapter(base, other).identity)
    # Files from before the introduction of adapters are read and written unchanged.
    assert "adapter" not in json.loads(base.identity.model_dump_json())


def test_a_long_name_is_cut(folders: Path, tmp_path: Path) -> None:
    path = make_adapter(folders / "base", tmp_path / ("a" * 250))
    assert find_adapter(str(path)).identity.name == "a" * 200


def test_the_largest_rank_counts(folders: Path, tmp_path: Path) -> None:
    path = make_adapter(folders / "base", tmp_path / "a", rank_pattern={"q_proj": 64})
    assert find_adapter(str(path)).rank == 64


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"peft_type": "PREFIX_TUNING"}, "peft_type: "),
        ({"use_dora": True}, "use_dora is set, but only plain LoRA is supported"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save is set"),
        ({"megatron_config": {"a": 1}}, "megatron_config is set"),
        ({"auto_mapping": {"parent_library": "os"}}, "auto_mapping is set"),
        ({"init_lora_weights": "pissa"}, "'pissa' changes the base model's weights"),
        ({"r": 0}, "r: "),
        ({"r": 100_000}, "r: "),
        ({"bias": "all"}, "bias: "),
    ],
)
def test_what_is_more_than_lora(
    folders: Path, tmp_path: Path, config: dict[str, Any], problem: str
) -> None:
    path = make_adapter(folders / "base", tmp_path / "a", **config)
    with pytest.raises(UserError, match=problem):
        find_adapter(str(path))


def test_what_is_no_adapter(folders: Path, tmp_path: Path) -> None:
    def refused(path: Path | str) -> str:
        with pytest.raises(UserError) as caught:
            find_adapter(str(path))
        return str(caught.value)

    assert "has no adapter_config.json; pass a whole model with --model" in refused(
        folders / "base"
    )
    assert "there is no such folder" in refused("nothing")
    path = make_adapter(folders / "base", tmp_path / "a")
    assert "is a file; give its folder" in refused(path / "adapter_config.json")
    (path / "adapter_model.safetensors").rename(path / "adapter_model.bin")
    assert "pickled weights are not loaded" in refused(path)
    (path / "adapter_model.bin").unlink()
    assert refused(path).endswith("no adapter_model.safetensors there")
    (path / "adapter_model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "git lfs pull" in refused(path)
    (path / "adapter_model.safetensors").write_bytes(b"")
    (path / "adapter_config.json").write_text("{")
    assert "adapter_config.json" in refused(path)


@needs_peft
@pytest.mark.parametrize("layers", [1, 4])
async def test_an_adapter_of_another_model(folders: Path, tmp_path: Path, layers: int) -> None:
    other = make_tiny_model(tmp_path / "other", layers=layers, context=512)
    adapter = find_adapter(str(folders / "adapter"))
    with pytest.raises(UserError, match="does not fit the model: "):
        await answers(TransformersEngine(other, lora=adapter))


@needs_peft
async def test_a_damaged_adapter(folders: Path, tmp_path: Path) -> None:
    path = make_adapter(folders / "base", tmp_path / "a")
    (path / "adapter_model.safetensors").write_bytes(b"\x08" + bytes(20))
    with pytest.raises(UserError, match="does not fit the model: "):
        await answers(TransformersEngine(folders / "base", lora=find_adapter(str(path))))


async def test_without_peft(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmark.engines.transformers.lora.find_spec", lambda name: None)
    adapter: Adapter = find_adapter(str(folders / "adapter"))
    with pytest.raises(
        UserError, match=r"pip install -c requirements/constraints.txt -e '\.\[lora\]'"
    ):
        await answers(TransformersEngine(folders / "base", lora=adapter))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--engine", "expert"], "--lora has no effect with the expert engine: no model runs"),
        (["--endpoint", "http://localhost:1"], "--lora has no effect with a server: load it there"),
        (["--model", "tiny-sokoban", "--engine", "vllm", "--model-args", '{"enable_lora": true}'],
         "enable_lora: use --lora"),
    ],
)  # fmt: skip
def test_where_an_adapter_does_nothing(
    folders: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    problem: str,
) -> None:
    rest = ["--task", "sokoban", "--lora", str(folders / "adapter"), "--out", str(tmp_path / "r")]
    assert main(["eval", *words, *rest]) == 2
    assert problem in capsys.readouterr().err


def test_an_adapter_beside_whole_weights(folders: Path, tmp_path: Path) -> None:
    path = merge_by_hand(folders / "base", folders / "adapter", tmp_path / "both")
    (path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="beside its weights: move the adapter's files"):
        from_folder(path)
