"""Checks that a training log's validations are on a panel that the checkpoint has played."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from benchmark.engines.core.base import Sampling
from benchmark.evaluation.protocol import PanelProtocol, joint_fingerprint
from benchmark.evaluation.summary import PanelSummary
from benchmark.logs.training_log import TrainingLog
from benchmark.stats.formatting import percent_text
from benchmark.stats.intervals import wilson
from benchmark.submissions.checks.log_counts import AS_WRITTEN
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import ReadCheckpoint

CONFIDENCE: Final = 0.9999
"""Of the interval in which the evaluated success lies around one of the log's validations: batches
and machines decide between tokens that are equally likely, so that the same weights play a little
otherwise."""


@dataclass(frozen=True, slots=True)
class MatchedPanel:
    """A panel of a log that the checkpoint has played.

    Attributes:
        protocol: Of the validations.
        summary: What the checkpoint has done on it.
        comparable: Tokens were drawn in the same way, so that one policy gives one success rate.
    """

    protocol: PanelProtocol
    summary: PanelSummary
    comparable: bool


def matched_panels(point: ReadCheckpoint, log: TrainingLog) -> dict[str, MatchedPanel]:
    """The panels of a log, by the names that it gives them, that the checkpoint has played.

    A validation is of the evaluated panel if it has its fingerprint, or the one that follows from
    what the configuration chooses for validations (`validation.temperature` and the like, one play
    of every episode).
    """
    played = [protocol for run in point.runs for protocol in run.manifest.panels]
    chosen = log.start.configuration.get("validation")
    found = {}
    for panel in log.panels:
        fingerprint = log.of_panel(panel)[0].fingerprint
        for protocol in played:
            for variant in (protocol, *_variants(protocol, chosen)):
                if variant.fingerprint == fingerprint and panel not in found:
                    summary = point.panels[protocol.task, protocol.panel]
                    same = variant.sampling == protocol.sampling
                    found[panel] = MatchedPanel(variant, summary, same)
    return found


def _variants(protocol: PanelProtocol, chosen: Any) -> Iterator[PanelProtocol]:
    """A protocol as validations of a configuration play it."""
    yield replace(protocol, repeats=1)
    if not isinstance(chosen, Mapping):
        return
    given: dict[str, Any] = {}
    for name in ("temperature", "top_p", "top_k", "max_tokens"):
        value = chosen.get(name)
        whole = name in ("top_k", "max_tokens")
        if value is not None:
            if type(value) not in ((int,) if whole else (int, float)):
                return
            given[name] = value
    sampling: Sampling = replace(protocol.sampling, **given)
    yield replace(protocol, sampling=sampling, repeats=1)


def check_panels(point: ReadCheckpoint, log: TrainingLog) -> Iterator[Finding]:
    """Compare the validations with what was evaluated.

    Stability is computed from the first panel of a log, or from the panels of all its tasks: they
    must have been played.
    """
    file = str(log.path)
    names: dict[str, str] = {}
    for panel in log.panels:
        before = names.setdefault(log.of_panel(panel)[0].fingerprint, panel)
        if before != panel:
            problem = f"{before} and {panel} are two names for one panel"
            yield Finding(file, "validations", problem, AS_WRITTEN)
    if names and log.start.fingerprint != joint_fingerprint(names):
        problem = "fingerprint is not that of the panels that are validated"
        yield Finding(file, "line 1", problem, AS_WRITTEN)
    settings, tied = log.start.configuration.get("validation"), matched_panels(point, log)
    chosen = settings.get("panel") if isinstance(settings, Mapping) else None
    for panel in log.panels if log.several_tasks else log.panels[:1]:
        if panel not in tied:
            problem = f"{panel} is validated under a protocol that no run used"
            fix = "also evaluate the panel used for validation in training"
            if log.start.configuration.get("chat_template_kwargs"):
                fix = (
                    "logs of training with --chat-template-kwargs cannot be submitted; set the "
                    "variables in the init's own chat template and train again"
                )
            yield Finding(file, "validations", problem, fix)
        elif chosen not in (None, (played := tied[panel].protocol).panel):
            problem = (
                f"{panel} is {played.task}/{played.panel}, but the configuration says {chosen}"
            )
            yield Finding(file, "validations", problem, AS_WRITTEN)
    yield from _check_tasks(log, [tie.protocol for tie in tied.values()])
    for panel, tie in tied.items():
        fault = _fault(log, panel, tie.protocol)
        if fault is not None:
            yield Finding(file, "validations", fault, AS_WRITTEN)
        elif tie.comparable and not _near(log, panel, tie.summary.success.value):
            problem = (
                f"no validation of {tie.protocol.task}/{tie.protocol.panel} is near "
                f"the {percent_text(tie.summary.success.value)} of the checkpoint"
            )
            yield Finding(file, "validations", problem, "send the checkpoint's own log")


def _check_tasks(log: TrainingLog, validated: Sequence[PanelProtocol]) -> Iterator[Finding]:
    """Check that the validations are of all tasks that were trained on, as they were trained on.

    A mixture's stability is that of the mean over its tasks: without one, it is another number.
    """
    trained = sorted(log.start.task.split("+"))
    found = sorted(protocol.task for protocol in validated)
    if log.several_tasks and len(found) == len(log.panels) and found != trained:
        problem = f"validates {', '.join(found)}, but trains on {', '.join(trained)}"
        fix = "send the whole log, with the validations of one panel of each task"
        yield Finding(str(log.path), "validations", problem, fix)
    stated = log.start.configuration.get("tasks")
    for protocol in validated:
        own = stated.get(protocol.task) if isinstance(stated, Mapping) else None
        # Words in another form are repeated by no command.
        if isinstance(own, Mapping) and own != dict(protocol.settings):
            problem = f"trains on {protocol.task} with other settings than it validates with"
            yield Finding(str(log.path), "line 1, configuration", problem, AS_WRITTEN)


def _fault(log: TrainingLog, panel: str, protocol: PanelProtocol) -> str | None:
    """What no validation of a protocol can say."""
    plays = protocol.episodes * protocol.repeats
    for line in log.of_panel(panel):
        if line.episodes != plays:
            return (
                f"{line.episodes} episodes at update {line.update}, {protocol.task}/"
                f"{protocol.panel} has {plays}"
            )
        if line.turns > protocol.max_turns:
            return (
                f"{line.turns:g} turns per episode at update {line.update}, "
                f"{protocol.task}/{protocol.panel} has {protocol.max_turns} at most"
            )
    return None


def check_choice(trained: Sequence[tuple[ReadCheckpoint, TrainingLog]]) -> Iterator[Finding]:
    """Check that all seeds show their last weights, or those after one update.

    Whoever takes the best of each run's checkpoints shows the highest of many noisy values.
    """
    near, last = [], []
    for point, log in trained:
        ties = {name: tie for name, tie in matched_panels(point, log).items() if tie.comparable}
        found = [_near(log, name, tie.summary.success.value) for name, tie in ties.items()]
        if not found or not all(found):
            continue  # nothing to compare with, or `check_panels` objects
        near.append(set.intersection(*found))
        last.append(max(line.update for name in ties for line in log.of_panel(name)))
    if not near or all(end in of for of, end in zip(near, last, strict=True)):
        return
    if not set.intersection(*near):
        problem = "match the last validation in only some logs, and no one update in all logs"
        fix = "evaluate last/ of every seed, or every seed after the same update, chosen beforehand"
        yield Finding(SUBMISSION, "checkpoints", problem, fix)


def _near(log: TrainingLog, panel: str, success: float) -> set[int]:
    """Updates whose validations are as good as what was evaluated.

    The init's is none of them where others follow: it is not what training led to.
    """
    lines = log.of_panel(panel)
    found = set()
    for line in [each for each in lines if each.update > 0] or lines:
        around = wilson(round(line.success * line.episodes), line.episodes, CONFIDENCE)
        if around.low <= success <= around.high:
            found.add(line.update)
    return found
