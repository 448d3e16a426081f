"""The command line: `arlarena-bench COMMAND`.

Options are declared under `benchmark/cli/arguments/`. Each command has its own module under
`benchmark/cli/commands/` or the other `ROOMS`, which is imported only when it is called, so that
help is fast.
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
from benchmark.cli.parser import Parser
from benchmark.cli.say import PlainFormatter, say
from benchmark.exit_codes import EXIT_ENGINE_DOWN, EXIT_INTERRUPTED, EXIT_USER_ERROR
from tasks.errors import UserError
from tasks.texts import on_one_line

PROGRAM = "arlarena-bench"
ROOMS = ("commands", "training", "authors")
"""Folders of `benchmark/cli/` that are searched for a command's module."""
SHELLS = ("bash", "zsh")
MAX_MESSAGE = 20_000
"""Maximum length of a message: all mistakes in a long file fit."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code.

    0: success. 1: the command's answer is "no" (a replay differs, a validation fails). The others
    are in `exit_codes`.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = parse(words)
    except UserError as error:
        debug = argparse.Namespace(debug="--debug" in words, command=_named(words))
        return _fail(debug, str(error), EXIT_USER_ERROR)
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter())
    level = logging.DEBUG if arguments.debug else logging.WARNING
    logging.basicConfig(level=level, handlers=[handler])
    from benchmark.engines.core.base import EngineDown, EngineNotStarted

    try:
        if arguments.command == "completion":
            import shtab

            # A shell program made only of this program's own texts: it must not be escaped.
            sys.stdout.write(shtab.complete(command_line(), shell=arguments.shell) + "\n")
            return 0
        prepare(arguments)
        module = arguments.command.replace("-", "_")
        modules = (f"benchmark.cli.{room}.{module}" for room in ROOMS)
        command = importlib.import_module(next(name for name in modules if find_spec(name)))
        code: int = command.run(arguments)
        return code
    except UserError as error:
        return _fail(arguments, str(error), EXIT_USER_ERROR)
    except EngineNotStarted as error:
        return _fail(arguments, str(error), EXIT_ENGINE_DOWN)
    except EngineDown as error:
        message = f"the engine failed: {error}; run the same command again to resume"
        return _fail(arguments, message, EXIT_ENGINE_DOWN)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_INTERRUPTED


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Returns:
        The options, with the command line itself as `words`.

    Raises:
        UserError: It has an unknown command, option or value.
        SystemExit: It requests help or the version, which is printed.
    """
    parser = command_line()
    if not words or list(words) == ["help"]:
        words = ["--help"]
    elif words[0] == "help":
        words = [*words[1:], "--help"]
    elif len(words) == 1 and (one := parser.subcommands().get(words[0])) and one.subcommands():
        words = [*words, "--help"]  # a command that only has subcommands
    arguments = parser.parse(words)
    arguments.words = list(words)
    return arguments


def prepare(arguments: argparse.Namespace) -> None:
    """Apply the process-wide options that commands share.

    Raises:
        UserError: --data does not name a task's folder.
    """
    if hasattr(arguments, "threads"):
        from benchmark.engines.core.devices import use_threads

        use_threads(arguments.threads)
    if options := getattr(arguments, "data", ()):
        from tasks.options import use_data

        use_data(options)


def _named(words: Sequence[str]) -> str:
    """The name of the command, if it is known."""
    known = command_line().subcommands()
    return next((word for word in words if word in known), "")


def _fail(arguments: argparse.Namespace, message: str, code: int) -> int:
    if arguments.debug:
        logging.exception("traceback")
    # Messages quote files and servers, which must not control the terminal or hide the message's
    # end.
    text = on_one_line(message, MAX_MESSAGE)
    named = (PROGRAM, arguments.command, getattr(arguments, "action", None))
    say(f"{' '.join(filter(None, named))}: {text}", file=sys.stderr)
    return code


def command_line() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog=PROGRAM,
        description="Benchmark suite for reinforcement learning of language-model agents.",
        epilog=f"{PROGRAM} COMMAND --help shows options and examples.",
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks and debug messages")
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND"
    )
    for family in (evaluation, runs, tasks, training, studies, logs, submissions, leaderboard):
        family.add(commands)
    completion = commands.add_parser(
        "completion",
        help="print the completion of commands and options for a shell",
        description="Print a script that makes a shell complete commands and options.",
        epilog=f'examples:\n  eval "$({PROGRAM} completion bash)"          in ~/.bashrc\n'
        f"  {PROGRAM} completion zsh > ~/.zsh/_arlarena-bench   a folder in $fpath\n",
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    return parser


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, *_: object) -> None:
        from benchmark.versions import versions

        say(f"{PROGRAM} {versions()[PROGRAM]}")
        sys.exit(0)
