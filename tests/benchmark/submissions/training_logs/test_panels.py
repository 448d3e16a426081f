"""Finds a log's validations of the evaluated panel, by fingerprint or by configuration."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.engines.core.base import Sampling
from benchmark.evaluation.protocol import PanelProtocol, joint_fingerprint
from benchmark.evaluation.summarize import summarize
from benchmark.logs.training_log import TrainingLog, parse_training_log
from benchmark.models import ModelIdentity
from benchmark.submissions.format.schema import Checkpoint
from benchmark.submissions.reading.entry import ReadCheckpoint, ReadRun
from benchmark.submissions.training_logs.panels import (
    agrees,
    can_be_one,
    check_choice,
    check_panels,
    matched_panels,
    stopped_between,
)
from tests.support.runs.factories import TASKS, make_manifest, make_protocol, make_record
from tests.support.training.logs import measured_line, start_line, validation_line

SAMPLED = make_protocol(sampling=Sampling(temperature=0.6, top_p=0.95, top_k=20), repeats=8)

MANY = make_protocol(episodes=256)


def point_of(protocol: PanelProtocol, solved: int = 2) -> ReadCheckpoint:
    """A checkpoint that solves this number of a protocol's episodes."""
    manifest = make_manifest(protocol)
    records = [
        make_record(f"e{number}", number < solved, repeat=repeat)
        for number in range(protocol.episodes)
        for repeat in range(protocol.repeats)
    ]
    run = ReadRun("runs/r0", manifest, tuple(records), summarize(manifest, records, TASKS))
    model = ModelIdentity(name="m", kind="folder", sha256="0" * 64)
    named = Checkpoint(seed=0, model=model, runs=("runs/r0",))
    return ReadCheckpoint(named, (run,), None)


def log_of(
    protocol: PanelProtocol, validation: Any = None, solved: int = 2, **changes: Any
) -> TrainingLog:
    """Two validations of a protocol."""
    changes = {"fingerprint": protocol.fingerprint, **changes}
    whole = joint_fingerprint([changes["fingerprint"]])
    lines = [start_line(configuration={"validation": validation}, fingerprint=whole)]
    lines += [validation_line(number, solved, 4, **changes) for number in (0, 1)]
    return parse_training_log(
        "".join(json.dumps(line) + "\n" for line in lines).encode(), Path("l")
    )


def log_over(*solved: int, **start: Any) -> TrainingLog:
    """Validations of 256 episodes after updates 0, 1, 2 and so on, with these numbers solved."""
    lines = [start_line(fingerprint=joint_fingerprint([MANY.fingerprint]), **start)]
    lines += [
        validation_line(number, count, 256, fingerprint=MANY.fingerprint)
        for number, count in enumerate(solved)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return parse_training_log(content, Path("l"))


def half() -> ReadCheckpoint:
    """A checkpoint that solves 128 of 256 episodes, played by another engine than validations."""
    return played_by({"kind": "vllm", "dtype": "bfloat16"}, point_of(MANY, solved=128))


def played_by(engine: dict[str, str], point: ReadCheckpoint) -> ReadCheckpoint:
    (run,) = point.runs
    manifest = run.manifest.model_copy(update={"engine": engine})
    return replace(point, runs=(replace(run, manifest=manifest),))


def test_the_inits_validation_is_no_agreement_where_others_follow() -> None:
    """A training run that ended at nothing cannot produce weights that solve half."""
    fallen, only = log_over(128, 20, 0), log_over(128)
    found = [finding.problem for finding in check_panels(half(), fallen)]
    assert "no validation of sokoban/builtin is near the 50.0% of the checkpoint" in found
    assert "near the" not in " ".join(f.problem for f in check_panels(half(), only))


@pytest.mark.parametrize(
    ("logs", "accepted"),
    [
        # Both match their last validation, or both match the one after update 1.
        ([(0, 20, 128), (0, 30, 60, 128)], True),
        ([(0, 128, 0), (0, 128, 20)], True),
        # One matches update 1 only, the other update 2: the best of each.
        ([(0, 128, 0), (0, 20, 128)], False),
        ([(0, 128, 0, 0), (0, 0, 128, 0)], False),
        # An objection of `check_panels` is not repeated.
        ([(128, 0, 0), (0, 0, 128)], True),
    ],
)
def test_seeds_show_their_last_weights_or_those_after_one_update(
    logs: list[tuple[int, ...]], accepted: bool
) -> None:
    found = list(check_choice([(half(), log_over(*solved)) for solved in logs]))
    assert [each.problem for each in found] == [
        "match the last validation in only some logs, and no one update in all logs"
    ] * (not accepted)


@pytest.mark.parametrize("solved", [(0, 128, 0), (128, 0, 128, 20)])
def test_a_single_seed_shows_its_last_weights(solved: tuple[int, ...]) -> None:
    """Nobody can tell which update was chosen in advance."""
    (found,) = check_choice([(half(), log_over(*solved))])
    assert (found.problem, found.fix) == (
        "do not match the log's last validation",
        "evaluate last/; run the same eval command again if episodes ended in errors",
    )
    assert not list(check_choice([(half(), log_over(0, 20, 128))]))


@pytest.mark.parametrize(
    ("gap", "seeds", "accepted"), [(20, 1, True), (20, 5, False), (5, 5, True)]
)
def test_seeds_that_are_all_a_little_better_are_not_those_of_their_logs(
    gap: int, seeds: int, accepted: bool
) -> None:
    """Each alone can happen by chance: 20 of 256 episodes are 7.8 points."""
    trained = [(half(), log_over(0, 20, 128 - gap)) for _ in range(seeds)]
    assert [problem for point, log in trained for problem in problems(point, log)] == []
    found = [each.problem for each in check_choice(trained)]
    together = "match validations one by one, but together they are too far from them"
    assert found == [together] * (not accepted)


def test_a_choice_among_many_validations_takes_time_for_each_once() -> None:
    """A log of 32 MiB has 100,000; checking all of them for every choice took minutes."""
    trained = [(half(), log_over(0, *[148] * 12_000)) for _ in range(5)]
    began = time.process_time()
    (found,) = check_choice(trained)
    assert "together they are too far from them" in found.problem
    assert time.process_time() - began < 15


def test_last_weights_that_were_never_validated_are_compared_with_nothing() -> None:
    """A run that diverges or learns nothing stops between two validations, like a collapse."""
    configuration = {"optimization": {"updates": 60}, "validation": {"every": 20}}
    panel = joint_fingerprint([MANY.fingerprint])
    lines = [start_line(configuration=configuration, fingerprint=panel)]
    lines.append(validation_line(0, 100, 256, fingerprint=MANY.fingerprint))
    for number in range(1, 34):
        spread = {"rollout/group_std": 1.0 if number <= 10 else 0.05}
        lines.append(measured_line(number, spread))
        if number == 20:
            lines.append(validation_line(20, 110, 256, fingerprint=MANY.fingerprint))
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    log = parse_training_log(content, Path("l"))
    assert stopped_between(log)
    fallen = point_of(MANY, solved=20)
    assert problems(fallen, log) == [] and not list(check_choice([(fallen, log)]))
    until = "".join(json.dumps(line) + "\n" for line in lines[:23]).encode()
    whole = parse_training_log(until, Path("l"))
    assert not stopped_between(whole) and len(problems(fallen, whole)) == 1


@pytest.mark.parametrize(("errors", "accepted"), [(12, True), (0, False)])
def test_errors_of_the_evaluation_may_be_what_is_missing(errors: int, accepted: bool) -> None:
    """They count as failures, which the validation need not have had."""
    manifest = make_manifest(MANY)
    records = [make_record(f"e{number}", number < 116) for number in range(256 - errors)]
    records += [
        make_record(f"e{number}", False, error="gone") for number in range(256 - errors, 256)
    ]
    summary = summarize(manifest, records, TASKS)
    point = replace(half(), runs=(ReadRun("runs/r0", manifest, tuple(records), summary),))
    engine = {"kind": "transformers", "dtype": "float32", "device": "cpu"}
    found = problems(played_by(engine, point), log_over(0, 128, engine=engine))
    assert (not found) == accepted


@pytest.mark.parametrize(
    ("dtype", "sampling", "gap", "accepted"),
    [
        ("float32", Sampling(), 2, True),
        ("float32", Sampling(), 3, False),
        ("float32", Sampling(temperature=0.6), 3, True),
        ("bfloat16", Sampling(), 3, True),
    ],
)
def test_what_was_played_greedily_in_float32_is_what_was_validated(
    dtype: str, sampling: Sampling, gap: int, accepted: bool
) -> None:
    panel = make_protocol(episodes=256, sampling=sampling)
    engine = {"kind": "transformers", "dtype": dtype, "device": "cpu"}
    point = played_by(engine, point_of(panel, solved=128))
    lines = [start_line(fingerprint=joint_fingerprint([panel.fingerprint]), engine=engine)]
    lines += [
        validation_line(number, 128 - gap, 256, fingerprint=panel.fingerprint) for number in (0, 1)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    found = problems(point, parse_training_log(content, Path("l")))
    assert (not any("is near the" in problem for problem in found)) == accepted


def problems(point: ReadCheckpoint, log: TrainingLog) -> list[str]:
    return [finding.problem for finding in check_panels(point, log)]


def test_the_same_protocol() -> None:
    protocol = make_protocol()
    log = log_of(protocol)
    tie = matched_panels(point_of(protocol), log)["builtin"]
    assert (tie.protocol, tie.comparable) == (protocol, True)
    assert problems(point_of(protocol), log) == []


def test_one_play_of_what_was_evaluated_in_eight() -> None:
    """This project's trainer plays every episode once, whatever the standard number."""
    once = replace(SAMPLED, repeats=1)
    tie = matched_panels(point_of(SAMPLED), log_of(once))["builtin"]
    assert (tie.protocol, tie.comparable) == (once, True)
    assert problems(point_of(SAMPLED), log_of(once)) == []
    assert problems(point_of(SAMPLED, solved=0), log_of(once, solved=4))[0].startswith("no validat")


def test_sampled_validations_of_what_was_evaluated_greedily() -> None:
    """As in the paper's scale: another protocol for the same panel, with another success rate."""
    chosen = {"every": 5, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": None}
    greedy = make_protocol()
    validated = replace(SAMPLED, repeats=1)
    tie = matched_panels(point_of(greedy), log_of(validated, chosen))["builtin"]
    assert (tie.protocol, tie.comparable) == (validated, False)
    assert problems(point_of(greedy, solved=4), log_of(validated, chosen, solved=0)) == []
    assert problems(point_of(greedy), log_of(validated, chosen, turns=16.0)) == [
        "16 turns per episode at update 0, sokoban/builtin has 15 at most"
    ]


@pytest.mark.parametrize(
    "chosen",
    [
        None,
        [],
        {},
        {"temperature": 0.7, "top_p": 0.95, "top_k": 20},
        {"temperature": "0.6", "top_p": 0.95, "top_k": 20},
        {"temperature": 0.6, "top_p": 0.95, "top_k": 20.0},
        {"temperature": 0.6, "top_p": True, "top_k": 20},
    ],
)
def test_a_protocol_that_does_not_follow_from_the_configuration(chosen: Any) -> None:
    log = log_of(replace(SAMPLED, repeats=1), chosen)
    assert problems(point_of(make_protocol()), log) == [
        "builtin is validated under a protocol that no run used"
    ]


def test_variables_of_the_chat_template_are_named_as_the_reason() -> None:
    log = log_of(replace(SAMPLED, repeats=1))
    (finding,) = check_panels(point_of(make_protocol()), log)
    assert finding.fix == "also evaluate the panel used for validation in training"
    own = {**log.start.configuration, "chat_template_kwargs": {"enable_thinking": False}}
    changed = replace(log, start=log.start.model_copy(update={"configuration": own}))
    (finding,) = check_panels(point_of(make_protocol()), changed)
    assert finding.fix.startswith("logs of training with --chat-template-kwargs cannot be submit")


@pytest.mark.parametrize("task", ["sokoban", "sokoban+own"])
def test_a_second_panel_must_have_been_played_too(task: str) -> None:
    """The trainer validates one panel per task; invented ones would hide equal logs."""
    protocol = make_protocol()
    tied = validation_line(0, 2, 4, fingerprint=protocol.fingerprint)
    own = validation_line(0, 9, 9, panel="own", turns=99.0)
    whole = joint_fingerprint(line["fingerprint"] for line in (tied, own))
    lines = [start_line(task=task, fingerprint=whole), tied, own]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert problems(point_of(protocol), parse_training_log(content, Path("l"))) == [
        "own is validated under a protocol that no run used"
    ]


@pytest.mark.parametrize(
    ("panels", "said"),
    [
        (("sokoban", "webshop"), []),
        (("sokoban",), ["validates sokoban, but trains on sokoban, webshop"]),
        (
            ("sokoban", "sokoban", "webshop"),
            ["validates sokoban, sokoban, webshop, but trains on sokoban, webshop"],
        ),
    ],
)
def test_a_mixture_is_validated_on_one_panel_of_each_task(
    panels: tuple[str, ...], said: list[str]
) -> None:
    """Removing the task that collapsed changes the mean from which stability is computed."""
    protocols = [make_protocol(task, f"p{number}") for number, task in enumerate(panels)]
    runs = []
    for protocol in protocols:
        manifest = make_manifest(protocol)
        records = [
            make_record(f"e{number}", task=protocol.task, panel=protocol.panel)
            for number in range(4)
        ]
        read = ReadRun("runs/r0", manifest, tuple(records), summarize(manifest, records, TASKS))
        runs.append(read)
    point = replace(point_of(make_protocol()), runs=tuple(runs))
    lines = [
        start_line(
            task="sokoban+webshop", fingerprint=joint_fingerprint(p.fingerprint for p in protocols)
        ),
        *(
            validation_line(0, 4, 4, panel=f"{p.task}.{p.panel}", fingerprint=p.fingerprint)
            for p in protocols
        ),
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert problems(point, parse_training_log(content, Path("l"))) == said


@pytest.mark.parametrize("sandbox", ["bubblewrap", "unsafe"])
def test_training_has_the_settings_of_its_validations(sandbox: str) -> None:
    protocol = make_protocol(settings={"sandbox": "bubblewrap"})
    line = start_line(
        configuration={"tasks": {"sokoban": {"sandbox": sandbox}}},
        fingerprint=joint_fingerprint([protocol.fingerprint]),
    )
    lines = [line, validation_line(0, 2, 4, fingerprint=protocol.fingerprint)]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert problems(point_of(protocol), parse_training_log(content, Path("l"))) == [
        "trains on sokoban with other settings than it validates with"
    ] * (sandbox == "unsafe")


def test_the_panel_of_the_configuration() -> None:
    """Choosing the panel would let authors choose what counts as a collapse."""
    protocol = make_protocol()
    for chosen in (None, {"panel": None}, {"panel": "builtin"}):
        assert problems(point_of(protocol), log_of(protocol, chosen)) == []
    assert problems(point_of(protocol), log_of(protocol, {"panel": "two_boxes"})) == [
        "builtin is sokoban/builtin, but the configuration says two_boxes"
    ]


def test_the_fingerprint_of_the_first_line() -> None:
    protocol = make_protocol()
    log = log_of(protocol)
    other = replace(log, start=log.start.model_copy(update={"fingerprint": protocol.fingerprint}))
    assert problems(point_of(protocol), other) == [
        "fingerprint is not that of the panels that are validated"
    ]


def test_another_number_of_episodes() -> None:
    protocol = make_protocol(episodes=8)
    assert problems(point_of(protocol), log_of(protocol)) == [
        "4 episodes at update 0, sokoban/builtin has 8"
    ]


def test_two_draws_of_one_rate_lie_farther_apart_than_one_from_its_rate() -> None:
    (line,) = log_over(128).validations
    # Rates of 50 and 66% differ by 3.66 standard errors of two samples, and by 5.1 of one.
    assert agrees(0.66, line, repeatable=False, drawn=256)
    assert not agrees(0.66, line, repeatable=False)
    assert not agrees(0.69, line, repeatable=False, drawn=256)


@given(st.integers(0, 2**32), st.floats(0.05, 0.95))
@settings(deadline=None, max_examples=30)
def test_honest_draws_pass_in_all_but_one_of_some_thousand_cases(seed: int, rate: float) -> None:
    draws = np.random.default_rng(seed).binomial(256, rate, size=(2000, 2)) / 256
    refused = sum(not can_be_one((one, 256), (other, 256)) for one, other in draws)
    assert refused <= 4
