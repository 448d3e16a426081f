"""Trained weights reach the engine; otherwise the run ends."""

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Never

import pytest
import torch

from baselines.inits.registry import find_model
from baselines.training.sync_check import SyncCheck
from benchmark.engines.core.base import Engine, Request
from benchmark.engines.core.weights import HASH_OF_NOTHING
from benchmark.engines.transformers.engine import TransformersEngine, load_model
from benchmark.engines.vllm.engine import VllmEngine
from tasks.errors import UserError

PATH = find_model("tiny-sokoban").path
assert PATH is not None
FOLDER = PATH
Weights = dict[str, torch.Tensor]
NORM = "model.norm.weight"


@pytest.fixture
def weights() -> Weights:
    return dict(load_model(FOLDER, "float32", "cpu").state_dict())


class Deaf(TransformersEngine):
    """Accepts new weights but keeps the old ones."""

    def _replace_weights(self, weights: Any, version: int) -> None:
        pass


class Forgetful(TransformersEngine):
    """Does not update one tensor."""

    def _replace_weights(self, weights: Any, version: int) -> None:
        assert self._decoder is not None
        kept = self._decoder.model.state_dict()[NORM].clone()
        super()._replace_weights(list({**dict(weights), NORM: kept}.items()), version)


class Restless(TransformersEngine):
    """Changes one tensor each time."""

    def _replace_weights(self, weights: Any, version: int) -> None:
        given = dict(weights)
        super()._replace_weights(list({**given, NORM: given[NORM] + version}.items()), version)


async def sync(engine: Engine, check: SyncCheck, weights: Weights, version: int) -> None:
    await engine.load_weights(weights.items(), version)
    await check.after_sync(weights)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_weights_that_arrive_are_checked_once(
    weights: Weights, dtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with TransformersEngine(FOLDER, dtype) as engine:
        check = SyncCheck(engine)
        for version in range(3):  # a learning rate of 0
            await sync(engine, check, weights, version)
            assert not check.proven
        check.close()
        assert "no weights changed in this run" in caplog.text
        caplog.clear()
        # As after a few small steps: norms, near 1, do not change in bfloat16.
        moved = {name: one + 1e-6 for name, one in weights.items()}
        await sync(engine, check, moved, 3)
        assert check.proven
        engine.weight_checksums = None  # type: ignore[assignment, method-assign]
        await sync(engine, check, weights, 4)
        check.close()
        assert not caplog.records


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        (Deaf, 0.1, "35 of 35 tensors of the transformers engine stayed as they were"),
        (Forgetful, 0.1, rf"1 of 35 tensors .* stayed as they were .* \({NORM}\): responses come"),
        (Restless, 0.0, rf"1 of 35 tensors .* though the weights sent were the same \({NORM}\)"),
    ],
)
async def test_weights_that_do_not_arrive_end_the_run(
    kind: type[TransformersEngine], change: float, said: str, weights: Weights
) -> None:
    async with kind(FOLDER) as engine:
        check = SyncCheck(engine)
        await sync(engine, check, weights, 0)
        with pytest.raises(UserError, match=said) as caught:
            await sync(engine, check, {n: one + change for n, one in weights.items()}, 1)
        assert "several servers, of which only some get weights" in str(caught.value)


@pytest.mark.vllm
@pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
async def test_vllm_on_a_cpu_hides_matrices(weights: Weights) -> None:
    async with VllmEngine(FOLDER) as engine:
        check = SyncCheck(engine)
        await sync(engine, check, weights, 0)
        await sync(engine, check, {**weights, NORM: weights[NORM] + 0.1}, 1)
        assert not check.proven and check._before is None  # finished without seeing all tensors


class Told(Engine):
    """Reports the checksums it is given."""

    name = "told"
    held: dict[str, str]

    async def generate(self, request: Request) -> Never:
        raise NotImplementedError

    async def load_weights(self, weights: Any, version: int) -> None:
        del weights, version

    async def weight_checksums(self) -> Mapping[str, str]:
        return self.held

    def describe(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        ((0,), None),  # half of a matrix that is split across two GPUs
        ((0, 1), None),
        ((), "1 of 2 tensors"),
        ((0, 1, 2), r"1 of 2 tensors .* the same \(0 dp0:pp0:model.norm.weight\)"),
    ],
)
async def test_vllm_joins_tensors_and_spreads_them(
    moved: tuple[int, ...], said: str | None
) -> None:
    names = [
        "0 dp0:pp0:tp0:model.layers.0.self_attn.qkv_proj.weight",
        "0 dp0:pp0:tp1:model.layers.0.self_attn.qkv_proj.weight",
        "0 dp0:pp0:tp0:model.norm.weight",
    ]
    engine = Told()
    engine.held = dict.fromkeys(names, "before")
    check = SyncCheck(engine)
    given = {f"model.layers.0.self_attn.{n}_proj.weight": torch.ones(2) for n in "qkv"}
    given[NORM] = torch.ones(2)
    await sync(engine, check, given, 0)
    given["model.layers.0.self_attn.k_proj.weight"] = torch.zeros(2)
    engine.held = engine.held | {names[place]: "after" for place in moved}
    if said is None:
        await sync(engine, check, given, 1)
        assert check.proven
    else:
        with pytest.raises(UserError, match=said):
            await sync(engine, check, given, 1)


@pytest.mark.parametrize(
    ("hidden", "stale"),
    [
        ("model.layers.0.self_attn.qkv_proj.weight", False),  # nothing else changed: unknown
        ("model.a_name_of_its_own", False),
        ("model.layers.1.self_attn.qkv_proj.weight", True),  # something else must have changed
    ],
)
async def test_changes_in_hidden_tensors_do_not_end_the_run(hidden: str, stale: bool) -> None:
    engine = Told()
    engine.held = {hidden: HASH_OF_NOTHING, NORM: "before"}
    check = SyncCheck(engine)
    given = {
        f"model.layers.{i}.self_attn.{n}_proj.weight": torch.ones(2) for n in "qkv" for i in (0, 1)
    }
    given[NORM] = torch.ones(2)
    await sync(engine, check, given, 0)
    given["model.layers.0.self_attn.k_proj.weight"] = torch.zeros(2)
    if stale:
        with pytest.raises(UserError, match="responses come from an old policy"):
            await sync(engine, check, given, 1)
    else:
        await sync(engine, check, given, 1)
        assert not check.proven


class Silent(Deaf):
    """Does not report checksums either."""

    weight_checksums = Engine.weight_checksums


async def test_without_checksums_the_gap_decides(
    weights: Weights, caplog: pytest.LogCaptureFixture
) -> None:
    async with Silent(FOLDER) as engine:
        check = SyncCheck(engine)
        for version in range(3):
            await sync(engine, check, {n: one + version for n, one in weights.items()}, version)
        (record,) = caplog.records
        assert "gives no checksums of its weights: only engine/k3 shows" in record.getMessage()
        for gap in (None, 1e-2, float("nan")):
            check.judge({"engine/k3": gap}, 2, corrected=False)
        for corrected in (False, True):
            with pytest.raises(UserError, match=r"after update 2 engine/k3 is 0\.02.*stale prefix"):
                check.judge({"engine/k3": 0.02}, 2, corrected)


async def test_a_gap_of_precision_is_told_where_weights_arrive(
    weights: Weights, caplog: pytest.LogCaptureFixture
) -> None:
    async with TransformersEngine(FOLDER) as engine:
        check = SyncCheck(engine)
        await sync(engine, check, weights, 0)
        await sync(engine, check, {n: one + 1 for n, one in weights.items()}, 1)
        for corrected in (True, False):
            check.judge({"engine/k3": 0.02}, 9, corrected)
        assert [one.levelno for one in caplog.records] == [logging.WARNING] * 2
        first, second = (one.getMessage() for one in caplog.records)
        assert "update 9: engine/k3 is 0.02" in first and "tis_cap" not in first
        assert second.endswith("; importance weights (--set tis_cap=2) correct that")
        # A past success is not trusted from then on: old weights are detected at later syncs.
        await sync(engine, check, {n: one + 2 for n, one in weights.items()}, 2)
        stale = {n: one + 3 for n, one in weights.items()}
        with pytest.raises(UserError, match="stayed as they were"):
            await check.after_sync(stale)
    SyncCheck(None).judge({"engine/k3": 0.02}, 9, corrected=False)  # another process's engine
