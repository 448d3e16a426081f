"""The model card of an init: its origin and its results."""

from typing import TYPE_CHECKING

from baselines.cloning.recipe import BCRecipe, TaskDemonstrations
from benchmark.evaluation.summary import PanelSummary
from benchmark.stats.formatting import percent_text
from tasks.registry import load_task

if TYPE_CHECKING:
    from baselines.cloning.bc import Cloned

_CARD = """---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
tags:
- arlarena-bench
- behavior-cloning
---

# {name}

A fixed starting checkpoint for reinforcement learning on {tasks} of arlarena-bench, made
by behavior cloning from {players}. It is deliberately under-trained, so that
reinforcement learning has room. It can do nothing else.

| | |
| --- | --- |
| parameters | {parameters:,} |
| architecture | {architecture}, float32, own tokenizer with a chat template |
| starts from | {init} |
| trained on | {turns:,} turns of {episodes} |
| panels in the training data | none |
| SHA-256 of the demonstrations | `{data_sha256}` |
| seed | {seed} |
| command | `arlarena-bench bc {source}` |

Success, greedy decoding, with 95% interval:

| panel | episodes | success | valid format | mean turns |
| --- | --- | --- | --- | --- |
{results}

The weights depend on the machine's arithmetic: the same command on another processor gives a model
of the same quality, not the same bytes. The registry pins the shipped files by hash.
"""


def _episodes(task: str, shown: TaskDemonstrations) -> str:
    """Describe a task's cloned episodes: their number, player and view."""
    share = shown.mistakes
    notes = (
        [f"{percent_text(share, 0)} of the turns of a player who makes mistakes"] if share else []
    )
    notes += [f"`--set {task}.{name}={value}`" for name, value in shown.settings.items()]
    episodes = f"{shown.episodes:,} training episodes (stream {shown.stream})"
    return ", ".join([episodes, *notes])


def model_card(
    name: str,
    source: str,
    recipe: BCRecipe,
    cloned: "Cloned",
    summaries: tuple[PanelSummary, ...],
) -> str:
    """Write the card.

    Args:
        name: The init's name.
        source: The recipe, as named on the command line.
        recipe: The training recipe.
        cloned: Result of the training.
        summaries: Its results on panels.
    """
    rows = [
        f"| {load_task(s.task).info.presentation.title}, `{s.panel}` | {s.expected} "
        f"| {s.success.percent} | {percent_text(s.format_valid)} | {s.turns:.1f} |"
        for s in summaries
    ]
    sources = recipe.sources
    parts = [(task, _episodes(task, shown)) for task, shown in sources.items()]
    several = len(parts) > 1
    return _CARD.format(
        name=name,
        source=source,
        tasks=("the tasks " if several else "the task ") + ", ".join(f"`{t}`" for t in sources),
        players="the scripted players of these tasks"
        if several
        else "a scripted player of the task",
        parameters=cloned.parameters,
        architecture=cloned.architecture,
        turns=cloned.turns,
        episodes="; ".join(f"`{task}`: {text}" if several else text for task, text in parts),
        init="nothing" if recipe.init is None else f"`{recipe.init}`",
        data_sha256=cloned.data_sha256,
        seed=recipe.seed,
        results="\n".join(rows),
    )
