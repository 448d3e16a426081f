"""`arlarena-bench doctor` on this machine, and on deliberately broken setups."""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config

from baselines.algorithms.advantage.base import Advantage
from baselines.doctor import machine
from baselines.doctor.machine import Gpu
from baselines.doctor.peaks import Peaks
from baselines.doctor.smoke import smoke_run
from baselines.doctor.weight_sync import check_weight_sync
from baselines.inits.registry import find_model
from benchmark.cli.main import main, parse
from benchmark.cli.training import doctor
from benchmark.cli.training.engines import weight_transfer
from benchmark.engines.core.base import Engine
from benchmark.engines.server.nccl_transfer import NcclTransfer
from benchmark.engines.server.weight_transfer import FolderTransfer
from benchmark.engines.transformers.engine import TransformersEngine, load_model
from benchmark.engines.vllm import build
from benchmark.engines.vllm.engine import VllmEngine
from tasks.errors import UserError
from tests.support.training.plugins import RANK, RECIPE

INIT = find_model("tiny-sokoban").path
assert INIT is not None
FOLDER: Path = INIT
Weights = Sequence[tuple[str, torch.Tensor]]


@pytest.mark.slow
def test_a_good_machine_gets_a_page_of_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--engine", "transformers", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["problems"] == [] and page["machine"]["versions"]["torch"]
    smoke = page["smoke"]
    assert smoke["weight_sync"]["tensors"] == smoke["weight_sync"]["seen"] > 30
    first, second = smoke["updates"]
    assert first["kl_init/mean"] < 1e-9 and second["kl_init/mean"] > 1e-9
    assert max(first["engine/abs_max"], second["engine/abs_max"]) < 1e-4
    assert smoke["generated_tokens_per_s"] > 0 and smoke["trained_tokens_per_s"] > 0
    assert {"rollout", "update", "weights"} <= set(smoke["peaks"])
    assert all(0 < size < page["machine"]["memory"] for size in smoke["peaks"].values())


def test_a_missing_vllm_is_a_problem_and_not_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert main(["doctor", "--engine", "vllm"]) == 1
    page = capsys.readouterr().out
    assert "PROBLEM: start of the engine: vLLM is not installed: make install-vllm" in page
    assert "versions   python" in page and "no problem was found" not in page


@pytest.mark.slow
def test_a_policy_that_does_not_fit_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "qwen3-32b"
    shutil.copytree(FOLDER, folder)
    large = Qwen3Config(
        vocab_size=151_936,
        hidden_size=5_120,
        intermediate_size=25_600,
        num_hidden_layers=64,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=False,
        architectures=["Qwen3ForCausalLM"],
    )
    large.save_pretrained(folder)
    words = ["doctor", "--no-smoke", "--init", str(folder), "--task", "sokoban"]
    assert main(words) == 1
    page = capsys.readouterr().out
    said = "PROBLEM: not enough memory for qwen3-32b with 32,762,123,264 parameters: playing needs"
    assert said in page
    assert "disk for checkpoints: up to 1220.5 GiB" in page  # 40 bytes each
    assert main(["doctor", "--no-smoke", "--init", "tiny-sokoban", "--scale", "tiny"]) == 0
    mixture = ["--init", "tiny-all", "--scale", "tiny", "--task", "sokoban=8", "--task"]
    assert main(["doctor", "--no-smoke", *mixture, "webshop=4"]) == 0
    assert main(["doctor", "--no-smoke", *mixture, "webshop"]) == 2
    assert "give the number of groups of every task or of none" in capsys.readouterr().err
    assert main(["doctor", "--no-smoke", "--task", "sokoban"]) == 2
    assert "--task needs --init or --track" in capsys.readouterr().err


@pytest.fixture
def own_class(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A recipe that names a plug-in's class, and the plug-in."""
    recipe, plugin = tmp_path / "ranked.yaml", tmp_path / "rank.py"
    recipe.write_text(RECIPE, "utf-8")
    plugin.write_text(RANK, "utf-8")
    yield recipe, plugin
    Advantage.choices.pop("rank", None)


def test_a_planned_run_is_read_as_train_reads_it(
    own_class: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, plugin = map(str, own_class)

    def lines(*own: str) -> list[str]:
        main(["doctor", "--no-smoke", "--engine", "transformers", *own])
        said = capsys.readouterr()
        return [*said.out.splitlines(), *said.err.splitlines()]

    # The page lists everything that `train` would reject, one line each.
    served = ["--engine", "auto", "--endpoint", "http://localhost:8006/v1"]
    panel = ["--set", "validation.panel=two_boxs"]
    page = lines("--init", "tiny-sokoban", "--recipe", "agentrl", *served, *panel)
    problems = [line for line in page if line.startswith("PROBLEM: ")]
    assert len(problems) == 2
    assert "needs a second engine with older weights" in problems[0]
    assert "sokoban has no panel 'two_boxs'" in problems[1]
    planned = ["--track", "sokoban-standard", "--recipe", recipe]
    assert "your own class needs --plugin" in lines(*planned)[-1]
    template = ["--chat-template-kwargs", '{"enable_thinking": false}']
    whole = lines(*planned, "--plugin", plugin, "--set", "sokoban.view=text", *template)
    assert "no problem was found" in whole
    assert (
        "has no setting 'nothing'"
        in lines("--init", "tiny-sokoban", "--set", "sokoban.nothing=1")[-1]
    )
    assert "--scale beside --track" in lines("--track", "sokoban-standard", "--scale", "tiny")[-1]
    for own in (["--recipe", "grpo"], ["--async-rollouts"], ["--plugin", plugin]):
        said = f"{own[0]} needs --init or --track: it applies to a planned run"
        assert said in lines(*own)[-1]


def test_gpus_without_vllm_are_a_problem_and_train_refuses_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "has_gpu_vllm", lambda: False)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    assert main(["doctor", "--no-smoke", "--gpus", "2"]) == 1
    assert "PROBLEM: --gpus 2 needs vLLM for GPUs: make install-vllm" in capsys.readouterr().out
    train = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--gpus", "2"]
    assert main(train) == 2
    assert "vLLM is not installed: make install-vllm" in capsys.readouterr().err


@pytest.mark.slow
def test_the_policy_is_divided_as_train_does_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "--no-smoke", "--init", "tiny-sokoban", "--scale", "tiny"]
    # This machine has no GPU, and the host's memory does not count as GPU memory.
    assert main([*words, "--gpus", "8"]) == 1
    page = capsys.readouterr().out
    assert "PROBLEM: --gpus 8: torch sees 0 GPUs on this machine" in page
    assert "6 training processes, sharded, 2 GPUs with a server" in page
    assert "not enough memory" not in page
    assert main([*words, "--gpus", "8", "--serve-gpus", "0", "--json"]) == 1
    needs = json.loads(capsys.readouterr().out)["needs"]
    assert needs["room"] is None and "8 training processes, sharded\n" in needs["text"]
    assert "GiB free in /dev/shm" in page and "new weights for the servers: 0.00 GiB" in page
    gpus = tuple(Gpu("one", 79.2, 79.0) for _ in range(2))
    real = machine.read_machine
    monkeypatch.setattr(
        machine, "read_machine", lambda *given: replace(real(*given), gpus=gpus, driver=None)
    )
    main([*words, "--gpus", "2", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert not any("torch sees" in one["what"] for one in found["problems"])
    assert found["needs"]["room"] == 79.2  # the training GPU runs nothing else
    monkeypatch.setattr(
        machine,
        "read_machine",
        lambda *given: replace(real(*given), gpus=gpus, driver=None, shared_memory=0.0),
    )
    main([*words, "--gpus", "2"])
    page = capsys.readouterr().out
    assert "warning: only 0.00 GiB are free in /dev/shm, through which NCCL's processes" in page
    assert "warning: /dev/shm has 0.0 GiB free, and new weights of tiny-sokoban take" in page
    main([*words, "--gpus", "1", "--sleep", "--engine", "vllm", "--json"])
    # Asleep, the engine frees all but 2 GiB; awake, it takes two fifths, so playing is the limit.
    assert json.loads(capsys.readouterr().out)["needs"]["room"] == pytest.approx(0.6 * 79.2)


class Deaf(TransformersEngine):
    """Accepts new weights but keeps the old ones."""

    def _replace_weights(self, weights: Weights, version: int) -> None:
        pass


class Forgetful(TransformersEngine):
    """Does not update one tensor."""

    def _replace_weights(self, weights: Weights, version: int) -> None:
        assert self._decoder is not None
        old = dict(self._decoder.model.state_dict())
        name = "model.norm.weight"
        kept = {name: old[name].clone()}
        super()._replace_weights(list({**dict(weights), **kept}.items()), version)


class Mixed(TransformersEngine):
    """Loads one tensor in place of another."""

    def _replace_weights(self, weights: Weights, version: int) -> None:
        given: Mapping[str, torch.Tensor] = dict(weights)
        one, other = (f"model.layers.0.self_attn.{n}_norm.weight" for n in "qk")
        super()._replace_weights(
            list({**given, one: given[other], other: given[one]}.items()), version
        )


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (Deaf, "35 of 35 tensors of the transformers engine stayed as they were"),
        (Forgetful, "1 of 35 tensors of the transformers engine stayed as they were when new"),
        (Mixed, "2 of 35 tensors of the transformers engine are wrong after the init's weights"),
    ],
)
async def test_wrong_weights_are_noticed(engine: type[TransformersEngine], said: str) -> None:
    weights = load_model(FOLDER, "float32", "cpu").state_dict()
    async with engine(FOLDER) as broken:
        with pytest.raises(UserError, match=said):
            await check_weight_sync(broken, weights)


@pytest.mark.slow
def test_wrong_weights_are_a_problem_on_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TransformersEngine, "_replace_weights", Deaf._replace_weights)
    assert main(["doctor", "--engine", "transformers"]) == 1
    page = capsys.readouterr().out
    assert "PROBLEM: weight sync: 35 of 35 tensors of the transformers engine stayed as" in page
    assert "no problem was found" not in page and "update 1" not in page


async def check(engine: Engine) -> tuple[int, int]:
    weights = load_model(FOLDER, "float32", "cpu").state_dict()
    async with engine as started:
        found = await check_weight_sync(started, weights)
    assert found.gib > 0 and found.seconds > 0
    return found.tensors, found.seen


async def test_what_transformers_rounds_arrives_too() -> None:
    assert await check(TransformersEngine(FOLDER, "bfloat16")) == (35, 35)


@pytest.mark.vllm
@pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
async def test_vllm_has_a_checker_of_its_own() -> None:
    # vLLM fuses tensors; on CPUs, the four matrices of each of three layers are packed.
    assert await check(VllmEngine(FOLDER)) == (26, 14)


def test_servers_get_weights_by_nccl_where_that_is_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nccl = ["doctor", "--weights-nccl", "localhost:29600"]
    training = smoke_run(tmp_path)
    for words, kind in ((nccl, NcclTransfer), (nccl[:1], FolderTransfer)):
        arguments = parse([*words, "--endpoint", "http://localhost:8006/v1"])
        assert isinstance(weight_transfer(training, arguments), kind)
    assert main(nccl) == 2
    assert "--weights-nccl has no effect without --endpoint" in capsys.readouterr().err


def test_peaks_are_of_their_phases() -> None:
    peaks = Peaks()
    peaks.begin("small")
    peaks.begin("large")
    block = torch.ones(2**26)  # 256 MiB
    peaks.begin("large", 1, 2)
    del block
    peaks.begin("after")
    peaks.begin(None)
    assert peaks.of["large"] > peaks.of["small"] + 0.2
    assert set(peaks.of) == {"small", "large", "after"}
