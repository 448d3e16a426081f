"""Checks that a training log's validations are on panels that the checkpoint was evaluated on."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, Final

from benchmark.engines.core.base import Sampling
from benchmark.evaluation.protocol import PanelProtocol, joint_fingerprint
from benchmark.evaluation.summary import PanelSummary
from benchmark.logs.lines import Validation
from benchmark.logs.training_log import TrainingLog
from benchmark.stability.run_end import early_stop
from benchmark.stats.formatting import percent_text
from benchmark.stats.intervals import wilson
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import ReadCheckpoint
from benchmark.submissions.training_logs.counts import AS_WRITTEN, TOLERANCE

CONFIDENCE: Final = 0.9999
"""Confidence level of the interval around a validation that must contain the evaluated success.
Batches and machines decide between equally likely tokens, so the same weights play slightly
differently."""
FEW: Final = 2
"""Maximum number of episodes that may end differently if both were decoded greedily in float32 on
the same kind of device; in this project's own logs, none does."""
FEW_SHARE: Final = 0.01
"""The same as a share of the episodes, for large panels."""


@dataclass(frozen=True, slots=True)
class MatchedPanel:
    """A panel of a log that the checkpoint was evaluated on.

    Attributes:
        protocol: Protocol of the validations.
        summary: Summary of the evaluation.
        comparable: Whether both sampled tokens in the same way, so that one policy has the same
            success rate in both.
        repeatable: Whether both decoded greedily in float32 on the same kind of device, so that one
            policy gives the same plays except for `FEW`.
    """

    protocol: PanelProtocol
    summary: PanelSummary
    comparable: bool
    repeatable: bool = False

    def agrees(self, line: Validation) -> bool:
        """Whether a validation can be from the evaluated weights."""
        # Errors count as failures, but may not have occurred in the validation.
        errors = self.summary.errors / self.protocol.repeats
        return agrees(self.summary.success.value, line, self.repeatable, errors, self.drawn)

    @property
    def drawn(self) -> int:
        """Number of plays in the evaluation with sampled tokens; 0 if decoding is greedy."""
        return self.summary.records if self.protocol.sampling.temperature > 0 else 0


def agrees(
    success: float, line: Validation, repeatable: bool, errors: float = 0.0, drawn: int = 0
) -> bool:
    """Whether a validation and a success rate on the same panel can be from the same weights.

    Args:
        success: The success rate.
        line: The validation.
        repeatable: See `MatchedPanel`.
        errors: Number of its episodes that ended in an error.
        drawn: Number of its plays if tokens were sampled in both, else 0.
    """
    if drawn:
        return can_be_one((line.success, line.episodes), (success, drawn))
    if repeatable:
        most = max(FEW, FEW_SHARE * line.episodes) + errors
        return abs(success - line.success) * line.episodes <= most + TOLERANCE
    around = wilson(round(line.success * line.episodes), line.episodes, CONFIDENCE)
    return around.low <= success <= around.high


def can_be_one(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two success rates, each with its number of plays, can have the same true rate.

    This is a test for two proportions, with a tolerance of one play.
    """
    (rate, plays), (another, others) = one, other
    pooled = (rate * plays + another * others) / (plays + others)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / plays + 1 / others))
    gap = abs(rate - another)
    return gap <= NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * spread + 1 / min(plays, others)


def computes_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two engines, according to their descriptions, compute almost identical numbers."""
    facts = [
        (engine.get("kind"), engine.get("dtype"), engine.get("device")) for engine in (one, other)
    ]
    return facts[0] == facts[1] and facts[0][:2] == ("transformers", "float32")


def matched_panels(point: ReadCheckpoint, log: TrainingLog) -> dict[str, MatchedPanel]:
    """The panels of a log that the checkpoint was evaluated on, by their names in the log.

    A validation belongs to an evaluated panel if it has the panel's fingerprint, or the one that
    results from the configuration's settings for validations (`validation.temperature` and the
    like, one play per episode).
    """
    played = [(protocol, run) for run in point.runs for protocol in run.manifest.panels]
    chosen = log.start.configuration.get("validation")
    found = {}
    for panel in log.panels:
        fingerprint = log.of_panel(panel)[0].fingerprint
        for protocol, run in played:
            for variant in (protocol, *_variants(protocol, chosen)):
                if variant.fingerprint == fingerprint and panel not in found:
                    summary = point.panels[protocol.task, protocol.panel]
                    same = variant.sampling == protocol.sampling
                    greedy = same and variant.sampling.temperature == 0
                    alike = greedy and computes_alike(run.manifest.engine, log.start.engine)
                    found[panel] = MatchedPanel(variant, summary, same, alike)
    return found


def _variants(protocol: PanelProtocol, chosen: Any) -> Iterator[PanelProtocol]:
    """The variants of a protocol that validations with a configuration may use."""
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
    """Compare the validations with the evaluation.

    Stability is computed from the log's panels, so the checkpoint must have been evaluated on them.
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
    for panel in log.panels:
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
        elif tie.comparable and not stopped_between(log) and not _near(log, panel, tie):
            problem = (
                f"no validation of {tie.protocol.task}/{tie.protocol.panel} is near "
                f"the {percent_text(tie.summary.success.value)} of the checkpoint"
            )
            yield Finding(file, "validations", problem, "send the checkpoint's own log")


def stopped_between(log: TrainingLog) -> bool:
    """Whether a run was stopped early, after an update without a validation.

    Its last weights are then not validated. It counts as a collapse.
    """
    if not log.updates or early_stop(log) is None:
        return False
    return log.updates[-1].update not in {line.update for line in log.validations}


def _check_tasks(log: TrainingLog, validated: Sequence[PanelProtocol]) -> Iterator[Finding]:
    """Check that validations cover all tasks trained on, with the same settings.

    The stability of a mixture is that of the mean over its tasks, so none may be missing.
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
        # No command reproduces settings in another form.
        if isinstance(own, Mapping) and own != dict(protocol.settings):
            problem = f"trains on {protocol.task} with other settings than it validates with"
            yield Finding(str(log.path), "line 1, configuration", problem, AS_WRITTEN)


def _fault(log: TrainingLog, panel: str, protocol: PanelProtocol) -> str | None:
    """A fault that no validation under a protocol can have; None if there is none."""
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
    """Check that all seeds use their last weights, or several seeds those after the same update.

    Taking the best checkpoint of each run reports the highest of many noisy values. Adding a little
    to every seed stays near each validation, but not near all of them together.
    """
    compared = []
    for point, log in trained:
        if stopped_between(log):
            continue
        ties = {name: tie for name, tie in matched_panels(point, log).items() if tie.comparable}
        found = [_near(log, name, tie) for name, tie in ties.items()]
        if found and all(found):  # else there is nothing to compare, or `check_panels` objects
            compared.append(_Compared(log, ties, set.intersection(*found)))
    if not compared:
        return
    fix = "evaluate last/ of every seed, or every seed after the same update, chosen beforehand"
    choices = [[seed.last for seed in compared]] * all(seed.last in seed.near for seed in compared)
    if len(compared) > 1:
        common = set.intersection(*(seed.near for seed in compared))
        choices += [[update] * len(compared) for update in sorted(common)]
    if not choices:
        problem = "match the last validation in only some logs, and no one update in all logs"
        if len(compared) == 1:
            problem = "do not match the log's last validation"
            fix = "evaluate last/; run the same eval command again if episodes ended in errors"
        yield Finding(SUBMISSION, "checkpoints", problem, fix)
    elif not any(_agree_together(compared, updates) for updates in choices):
        problem = "match validations one by one, but together they are too far from them"
        yield Finding(SUBMISSION, "checkpoints", problem, fix)


@dataclass(frozen=True)
class _Compared:
    """A seed that can be compared with its log.

    Attributes:
        log: The log.
        ties: Its panels that the checkpoint was evaluated on.
        near: Updates whose validations can be from the evaluated weights, on all panels.
    """

    log: TrainingLog
    ties: Mapping[str, MatchedPanel]
    near: set[int]

    @cached_property
    def by_update(self) -> Mapping[int, Sequence[tuple[MatchedPanel, Validation]]]:
        """All validations by update, indexed because a hostile log can have 100,000 of them."""
        found: dict[int, list[tuple[MatchedPanel, Validation]]] = {}
        for name, tie in self.ties.items():
            for line in self.log.of_panel(name):
                found.setdefault(line.update, []).append((tie, line))
        return found

    def after(self, update: int) -> Sequence[tuple[MatchedPanel, Validation]]:
        """The validations after one update."""
        return self.by_update.get(update, ())

    @property
    def last(self) -> int:
        """The update of the last validation."""
        return max(self.by_update)


def _agree_together(seeds: Sequence[_Compared], updates: Sequence[int]) -> bool:
    """Whether all seeds together solve as many episodes as in the validations after `updates`."""
    episodes, solved, evaluated, drawn = 0, 0.0, 0.0, 0
    for seed, update in zip(seeds, updates, strict=True):
        for tie, line in seed.after(update):
            episodes += line.episodes
            solved += line.success * line.episodes
            evaluated += tie.summary.success.value * line.episodes
            drawn += tie.drawn
    if drawn:
        return can_be_one((solved / episodes, episodes), (evaluated / episodes, drawn))
    around = wilson(round(solved), episodes, CONFIDENCE)
    return around.low <= evaluated / episodes <= around.high


def _near(log: TrainingLog, panel: str, tie: MatchedPanel) -> set[int]:
    """Updates whose validations agree with the evaluation.

    The init's validation is excluded if others follow, because it is not a result of training.
    """
    lines = log.of_panel(panel)
    trained = [each for each in lines if each.update > 0] or lines
    return {line.update for line in trained if tie.agrees(line)}
