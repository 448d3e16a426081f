"""Validation: the whole validation panel, played by the current policy."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from baselines.config.schema import TrainConfig
from baselines.rollouts.process_shards import Count, ProcessShards, no_progress
from benchmark.engines.core.base import Engine
from benchmark.evaluation.evaluate import Plan
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.evaluation.records import EpisodeRecord, record_of
from benchmark.evaluation.rollout import Trajectory, longest_first, play
from benchmark.hosts.base import EnvHost
from benchmark.logs.lines import Validation
from benchmark.stats.intervals import wilson
from tasks.base import Task

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun

CONCURRENCY = 64


def validation_plan(config: TrainConfig, tasks: Sequence[Task]) -> Plan:
    """The evaluation plan of every validation of a run; the log has its fingerprint.

    A configured panel is played for every task.

    Raises:
        UserError: A panel is unknown or its data is missing.
    """
    chosen = config.validation
    panels = [(task.info.name, chosen.panel or task.default_panel()) for task in tasks]
    choices = SamplingOverrides(
        temperature=chosen.temperature,
        top_p=chosen.top_p,
        top_k=chosen.top_k,
        max_tokens=chosen.max_tokens,
        repeats=1,
        chat_template_kwargs=config.chat_template_kwargs,
    )
    settings = {task.info.name: dict(task.settings()) for task in tasks}
    return Plan.of(panels, choices, settings=settings)


def validation_options(plan: Plan, validation: Mapping[str, Any]) -> list[str]:
    """Options of `eval` that reproduce validations, besides the panels.

    Args:
        plan: The validation plan.
        validation: The settings of the validation.
    """
    options: list[str] = []
    for name in ("temperature", "top_p", "top_k", "max_tokens"):
        value = validation.get(name)
        options += [f"--{name.replace('_', '-')}", str(value)] if value is not None else []
    if variables := plan.panels[0].protocol.chat_template_kwargs:
        options += ["--chat-template-kwargs", json.dumps(variables)]
    # Validations play every episode once, whatever a panel's standard is.
    once = all(planned.panel.info.standard.repeats == 1 for planned in plan.panels)
    return options if once else [*options, "--repeats", "1"]


def chosen_settings(plan: Plan) -> list[str]:
    """A plan's non-default task settings, in the format of `--set`."""
    tasks = [planned.task for planned in plan.panels]
    return [
        f"{task.info.name}.{name}={value}"
        for task in tasks
        for name, value in task.settings().items()
        if value != task.info.settings[name].default
    ]


class Validator:
    """Validates a run on its panels.

    Args:
        run: The training run.
        players: Splits episodes over processes.
        host: Runs the episodes.
        engine: Generates responses; None for the engine of `players`.

    Raises:
        UserError: A panel is unknown or its data is missing.
    """

    def __init__(
        self,
        run: "TrainingRun",
        players: ProcessShards,
        host: EnvHost,
        engine: Engine | None = None,
    ) -> None:
        self.plan = validation_plan(run.config, run.tasks)
        self.curves: dict[str, list[Validation]] = {}
        self._config = run.config
        self._players = players
        self._engine = engine or players.engine
        self._host = host

    @property
    def fingerprint(self) -> str:
        """Protocol fingerprint of all panels."""
        return self.plan.fingerprint

    def due(self, update: int) -> bool:
        """Whether a validation follows an update; 0 is the init."""
        every = self._config.validation.every
        last = update == self._config.optimization.updates
        return every is not None and (last or update % every == 0)

    def recall(self, lines: Sequence[Validation]) -> None:
        """Restore the validations of an earlier session."""
        for line in lines:
            self.curves.setdefault(line.panel, []).append(line)

    async def play(self, update: int, count: Count = no_progress) -> list[dict[str, Any]]:
        """Play all panels once.

        Args:
            update: The preceding update; 0 for the init.
            count: Called with the number of finished episodes.

        Returns:
            A log line for each panel, without its time.

        Raises:
            Stopped: A process was asked to stop.
        """
        mine = self._players.mine(self.plan.jobs())
        records: list[EpisodeRecord] = []
        count(0, len(mine))

        async def keep(trajectory: Trajectory) -> None:
            records.append(record_of(trajectory))
            count(len(records), len(mine))

        async def share() -> list[EpisodeRecord]:
            await play(longest_first(mine), self._engine, CONCURRENCY, keep, self._host)
            return records

        everything = await self._players.together_unless_stopped(share())
        lines = []
        for planned in self.plan.panels:
            protocol = planned.protocol
            played = [r for r in everything if (r.task, r.panel) == (protocol.task, protocol.panel)]
            name = (
                f"{protocol.task}.{protocol.panel}" if len(self.plan.panels) > 1 else protocol.panel
            )
            line = {
                "kind": "validation",
                "update": update,
                "panel": name,
                "fingerprint": protocol.fingerprint,
                **validation_numbers(played),
            }
            lines.append(line)
            known = Validation.model_validate({**line, "seconds_total": 0.0})
            self.curves.setdefault(name, []).append(known)
        return lines


def validation_numbers(records: Sequence[EpisodeRecord]) -> Mapping[str, float]:
    """The numbers of a validation line, from the records of one panel."""
    count = len(records)
    turns = [turn for record in records for turn in record.turns]
    successes = sum(record.solved for record in records)
    interval = wilson(successes, count)
    return {
        "episodes": count,
        "success": successes / count,
        "score": sum(record.score for record in records) / count,
        "format_ok": sum(turn.format_ok for turn in turns) / max(len(turns), 1),
        "action_ok": sum(turn.action_ok for turn in turns) / max(len(turns), 1),
        "turns": len(turns) / count,
        "wilson_low": interval.low,
        "wilson_high": interval.high,
    }
