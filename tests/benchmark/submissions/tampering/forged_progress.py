"""Forged logs with inconsistent lines: batches, tokens, time, and where they start."""

from collections.abc import Callable
from typing import Any

from benchmark.stats.intervals import wilson
from tests.benchmark.submissions.few_levels import EPISODES
from tests.benchmark.submissions.tampering.forged_logs import LOG, update, updates, validations
from tests.benchmark.submissions.tampering.forged_trainings import Lines, logs
from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import Copy


def dynamic(**numbers: float) -> Callable[[Copy], None]:
    """Claim that batches were sampled until enough groups differed, at most three."""

    def change(lines: Lines) -> None:
        lines[0]["configuration"]["sampling"]["dynamic"] = {"tries": 3}
        for line in updates(lines):
            line.update({f"rollout/{name}": value for name, value in numbers.items()})

    return logs(change)


def padded(lines: Lines) -> None:
    """Add another run's numbers, and many for a task that does not exist."""
    for line in updates(lines):
        line |= {f"rollout/turns@x{number}": line["update"] + number / 7 for number in range(20)}


def from_nothing(copy: Copy) -> None:
    """The init of one seed solves nothing, so that a fall to nothing is no collapse."""

    def change(lines: Lines) -> None:
        none = wilson(0, EPISODES)
        first = validations(lines)[0]
        first |= {"success": 0.0, "wilson_low": none.low, "wilson_high": none.high}

    copy.log(change)


def numbers(**changes: Any) -> Callable[[Copy], None]:
    """Change the fourth update of both logs, whose first one plays 4 turns per episode."""
    return update(**{"rollout__turns": 4.0, "tokens__prompt": 40_000, **changes})


FORGERIES = [
    Forgery(
        "numbers of no task", "trained", logs(padded), "update 1: has rollout/turns@x0, but the "
    ),
    Forgery(
        "the init solves nothing", "trained", from_nothing, f"{LOG}, validation 1 (update 0): begin"
    ),
    Forgery(
        "one episode an update",
        "trained",
        dynamic(tries=1, groups=1, episodes=1, success=1.0),
        "rollout/groups is 1, the configuration gives 16",
    ),
    Forgery(
        "more batches than may be drawn",
        "trained",
        dynamic(tries=4, groups=64, episodes=512, success=0.5),
        "rollout/tries is 4, the configuration gives 3",
    ),
    Forgery(
        "half a batch",
        "trained",
        dynamic(tries=2.5, groups=40, episodes=320, success=0.5),
        "rollout/tries is 2.5, the configuration gives 2",
    ),
    Forgery(
        "fewer tokens than turns",
        "trained",
        numbers(tokens__prompt=500),
        "tokens/prompt 500 are fewer than its 512 turns",
    ),
    Forgery(
        "tokens that are not those of the turns",
        "trained",
        numbers(response__tokens_mean=20.0, tokens__response=512),
        "tokens/response is 512, but 512 turns with 20 tokens (response/tokens_mean) have 10240",
    ),
    Forgery(
        "an update longer than its time",
        "trained",
        update(seconds__total=60.0),
        "update 4: took 60 seconds, but seconds_total grows by 5",
    ),
]
