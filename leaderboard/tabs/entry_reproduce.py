"""How a reader checks an entry again: without a model, with its weights, and by its training."""

import shlex
from typing import Final

from markupsafe import Markup

from leaderboard.markup import (
    NOTHING,
    Head,
    Piece,
    block,
    element,
    folded,
    joined,
    line,
    note,
    table,
)
from leaderboard.rows import Row

_SHOWN: Final = 12
"""Digits of a hash that tell weights apart; the whole ones are folded up below."""
_PROGRAM: Final = "cli.py "
"""How a command begins that was not given by the installed name."""


def short_hash(digest: str) -> Markup:
    """The beginning of a hash, and all of it for those who point at it."""
    return element("code", f"{digest[:_SHOWN]}\u2026", title=digest)


def whole_hashes(row: Row) -> Markup:
    """All hashes of an entry in full, as text that can be copied."""
    found: list[tuple[Piece, str | None]] = []
    for point in row.checkpoints:
        name = joined([f"weights of seed {point.seed}, ", line(point.model.name)])
        found.append((name + ", commit", point.model.revision))
        found.append((name, point.model.sha256))
        found.append((f"training log of seed {point.seed}", point.log_sha256))
    if row.init is not None:
        found.append((joined(["init, ", line(row.init.name), ", commit"]), row.init.revision))
        found.append((joined(["init, ", line(row.init.name)]), row.init.sha256))
    found.append(("submission.json, which names all files", row.submission_sha256))
    rows: list[list[Piece]] = [
        [name, element("code", line(digest))] for name, digest in found if digest
    ]
    heads = [Head("what"), Head("SHA-256, or commit of a hub")]
    return folded("Hashes in full", table("Hashes in full", heads, rows))


def reproduce(row: Row) -> Markup:
    """What a reader can do to check an entry, from what needs least to what needs most."""
    check = f"arlarena-bench submit check submissions/{shlex.quote(row.id)}"
    return joined(
        [
            element("h3", "Reproduce"),
            note(
                "Without a model: in a clone of the repository, every recorded episode is executed "
                "again on a CPU, and all numbers are computed anew from the folder."
            ),
            block(check, "command of the check"),
            _play(row),
            _train(row),
        ]
    )


def _play(row: Row) -> Markup:
    """The recorded commands, and what a reader must put in their place."""
    commands = [command for point in row.checkpoints for command in point.commands]
    if not commands:
        return note("Which commands have played it is not known.")
    kinds = {point.model.kind for point in row.checkpoints}
    parts = ["With the weights: these are the authors' own commands, as they were recorded."]
    if "folder" in kinds:
        parts.append(
            "Their folders exist on the authors' machine alone. After --model give your copy of "
            "the weights of that seed, whose hash stands above; submission.json says under "
            "weights where they can be had, if the authors offer them."
        )
    if "hub" in kinds:
        parts.append("A hub id with its revision can be followed as it is.")
    if "init" in kinds:
        parts.append("An init's name can be followed as it is.")
    if kinds == {"policy"}:
        parts = ["A program without weights: the recorded command can be followed as it is."]
    parts.append("After --out give a folder of your own.")
    if any(command.startswith(_PROGRAM) for command in commands):
        parts.append("Where it begins with cli.py, type arlarena-bench.")
    if kinds != {"policy"}:
        parts.append("On another engine or device single answers may differ.")
    return note(" ".join(parts)) + block("\n".join(commands), "commands of the authors")


def _train(row: Row) -> Markup:
    """Where the whole configuration of a training is; nothing without logs."""
    logged = [point.seed for point in row.checkpoints if point.log_sha256]
    if not logged:
        return NOTHING
    folder = f"submissions/{shlex.quote(row.id)}/training"
    start = row.init.name if row.init is not None and row.init.kind == "init" else "INIT"
    seeds = ", ".join(map(str, logged))
    return joined(
        [
            note(
                f"By training again (seeds {seeds}): the first line of a training log is its whole "
                "configuration, with recipe, init, seed, engine and versions. Give what differs "
                "from the recipe at its scale with --set; --dry-run prints the configuration, to "
                "compare."
            ),
            block(
                f"zstd -dc {folder}/s{logged[0]}.jsonl.zst | head -n 1\n"
                f"arlarena-bench train --recipe {shlex.quote(row.recipe)} "
                f"--init {shlex.quote(start)} --seed {logged[0]} --dry-run",
                "commands of a training",
            ),
        ]
    )
