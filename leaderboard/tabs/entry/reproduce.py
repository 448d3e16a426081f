"""How readers can check an entry: without a model, with its weights, and by training again."""

import shlex
from typing import Final

from markupsafe import Markup

from benchmark.commands_of_entry import reproduce_text
from leaderboard.board.rows import BoardRow
from leaderboard.page.markup import (
    NOTHING,
    Head,
    Piece,
    block,
    copied,
    element,
    folded,
    joined,
    line,
    note,
    table,
)

_SHOWN: Final = 12
"""Number of hash digits shown, enough to distinguish weights; a folded table has the full ones."""


def short_hash(digest: str) -> Markup:
    """The first digits of a hash, with the full hash as a tooltip."""
    return element("code", f"{digest[:_SHOWN]}\u2026", title=digest)


def whole_hashes(row: BoardRow) -> Markup:
    """All hashes of an entry in full, to copy."""
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


def reproduce(row: BoardRow) -> Markup:
    """The ways to check an entry, cheapest first."""
    entry = f"submissions/{shlex.quote(row.id)}"
    commands = [command for point in row.checkpoints for command in point.commands]
    return joined(
        [
            element("h3", "Reproduce"),
            note(
                "Without a model: in a clone of the repository, every recorded episode is executed "
                "again on a CPU, and all numbers are computed from the folder."
            ),
            copied(f"arlarena-bench submit check {entry}", "the check"),
            note(joined(_about(row))),
            copied(reproduce_text(row.id, row.plugins), "the reproduction"),
            note(_code(row)) if row.plugins else NOTHING,
            note("It runs these commands, which --dry-run prints:"),
            block("\n".join(commands), "commands, one by one"),
        ]
    )


def _code(row: BoardRow) -> str:
    """What a reproduction needs from the authors if training runs used plug-ins."""
    return (
        f"An entry contains no code: get {', '.join(row.plugins)} from the authors first. The "
        "training logs have its hash. Without it, nothing can be trained again."
    )


def _about(row: BoardRow) -> list[Piece]:
    """What a reproduction of this entry does."""
    logged = [str(point.seed) for point in row.checkpoints if point.log_sha256]
    kinds = {point.model.kind for point in row.checkpoints}
    if logged:
        return [
            f"With a model: train every seed again ({', '.join(logged)}; --seed chooses one) with "
            "the configuration of its log, play the panels, and compare weights, logs and success. "
            "On a CPU in float32, with the same versions, threads and vector instructions, the "
            "weights are identical bit for bit, except with asynchronous rollouts, or with "
            "cross-policy sampling where the log lacks ",
            element("code", "engine.deterministic"),
            ".",
        ]
    if kinds == {"policy"}:
        return ["Play the panels again by the same program."]
    if "folder" in kinds:
        return [
            "With the weights, which the authors may offer (submission.json says where): give your "
            "copy, with the hash shown above, instead of the angle brackets."
        ]
    return ["With the weights: play the panels again. On other hardware some answers may differ."]
