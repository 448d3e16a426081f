"""`arlarena-bench bc`: train an init from demonstrations, evaluate it, write its model card."""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from benchmark.cli.output import print_summary, write_outputs
from benchmark.cli.progress import INTERVAL_S, Progress
from benchmark.cli.say import say
from benchmark.cli.tables import plain
from benchmark.evaluation.evaluate import Plan, evaluate
from benchmark.evaluation.run_folder import RunFolder
from benchmark.evaluation.summary import RunSummary
from benchmark.files import refuse_other_files, write_atomically
from benchmark.models import from_folder
from benchmark.stats.formatting import percent_text
from tasks.errors import UserError
from tasks.registry import load_task

if TYPE_CHECKING:
    from baselines.cloning.bc import CloningProgress as BCProgress
    from baselines.cloning.recipe import BCRecipe

_CONCURRENCY = 64


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    # The registry and the trainer belong to `baselines`, which is imported only on demand.
    from baselines.cloning.recipe import find_recipe, read_recipe

    path = find_recipe(arguments.recipe)
    recipe = read_recipe(path)
    # Import the trainer only after the recipe has been validated.
    from baselines.cloning.bc import BEGUN, WRITTEN, clone, remove_checkpoint
    from baselines.cloning.model_card import model_card

    name = path.parent.name if path.name == "recipe.yaml" else path.stem
    out = Path(arguments.out) if arguments.out else Path("runs") / f"bc-{name}"
    for task, shown_of_it in recipe.sources.items():
        load_task(task).configured(shown_of_it.settings)
    refuse_other_files(out, "model that `bc` has begun", BEGUN, WRITTEN)
    if (out / "README.md").exists():
        raise UserError(f"{out} already has a finished model; choose another --out")
    with _bar() as bar:
        steps, shown = recipe.training.steps, time.monotonic()
        line = bar.add_task("demonstrations", total=steps)
        if bar.disable:
            say("playing demonstrations", flush=True)

        def show(progress: "BCProgress") -> None:
            nonlocal shown
            text = f"loss {progress.loss:.3f}, accuracy {percent_text(progress.token_accuracy)}"
            bar.update(line, completed=progress.step, description=text)
            now = time.monotonic()
            if bar.disable and (now - shown >= INTERVAL_S or progress.step == steps):
                shown = now
                say(f"step {progress.step} of {steps}: {text}", file=sys.stderr, flush=True)

        try:
            cloned = clone(recipe, out, tuple(arguments.tracker), show, arguments.env_processes)
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"{out} cannot be written: {why}; choose another --out") from error
        except KeyboardInterrupt:
            said = f"stopped; run the same command to resume from the checkpoint in {out}"
            bar.console.print(plain(said))
            raise
    if not cloned.main_process:
        return 0
    summary = _evaluate(out, recipe, arguments.env_processes)
    card = model_card(name, arguments.recipe, recipe, cloned, summary.panels)
    write_atomically(out / "README.md", card.encode())
    write_atomically(out / "recipe.yaml", path.read_bytes())
    remove_checkpoint(out)
    identity = from_folder(out).identity
    say(f"model: {out}, SHA-256 {identity.sha256}")
    return 0


def _bar() -> Bar:
    console = Console(stderr=True)
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _evaluate(model: Path, recipe: "BCRecipe", env_processes: int | None) -> RunSummary:
    """Evaluate the new model on the tasks' built-in panels with the standard protocol."""
    from benchmark.engines.transformers.engine import TransformersEngine

    settings = {task: shown.settings for task, shown in recipe.sources.items() if shown.settings}
    plan = Plan.of([(task, "builtin") for task in recipe.sources], settings=settings)
    source = from_folder(model)
    out = model / "evaluation"

    async def play() -> None:
        async with TransformersEngine(model, max_batch=_CONCURRENCY) as engine:
            manifest = plan.manifest(source.identity, engine)
            with (
                RunFolder(out, manifest, plan.keys()) as folder,
                Progress(len(plan.keys()), folder.records.values()) as progress,
            ):
                await evaluate(plan, engine, folder, _CONCURRENCY, progress.update, env_processes)

    asyncio.run(play())
    outputs = write_outputs(out, env_processes=env_processes)
    print_summary(outputs, out)
    return outputs.summary
