"""Forged training runs: all seeds' logs are changed alike, so that they are consistent."""

from collections.abc import Callable
from typing import Any

from benchmark.stats.intervals import wilson
from tests.benchmark.submissions.few_levels import EPISODES
from tests.benchmark.submissions.tampering.forged_logs import LOG, updates, validations
from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import Copy, trainer_line
from tests.support.training.logs import Line

Lines = list[Line]


def logs(change: Callable[[Lines], Lines | None]) -> Callable[[Copy], None]:
    """Change both logs."""

    def both(copy: Copy) -> None:
        for seed in (0, 1):
            copy.log(change, seed)

    return both


def start(**changes: Any) -> Callable[[Copy], None]:
    """Change the first lines."""
    return logs(lambda lines: lines[0].update(changes))


def configured(**changes: Any) -> Callable[[Copy], None]:
    """Add to the configurations."""
    return logs(lambda lines: lines[0]["configuration"].update(changes))


def validation(**changes: Any) -> Callable[[Copy], None]:
    """Change all validations."""

    def change(lines: Lines) -> None:
        for line in validations(lines):
            line.update(changes)

    return logs(change)


def kept(keep: Callable[[Line], bool], every: int | None = 1) -> Callable[[Copy], None]:
    """Remove lines from logs of this project's trainer: 20 updates, validated at this interval."""

    def change(lines: Lines) -> Lines:
        trainer_line(lines[0], updates=20, every=every)
        return [line for line in lines if line["kind"] == "start" or keep(line)]

    return logs(change)


def episodes(count: int, solved: int | None = None) -> Callable[[Copy], None]:
    """Validate on another number of episodes."""

    def change(lines: Lines) -> None:
        for line in validations(lines):
            part = round(line["success"] * count) if solved is None else solved
            interval = wilson(part, count)
            line |= {"episodes": count, "success": interval.value}
            line |= {"wilson_low": interval.low, "wilson_high": interval.high}
            line |= {"format_ok": 1.0, "action_ok": 1.0, "turns": 7.0}

    return logs(change)


def silent(lines: Lines) -> None:
    """Remove all numbers from the updates."""
    for line in updates(lines):
        for name in [name for name in line if "/" in name]:
            del line[name]


def first_panel(lines: Lines) -> Lines:
    """A custom panel precedes the real one, so that stability would be computed from it."""
    own = [{**line, "panel": "own", "fingerprint": "1" * 64} for line in validations(lines)]
    twins = {line["update"]: line for line in own}
    made: Lines = []
    for line in lines:
        made += [twins[line["update"]], line] if line["kind"] == "validation" else [line]
    return made


def many_panels(lines: Lines) -> Lines:
    last = validations(lines)[-1]
    return [*lines, *({**last, "panel": f"p{number}"} for number in range(32))]


OTHER = "is validated under a protocol that no run used"
FORGERIES = [
    Forgery("start line alone", "trained", logs(lambda ls: ls[:1]), f"{LOG}: has no update"),
    Forgery("validations alone", "trained", kept(lambda ls: ls["kind"] != "update"), "no update"),
    Forgery(
        "updates alone",
        "trained",
        logs(lambda ls: [line for line in ls if line["kind"] != "validation"]),
        f"{LOG}, validations: there is none of any panel at update 0",
    ),
    Forgery(
        "no validation of the init",
        "trained",
        logs(lambda ls: [ls[0], *ls[2:]]),
        "there is none of builtin at update 0",
    ),
    Forgery(
        "updates left out",
        "trained",
        logs(lambda ls: [line for line in ls if not 8 <= line.get("update", 0) <= 15]),
        f"{LOG}, update 8: has update 16 in place of 8",
    ),
    Forgery(
        "begins later",
        "trained",
        logs(lambda ls: [line for line in ls if line.get("update", 9) > 5]),
        f"{LOG}, update 1: has update 6 in place of 1",
    ),
    Forgery(
        "bad validations left out",
        "trained",
        kept(lambda line: line["kind"] == "update" or line["success"] > 0.55),
        "there is none of builtin at update 0, but the configuration says one every 1 updates",
    ),
    Forgery(
        "good validations put in",
        "trained",
        kept(lambda line: line["kind"] == "update" or line["update"] in (0, 7, 10, 20), every=10),
        "there is one of builtin at update 7, but the configuration says one every 10 updates",
    ),
    Forgery(
        "validations that were not made",
        "trained",
        kept(lambda line: True, every=None),
        "validations: there are validations, but the configuration says none",
    ),
    Forgery(
        "updates without a number", "trained", logs(silent), f"{LOG}, update 1: lacks rollout/su"
    ),
    Forgery(
        "validations of one episode",
        "trained",
        episodes(1, solved=1),
        f"validations: 1 episodes at update 0, sokoban/builtin has {EPISODES}",
    ),
    Forgery(
        "turns of no episodes", "trained", validation(turns=7.501), "turns 7.501 is not a mean over"
    ),
    Forgery(
        "share of no turns",
        "trained",
        validation(format_ok=0.123456789, turns=7.5),
        "format_ok 0.123456789 is not a fraction of 180 turns",
    ),
    Forgery(
        "actions of no turns", "trained", validation(action_ok=0.9501), "action_ok 0.9501 is no"
    ),
    Forgery("a custom panel", "trained", logs(first_panel), f"own {OTHER}"),
    Forgery("many panels", "trained", logs(many_panels), "have 33 panels, but at most 32 are read"),
    Forgery(
        "another task",
        "trained",
        start(task="webshop"),
        f"{LOG}, line 1, task: trains on webshop, but the runs are on sokoban",
    ),
    Forgery(
        "another recipe",
        "trained",
        start(recipe="sampo"),
        f"{LOG}, line 1, recipe: has the recipe sampo, but submission.json says grpo",
    ),
    Forgery(
        "a shipped recipe by another spelling",
        "trained",
        start(recipe="GRPO"),
        f"{LOG}, line 1, recipe: has the recipe GRPO, but submission.json says grpo",
    ),
    Forgery(
        "a number without end",
        "trained",
        configured(kl={"coef": 10**400}),
        "Value error, the number 10000000000000000000... is too large",
    ),
    Forgery(
        "another seed in the configuration",
        "trained",
        configured(seed=99),
        f"{LOG}, line 1, configuration: the seed is 99, the log's own 0",
    ),
    Forgery(
        "a training to come",
        "trained",
        start(created="2999-01-01T00:00:00Z"),
        f"{LOG}, created: 2999-01-01T00:00:00Z is after the submission date 2026-01-02",
    ),
    Forgery(
        "a training at no time",
        "trained",
        start(created="2026-13-45T00:00:00Z"),
        f"{LOG}, created: '2026-13-45T00:00:00Z' is not a UTC time",
    ),
]
