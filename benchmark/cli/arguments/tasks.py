"""Options of the commands on tasks: `tasks`, `play`, `validate`."""

import argparse

from benchmark.cli.arguments.common import count, data, env_options, settings, task


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands."""
    parser = commands.add_parser(
        "tasks",
        help="list tasks, panels and inits",
        description="Every panel with its size and whether its data is installed, every setting of "
        "a task, and the inits.",
        parents=[data()],
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON instead")
    parser = commands.add_parser(
        "play",
        help="play one episode in the terminal",
        description="Play an episode of a panel by typing actions, as the model would give them.",
        epilog="examples:\n  arlarena-bench play sokoban\n"
        "  arlarena-bench play webshop --episode 3 --prompt\n",
        parents=[data(), settings()],
    )
    parser.add_argument("task", metavar="TASK", type=task, help="a task's name or folder")
    parser.add_argument("--panel", default="builtin", help="default: builtin")
    parser.add_argument("--episode", help="id or number of the episode (default: a random one)")
    parser.add_argument("--prompt", action="store_true", help="show the whole prompt of a turn")
    parser = commands.add_parser(
        "validate",
        help="test a task without a model",
        description="Test a task: the expert wins, the random policy stays in its band, results "
        "do not depend on the order of execution, panels match their pins, and "
        "training contains no panel problem. Exit code 1 if a check fails.",
        parents=[env_options(), settings()],
    )
    parser.add_argument("task", metavar="TASK", type=task, help="a task's name or folder")
    parser.add_argument("--panel", action="append", help="repeatable (default: all)")
    parser.add_argument(
        "--training-entries",
        type=count,
        default=2000,
        help="entries of the training stream to compare with the panels (default: 2000)",
    )
    parser.add_argument(
        "--pin",
        action="store_true",
        help="first write the measured hashes, traces and bands into panels/index.json",
    )
    parser = commands.add_parser(
        "new-task",
        help="create a folder for a new task",
        description="Create a folder with a small task that passes `validate`, as a starting point "
        "for your own.",
    )
    parser.add_argument("name", metavar="NAME", help="lowercase letters, digits and _")
    parser.add_argument("--folder", metavar="DIR", default=".", help="parent folder (default: .)")
