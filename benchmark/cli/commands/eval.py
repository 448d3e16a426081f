"""`arlarena-bench eval`: evaluate a model and write a run folder.

Checks that need neither a model nor a large library are here, so that a mistyped name fails
immediately; `eval_run.py` does the work.
"""

import argparse
import re
from collections.abc import Sequence

from benchmark.cli.say import say
from benchmark.engines.core.names import POLICIES
from tasks.base import Task
from tasks.errors import UserError
from tasks.registry import load_task, own_names, task_name

ALL_TASKS = "all"


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_words(arguments)
    from benchmark.cli.commands.eval_run import play
    from benchmark.cli.output import print_summary, write_outputs

    out, session = play(arguments)
    outputs = write_outputs(out, env_processes=arguments.env_processes)
    print_summary(outputs, out, session)
    # Nothing was measured, so a script should not continue.
    played = [panel for panel in outputs.summary.panels if panel.records]
    return 1 if played and all(panel.errors == panel.records for panel in played) else 0


def check_words(arguments: argparse.Namespace) -> None:
    """Check everything that can be wrong with the options of a command.

    Raises:
        UserError: No model is given, or two are; or a name or number is invalid.
    """
    _check_model(arguments)
    shard_of(arguments.shard)
    if arguments.task or arguments.panel:
        panels_of(arguments.task, arguments.panel, (), aloud=False)


def _check_model(arguments: argparse.Namespace) -> None:
    engine, endpoints = arguments.engine, arguments.endpoint
    if engine in POLICIES:
        if arguments.model is not None:
            raise UserError(f"--engine {engine} needs no model; remove --model")
    elif engine == "openai" and not endpoints:
        raise UserError("--engine openai needs at least one --endpoint URL")
    elif not arguments.model and not endpoints:
        raise UserError("--model is missing (or choose --engine expert or random)")


def panels_of(
    chosen: list[str] | None, panel: str | None, own_tasks: Sequence[str], aloud: bool = True
) -> list[tuple[str, str]]:
    """Resolve --task and --panel to (task, panel) pairs.

    Args:
        chosen: Values of --task, each one name or several separated by commas.
        panel: Value of --panel.
        own_tasks: Tasks to play if none is named; empty for all tasks.
        aloud: Whether to print which panels replace those that are not installed.

    Raises:
        UserError: A name is unknown, or given twice.
    """
    named = [name.strip() for text in chosen or () for name in text.split(",") if name.strip()]
    if chosen and not named:
        raise UserError("--task names no task; arlarena-bench tasks lists them")
    if ALL_TASKS in named:
        if named != [ALL_TASKS]:
            raise UserError("--task all already includes every task; remove the others")
        named = []
        own_tasks = ()
    names = [task_name(name) for name in named] or list(own_tasks) or _all_tasks(aloud)
    if panel is not None and (len(names) > 1 or "/" in names[0]):
        raise UserError("--panel needs exactly one --task; for several, use --task TASK/PANEL")
    pairs: list[tuple[str, str]] = []
    for name in names:
        base, _, panel_name = name.partition("/")
        task = load_task(base)
        pair = (base, panel_name or panel or _default_panel(task, aloud))
        if pair[1] not in task.panels():
            task.panel(pair[1])  # raises an error that lists the panels
        if pair in pairs:
            raise UserError(f"{base}/{pair[1]} is given twice")
        pairs.append(pair)
    return pairs


def _all_tasks(aloud: bool) -> list[str]:
    """The benchmark's tasks, without a user's unfinished ones."""
    names = []
    for name in own_names():
        try:
            load_task(name).panels()
        except UserError as error:
            if aloud:
                say(f"not played: {error}")
        else:
            names.append(name)
    return names


def _default_panel(task: Task, aloud: bool) -> str:
    """The task's default panel; print a note if the panel from the literature is not installed."""
    default = task.default_panel()
    if aloud and task.info.field_panel not in {None, default}:
        say(
            f"{task.info.name}/{task.info.field_panel} is not on this machine; "
            f"playing {default} instead (choose a panel with --task "
            f"{task.info.name}/PANEL)"
        )
    return default


def shard_of(text: str | None) -> tuple[int, int] | None:
    """Parse I/N.

    Raises:
        UserError: It is not of this form.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"--shard must be I/N with I from 1 to N, not {text!r}")
    return int(match[1]), int(match[2])
