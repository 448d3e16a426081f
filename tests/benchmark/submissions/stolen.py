"""Changes to another author's submission in order to send it as one's own."""

from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path

from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.accepted_entries import AcceptedEntry
from tasks.seeding import sha256_text, stable_seed
from tests.support.submissions.small import Copy, Json, check
from tests.support.training.logs import Line


def renamed(copy: Copy) -> None:
    """Change the entry's name and the hashes of both seeds' weights."""
    hashes = [sha256_text(f"stolen {seed}") for seed in (0, 1)]

    def change(about: Json) -> None:
        about["name"] = "Mine"
        for point, digest in zip(about["checkpoints"], hashes, strict=True):
            point["model"]["sha256"] = digest

    copy.about(change)
    copy.manifest(lambda run: run["model"].update(sha256=hashes[0]), "runs/r0")
    copy.manifest(lambda run: run["model"].update(sha256=hashes[1]), "runs/r1")


def other_numbers(copy: Copy, change: Callable[[float], float]) -> None:
    """Change all log-probabilities; the plays stay."""

    def records(records: list[Json]) -> None:
        for record in records:
            for turn in record["turns"]:
                turn["log_prob"] = change(turn["log_prob"])

    for run in ("runs/r0", "runs/r1"):
        copy.records(records, run)


def other_logs(copy: Copy, share: float = 1.0) -> None:
    """Replace all numbers of some updates, except counts, by new ones.

    The validations get one more turn.
    """

    def change(lines: list[Line], seed: int) -> None:
        validations = [line for line in lines if line["kind"] == "validation" and line["update"]]
        for line in validations[: round(share * len(validations))]:
            turns = round(line["turns"] * line["episodes"]) + 1
            line["turns"] = turns / line["episodes"]
            for name in ("format_ok", "action_ok"):
                line[name] = round(turns * line[name]) / turns
        updates = [line for line in lines if line["kind"] == "update"]
        for line in updates[: round(share * len(updates))]:
            for name in line:
                other = name.startswith(("policy/", "kl", "ratio/", "engine/", "advantage/"))
                if other and line[name] is not None and line[name] % 1:
                    drawn = stable_seed("stolen", name, seed, line["update"]) % 99_998
                    line[name] = (1 + drawn) / 1e5

    for seed in (0, 1):
        copy.log(partial(change, seed=seed), seed)


def problems(copy: Copy, *others: Path) -> list[str]:
    verdict = check(copy.folder, [AcceptedEntry.of(read_accepted(other)) for other in others])
    return [f"{finding.file}: {finding.problem}" for finding in verdict.findings]


def with_answers(records: list[Json], others: list[Json]) -> list[Json]:
    """Other records, with a model's token counts and log-probabilities."""
    numbers = ("log_prob", "prompt_tokens", "response_tokens")
    shown = [turn for record in records for turn in record["turns"]]
    drawn = cycle({name: turn[name] for name in numbers} for turn in shown)
    return [
        {**other, "turns": [{**turn, **next(drawn)} for turn in other["turns"]]} for other in others
    ]
