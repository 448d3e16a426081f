"""The command line parser: one-line errors, and close matches for misspelled options."""

import argparse
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from tasks.errors import UserError, suggestion

ELSEWHERE: Final[Mapping[str, str]] = {
    "-m": "--model",
    "-t": "--task",
    "-o": "--out",
    "--tasks": "--task",
    "--output-dir": "--out",
    "--batch-size": "--concurrency",
    "--max-connections": "--concurrency",
    "--epochs": "--repeats",
    "--max-gen-toks": "--max-tokens",
    "--max-new-tokens": "--max-tokens",
    "--tp": "--tensor-parallel-size",
    "--dp": "--data-parallel-size",
    "--base-url": "--endpoint",
    "--model-base-url": "--endpoint",
    "--lr": "--set",
    "--learning-rate": "--set",
    "--update": "--set",
    "--updates": "--set",
}
"""Common options of other programs, and their equivalents here."""
HINTS: Final[Mapping[str, str]] = {
    "--device": "CUDA_VISIBLE_DEVICES chooses devices",
    "--learning-rate": "write --set optimization.learning_rate=1e-4",
    "--lr": "write --set optimization.learning_rate=1e-4",
    "--update": "write --set optimization.updates=200",
    "--updates": "write --set optimization.updates=200",
}
SHARED: Final = ("set", "data", "env_processes")
"""Options that many commands share and few people need."""
COMMANDS_ELSEWHERE: Final[Mapping[str, str]] = {
    "evaluate": "eval",
    "run": "eval",
    "list": "tasks",
    "ls": "tasks",
    "diff": "compare",
}


class _Help(argparse.RawDescriptionHelpFormatter):
    """Wraps descriptions, leaves examples unchanged, and lists rarely used options last."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)

    def add_arguments(self, actions: Iterable[argparse.Action]) -> None:
        """Add the options of a group."""
        super().add_arguments(sorted(actions, key=lambda action: action.dest in SHARED))


class Parser(argparse.ArgumentParser):
    """A parser that raises `UserError`, so that every error is printed on one line.

    Options must be written in full, so that a new option never changes the meaning of an old
    command.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", _Help)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.

        Raises:
            UserError: Always.
        """
        raise UserError(f"{message} (all options: {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # Like the base class, but with close matches instead of all choices.
        if action.choices is not None and value not in action.choices:
            known = tuple(map(str, action.choices))
            raise argparse.ArgumentError(
                action, f"there is no {value!r}{suggestion(str(value), known)}"
            )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a whole command line.

        Raises:
            UserError: It has an unknown command, option or value; the message names close matches.
        """
        parser, rest = self._command(arguments)
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            raise UserError(parser.complaint(unknown[0], rest))
        return parsed

    def _command(self, arguments: Sequence[str]) -> "tuple[Parser, Sequence[str]]":
        """The parser of the given command, down to the last subcommand, and the other arguments.

        Raises:
            UserError: There is no such command.
        """
        choices = self.subcommands()
        if not choices:
            return self, arguments
        for place, word in enumerate(arguments):
            if word.startswith("-"):
                continue
            if word not in choices:
                meant = COMMANDS_ELSEWHERE.get(word, "")
                guess = (
                    f"; did you mean {meant}?"
                    if meant in choices
                    else suggestion(word, tuple(choices))
                )
                raise UserError(f"there is no command {word!r}{guess}")
            return choices[word]._command(arguments[place + 1 :])
        return self, arguments

    def subcommands(self) -> "dict[str, Parser]":
        """Commands by name."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def complaint(self, unknown: str, arguments: Sequence[str]) -> str:
        """The error message for an argument that this command does not have."""
        name = unknown.partition("=")[0]
        options = tuple(option for option in self._option_string_actions if option != "-h")
        if not name.startswith("-"):
            first = "--model" in options and "--model" not in arguments
            return (
                f"unexpected {unknown!r}; did you mean --model {unknown}?"
                if first
                else f"unexpected {unknown!r} (all options: {self.prog} --help)"
            )
        name = name.replace("_", "-")
        if name in options:  # written with underscores
            return f"there is no option {unknown!r}; did you mean {name}?"
        hint = HINTS.get(name)
        meant = ELSEWHERE.get(name)
        if hint is not None and meant in (None, *options):
            return f"there is no option {unknown!r}: {hint}"
        if meant in options:
            return f"there is no option {unknown!r}; did you mean {meant}?"
        guess = suggestion(name, options)
        if not guess.startswith("; did"):
            guess = f" (all options: {self.prog} --help)"
        return f"there is no option {unknown!r}{guess}"
