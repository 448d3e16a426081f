"""Forged logs: of other training runs, of none, and with hand-drawn curves."""

import json
from collections.abc import Callable
from typing import Any

from benchmark.stats.intervals import wilson
from tests.benchmark.submissions.few_levels import EPISODES
from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import Copy, Json
from tests.support.training.logs import Line, validation_line

LOG = "training/s0.jsonl.zst"


def start(seed: int = 0, **changes: Any) -> Callable[[Copy], None]:
    """Change a log's first line."""
    return lambda copy: copy.log(lambda lines: lines[0].update(changes), seed)


def validations(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["kind"] == "validation"]


def updates(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["kind"] == "update"]


def validation(**changes: Any) -> Callable[[Copy], None]:
    """Change the fourth validation."""
    return lambda copy: copy.log(lambda lines: validations(lines)[3].update(changes))


def update(**changes: Any) -> Callable[[Copy], None]:
    """Change the fourth update; two underscores in names stand for `/`."""
    named = {name.replace("__", "/"): value for name, value in changes.items()}
    return lambda copy: copy.log(lambda lines: updates(lines)[3].update(named))


def smoothed(copy: Copy) -> None:
    """Smooth the validations' success with a moving mean, with the intervals of whole counts."""

    def change(lines: list[Line]) -> None:
        points = validations(lines)
        rates = [line["success"] for line in points]
        for number, line in enumerate(points):
            around = rates[max(0, number - 1) : number + 2]
            line["success"] = sum(around) / len(around)
            interval = wilson(round(EPISODES * line["success"]), EPISODES)
            line["wilson_low"], line["wilson_high"] = interval.low, interval.high

    copy.log(change)


def raised(copy: Copy) -> None:
    """Raise one bad validation to the level of the previous one, but keep its interval."""

    def change(lines: list[Line]) -> None:
        points = validations(lines)
        points[4]["success"] = points[4]["success"] + 1 / EPISODES

    copy.log(change)


def smoothed_training(copy: Copy) -> None:
    def change(lines: list[Line]) -> None:
        for line in updates(lines):
            line["rollout/success"] = 0.5 * (line["rollout/success"] + 0.6)

    copy.log(change)


def other_seed(copy: Copy) -> None:
    copy.log(lambda lines: lines[0].update(seed=7))


def swapped(copy: Copy) -> None:
    first, second = (copy.read(f"training/s{seed}.jsonl.zst") for seed in (0, 1))
    copy.write("training/s0.jsonl.zst", second)
    copy.write("training/s1.jsonl.zst", first)


def copied(copy: Copy) -> None:
    """Use the better seed's log for the other one as well."""
    lines = [json.loads(line) for line in copy.read(LOG).splitlines()]
    lines[0]["seed"] = lines[0]["configuration"]["seed"] = 1
    for line in lines[1:]:
        line["seconds_total"] += 1.0
    copy.log(lambda _: lines, seed=1)


def far(copy: Copy) -> None:
    """No validation solves anything, but the checkpoint does."""

    def change(lines: list[Line]) -> None:
        for line in validations(lines):
            fresh = validation_line(line["update"], 0, EPISODES)
            for name in ("success", "wilson_low", "wilson_high"):
                line[name] = fresh[name]

    copy.log(change)


def other_panel(copy: Copy) -> None:
    def change(lines: list[Line]) -> None:
        for line in validations(lines):
            line.update(panel="easy", fingerprint="1" * 64)
        lines.append({**validations(lines)[-1], "panel": "easier", "fingerprint": "2" * 64})

    copy.log(change)


def missing(copy: Copy) -> None:
    def change(about: Json) -> None:
        about["checkpoints"][1]["training_log"] = None
        about["files"] = [f for f in about["files"] if "training/s1" not in f["path"]]

    (copy.folder / "training" / "s1.jsonl.zst").unlink()
    copy.about(change)


def text(old: bytes, new: bytes) -> Callable[[Copy], None]:
    """Replace the first occurrence of a text in the log."""

    def change(copy: Copy) -> None:
        content = copy.read(LOG)
        assert old in content
        copy.write(LOG, content.replace(old, new, 1))

    return change


def named(path: str) -> Callable[[Copy], None]:
    """List a file as the first log."""
    return lambda copy: copy.about(lambda a: a["checkpoints"][0].update(training_log=path))


INIT = {"name": "other", "kind": "folder", "revision": None, "sha256": "9" * 64}
FORGERIES = [
    Forgery(
        "negative success", "trained", validation(success=-0.1), "success: Input should be great"
    ),
    Forgery("NaN in a log", "trained", validation(score=float("nan")), f"{LOG}: line 8: not JSON"),
    Forgery(
        "negative norm", "trained", update(policy__grad_norm=-1.0), "grad_norm: Input should be"
    ),
    Forgery(
        "torn log", "trained", lambda c: c.write(LOG, c.read(LOG)[:-9]), "line 42: is incomplete"
    ),
    Forgery(
        "twin fields in a log",
        "trained",
        text(b'"success": ', b'"success": 1.0, "success": '),
        f"{LOG}, line 2: a field appears twice",
    ),
    Forgery("smoothed collapse", "trained", smoothed, f"is not a fraction of {EPISODES} episodes"),
    Forgery(
        "smoothed training",
        "trained",
        smoothed_training,
        "is not a fraction of 128 (rollout/episode",
    ),
    Forgery("stale interval", "trained", raised, "the interval does not match"),
    Forgery("wide interval", "trained", validation(wilson_low=0.0), "the interval does not match"),
    Forgery(
        "log of another seed", "trained", other_seed, "line 1, seed: has seed 7, but the check"
    ),
    Forgery("swapped logs", "trained", swapped, "has seed 1, but the checkpoint has seed 0"),
    Forgery(
        "one log for two seeds", "trained", copied, f"20 updates have the same numbers as {LOG}"
    ),
    Forgery(
        "log of another init", "trained", start(init=INIT), "starts from other (folder, SHA-256 9"
    ),
    Forgery("log of another recipe", "trained", start(recipe="gspo"), "has other settings than "),
    Forgery("log of another task", "trained", start(task="webshop"), "has other settings than "),
    Forgery(
        "log of other settings",
        "trained",
        start(configuration={"recipe": "grpo", "seed": 0, "optimizer": {"learning_rate": 1e-6}}),
        "configuration: has other settings than",
    ),
    Forgery(
        "log of another model's training",
        "trained",
        far,
        "no validation of sokoban/builtin is near the",
    ),
    Forgery("logs of other panels", "trained", other_panel, "easy is validated under a protocol"),
    Forgery(
        "log of the better seed", "trained", missing, "seeds [1] have no training log, but others"
    ),
    Forgery(
        "records for a log", "trained", named("runs/r0/episodes.jsonl.zst"), "belongs to no run"
    ),
    Forgery(
        "README for a log", "trained", named("README.md"), "training/s0.jsonl.zst: belongs to no"
    ),
]
