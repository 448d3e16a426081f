"""Shares of episodes that the audit flags.

    python -m tests.benchmarks.scripts.audit_power [MODEL...]

An init is trained on by behavior cloning for a few optimizer steps, as if `bc` had not stopped.
Each of these checkpoints, the scripted policies, and the models that are named on the command line
play the same episodes, greedily and with draws; all records are audited under the init. Those of
the init itself should all pass; of the others, the more are flagged the better the audit.

`text` counts the episodes that are flagged by their words alone: by what remains if somebody takes
another model's words and computes their log-probabilities again under the weights that he names.
`evidence` is that of all drawn episodes together, in nats; above 9.2 it is flagged.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from baselines.cloning.bc import clone
from baselines.cloning.recipe import find_recipe, read_recipe
from baselines.inits.registry import find_model
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.engines.transformers.engine import TransformersEngine, load_model
from benchmark.evaluation.evaluate import Plan, evaluate
from benchmark.evaluation.manifest import Manifest, Shard
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.evaluation.run_folder import RunFolder, read_run
from benchmark.evaluation.summarize import summarize
from benchmark.models import ModelIdentity, from_folder
from benchmark.submissions.audit import EpisodeAudit, audit_run, evidence_of
from benchmark.submissions.reading.entry import ReadRun

SAMPLING = {
    "greedy": SamplingOverrides(),
    "T 0.7, top-p 0.95": SamplingOverrides(temperature=0.7, top_p=0.95),
    "T 1": SamplingOverrides(temperature=1.0),
}
DEMONSTRATIONS = 500
"""Episodes that the init is trained on with; those that it comes from are ten times as many."""


def trained_on(init: str, steps: int, folder: Path) -> Path:
    """The init after so many more steps of its own recipe's last stage."""
    recipe = read_recipe(find_recipe(init))
    training = recipe.training.model_copy(
        update={
            "stages": (recipe.training.stages[-1].model_copy(update={"steps": steps}),),
            "warmup_steps": 0,
            "average_ends": 1,
            "stop_after": None,
        }
    )
    assert recipe.demonstrations is not None, f"{init} was cloned on several tasks"
    shown = recipe.demonstrations.model_copy(update={"episodes": DEMONSTRATIONS})
    changes = {"model": None, "init": init, "training": training, "demonstrations": shown}
    clone(recipe.model_copy(update=changes), folder)
    return folder


def play(path: Path, player: Path | str, plan: Plan) -> ReadRun:
    """The records of a model's folder or a scripted policy."""

    async def run() -> None:
        if isinstance(player, str):
            await into(ScriptedEngine(player), ModelIdentity(name=player, kind="policy"))
        else:
            async with TransformersEngine(player, dtype="float32") as engine:
                await into(engine, from_folder(player).identity)

    async def into(engine: ScriptedEngine | TransformersEngine, model: ModelIdentity) -> None:
        manifest = plan.manifest(model, engine)
        with RunFolder(path, manifest, plan.keys()) as folder:
            await evaluate(plan, engine, folder, 64)

    asyncio.run(run())
    manifest, records = read_run(path)
    return ReadRun(path.name, in_float32(manifest), tuple(records), summarize(manifest, records))


def in_float32(manifest: Manifest) -> Manifest:
    """The manifest, as if a model in float32 had played: what a forger would say of a policy."""
    return manifest.model_copy(update={"engine": {"kind": "transformers", "dtype": "float32"}})


def line(name: str, how: str, found: Sequence[EpisodeAudit]) -> str:
    """What was flagged."""
    flagged = sum(not audit.credible for audit in found) / len(found)
    by_text = sum(not (audit.plausible and audit.of_its_text) for audit in found) / len(found)
    evidence = evidence_of(found)
    shown = "" if evidence is None else f"{evidence:10.1f}"
    return f"{name:28} {how:18} {len(found):8} {flagged:8.0%} {by_text:8.0%} {shown}"


def players(arguments: argparse.Namespace, root: Path) -> Iterator[tuple[str, Path | str]]:
    """Who plays, by name."""
    yield "the init itself", from_named(arguments.init)
    for steps in arguments.steps:
        folder = root / f"trained-{steps}"
        yield f"{steps} steps later", trained_on(arguments.init, steps, folder)
    for policy in ("expert", "random"):
        yield policy, policy
    for model in arguments.models:
        yield "/".join(Path(model).parts[-2:]), Path(model)


def from_named(name: str) -> Path:
    """The folder of an init."""
    folder = find_model(name).path
    assert folder is not None
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", metavar="MODEL", nargs="*", help="folders of further checkpoints")
    parser.add_argument("--init", default="tiny-sokoban", help="whose records they claim to be")
    parser.add_argument("--steps", type=int, nargs="*", default=[1, 5, 20, 60])
    parser.add_argument("--shard", type=int, default=8, help="play one of so many parts")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tasks = find_model(arguments.init).tasks
    under = load_model(from_named(arguments.init), "float32", "cpu")
    chat = Chat.load(from_named(arguments.init))
    began = time.process_time()
    print(f"{'records of':28} {'sampling':18} episodes  flagged     text   evidence")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number, (name, player) in enumerate(players(arguments, root)):
            for how, choices in SAMPLING.items():
                shard = Shard(index=1, count=arguments.shard)
                plan = Plan.of([(task, "builtin") for task in tasks], choices, shard=shard)
                run = play(root / f"{number} {how}", player, plan)
                found = list(audit_run(run, under, chat, len(run.records)))
                print(line(name, how, found), flush=True)
    print(f"{time.process_time() - began:.0f} s of CPU in this process")


if __name__ == "__main__":
    main()
