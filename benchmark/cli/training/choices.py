"""Tasks and settings of a `train` command."""

import argparse
import math
from collections.abc import Sequence
from types import MappingProxyType

import yaml

from tasks.base import Task
from tasks.errors import UserError
from tasks.options import Settings, parse_settings
from tasks.registry import load_task


def task_shares(tasks: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split tasks into their names and settings for their numbers of groups per update.

    Raises:
        UserError: A task is given twice, or only some have a number.
    """
    parts = [text.partition("=") for text in tasks]
    names = [name for name, _, _ in parts]
    if len(set(names)) < len(names):
        raise UserError("--task: give each task once; --task NAME=GROUPS gives it more groups")
    groups = [int(count) for _, equals, count in parts if equals]
    if not groups:
        return names, []
    if len(groups) < len(names):
        raise UserError("--task NAME=GROUPS: give the number of groups of every task or of none")
    own = [f"rollout.mixture.{name}={count}" for name, count in zip(names, groups, strict=True)]
    return names, [f"rollout.groups={sum(groups)}", *own]


def chosen_tasks(
    names: Sequence[str], of_tasks: Sequence[str], pinned: Settings = MappingProxyType({})
) -> tuple[Task, ...]:
    """Load the tasks, with settings of the track or init overridden by the user's."""
    settings = parse_settings(of_tasks)
    return tuple(
        load_task(name).configured({**pinned.get(name, {}), **settings.get(name, {})})
        for name in names
    )


def split_settings(
    arguments: argparse.Namespace, tasks: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Split the user's settings into those of the training and of tasks (`sokoban.name=value`)."""
    of_tasks = [text for text in arguments.set if text.partition(".")[0] in tasks]
    own = [text for text in arguments.set if text not in of_tasks]
    if arguments.async_rollouts is not None:
        own.append(f"rollout.max_staleness={arguments.async_rollouts}")
    return [*own, *template_setting(arguments)], of_tasks


def template_setting(arguments: argparse.Namespace) -> list[str]:
    """The variables of the chat template as a setting, if there are any."""
    variables = arguments.chat_template_kwargs
    if not variables:
        return []
    # As YAML, like other settings, in which JSON's 1e-05 would be a string.
    value = yaml.safe_dump(variables, default_flow_style=True, width=math.inf).strip()
    return [f"chat_template_kwargs={value}"]
