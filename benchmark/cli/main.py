"""The command line: `arlarena-bench COMMAND`.

Options are declared under `benchmark/cli/arguments/`; each command's work is in a module of its own
under `benchmark/cli/commands/` or `benchmark/cli/training/`, imported when it is called, so that
help comes at once.
"""

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from benchmark.cli.arguments import (
    evaluation,
    leaderboard,
    logs,
    runs,
    studies,
    submissions,
    tasks,
    training,
)
from tasks.errors import UserError

ROOMS = ("commands", "training")
"""Folders of `benchmark/cli/` in which a command's module is looked for."""
EXIT_USER_ERROR = 2
EXIT_ENGINE_DOWN = 3
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    0: done. 1: the command's answer is "no" (a replay differs, a validation fails). 2: a mistake
    of the user's, in one line. 3: the engine went down; the run can be resumed. 130: Ctrl-C.
    """
    arguments = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.DEBUG if arguments.debug else logging.WARNING, format="%(message)s"
    )
    from benchmark.engines.core.base import EngineDown

    try:
        if options := getattr(arguments, "data", ()):
            from tasks.options import use_data

            use_data(options)
        modules = (f"benchmark.cli.{room}.{arguments.command}" for room in ROOMS)
        command = importlib.import_module(next(name for name in modules if find_spec(name)))
        code: int = command.run(arguments)
        return code
    except UserError as error:
        return _fail(arguments, str(error), EXIT_USER_ERROR)
    except EngineDown as error:
        message = f"the engine went down: {error}; run the same command again to resume"
        return _fail(arguments, message, EXIT_ENGINE_DOWN)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_INTERRUPTED


def _fail(arguments: argparse.Namespace, message: str, code: int) -> int:
    if arguments.debug:
        logging.exception("traceback")
    print(f"arlarena-bench {arguments.command}: {message}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="arlarena-bench",
        description="Benchmark suite for reinforcement learning of language-model agents.",
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks and debug messages")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for family in (evaluation, runs, tasks, training, studies, logs, submissions, leaderboard):
        family.add(commands)
    return parser
