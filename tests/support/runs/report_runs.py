"""Runs to report: real Sokoban episodes, played by an engine that makes mistakes like a model."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmark.engines.core.base import Engine, FinishReason, Generation, Request
from benchmark.evaluation.manifest import SCHEMA_VERSION, Manifest
from benchmark.evaluation.protocol import (
    STANDARD,
    PanelProtocol,
    SamplingOverrides,
    run_fingerprint,
)
from benchmark.evaluation.records import EpisodeRecord, record_of, totals_of
from benchmark.evaluation.rollout import Job, Trajectory, play
from benchmark.evaluation.summarize import summarize
from benchmark.evaluation.summary import RunSummary
from benchmark.models import ModelIdentity
from tasks.chat.messages import text_of
from tasks.registry import load_task
from tasks.response import format_response, parse_response

INJECTION = (
    '</script><script>document.title = "owned"</script><img src=x onerror="document.title=1">'
    "<!-- <svg/onload=alert(1)> --> {{ 7 * 7 }} &lt;b&gt; \u202ereversed\u202c \x1b[31mred\x00"
)
"""Text that a hostile model or file might contain."""


class ErringEngine(Engine):
    """Plays the expert's move or a random one, and sometimes violates the response format.

    Args:
        skill: Probability that a turn follows the expert.
        malformed: Probability that a turn violates the response format.
    """

    name = "erring"

    def __init__(self, skill: float = 0.93, malformed: float = 0.05) -> None:
        self._skill = skill
        self._malformed = malformed

    async def generate(self, request: Request) -> Generation:
        """Answer from the request's seed and episode alone."""
        rng = random.Random(request.seed)
        text = await request.episode.scripted("expert", request.seed)
        if rng.random() > self._skill:
            action = await request.episode.scripted("random", request.seed)
            move = str(parse_response(action).action)
            text = format_response("The box is close, so I try this", move)
        finish: FinishReason = "stop"
        if rng.random() < self._malformed:
            text, finish = self._break(text, rng)
        tokens = 4 + len(text) // 4
        return Generation(
            text=text,
            finish_reason=finish,
            prompt_tokens=len(text_of(request.messages[0])) // 3,
            response_tokens=tokens,
            log_prob=-0.07 * tokens * rng.random(),
        )

    @staticmethod
    def _break(text: str, rng: random.Random) -> tuple[str, FinishReason]:
        kinds: list[tuple[str, FinishReason]] = [
            ("I will go up now.", "stop"),
            (f"Sure! {text}", "stop"),
            (text.replace("</action>", ""), "length"),
            ("<think>Jump over it</think><action>jump north</action>", "stop"),
            (f"<think>{INJECTION}</think><action>{INJECTION}</action>", "stop"),
            ("<think>" + "the box has to go left or right, " * 60, "length"),
            ("", "stop"),
        ]
        return kinds[int(rng.random() * len(kinds))]

    def describe(self) -> dict[str, Any]:
        """Describe the engine as if it ran a model."""
        return {"kind": "transformers", "dtype": "float32", "device": "cpu", "context": 4096}


@dataclass(frozen=True)
class Run:
    """The arguments of `report_html`."""

    manifest: Manifest
    records: list[EpisodeRecord]
    summary: RunSummary
    sessions: list[dict[str, Any]]

    @property
    def arguments(self) -> tuple[Manifest, list[EpisodeRecord], RunSummary, list[dict[str, Any]]]:
        """The arguments in the order of `report_html`'s parameters."""
        return self.manifest, self.records, self.summary, self.sessions


def make_run(
    panels: Sequence[str] = ("builtin",),
    engine: Engine | None = None,
    choices: SamplingOverrides = STANDARD,
    episodes: int | None = None,
    task_name: str = "sokoban",
) -> Run:
    """Play panels of a task.

    Args:
        panels: Names of the panels.
        engine: The engine that plays.
        choices: Part of the protocol; the standard one by default.
        episodes: Number of episodes per panel and repeat; fewer than all make an incomplete run.
        task_name: Name of the task.
    """
    task = load_task(task_name)
    jobs: list[Job] = []
    protocols = []
    for panel_name in panels:
        panel = task.panel(panel_name)
        protocol = PanelProtocol.of(task, panel, choices)
        protocols.append(protocol)
        jobs += [
            Job(task, entry, repeat, protocol)
            for repeat in range(protocol.repeats)
            for entry in panel.entries[:episodes]
        ]
    player = engine or ErringEngine()
    records: dict[tuple[str, str, str, int], EpisodeRecord] = {}

    async def keep(trajectory: Trajectory) -> None:
        records[trajectory.job.key] = record_of(trajectory)

    asyncio.run(play(jobs, player, 8, keep))
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        fingerprint=run_fingerprint(tuple(protocols)),
        panels=tuple(protocols),
        overrides=protocols[0].overrides,
        model=ModelIdentity(name="tiny-sokoban", kind="init", sha256="5f" * 32),
        engine=player.describe(),
        versions={"arlarena-bench": "0.1.0", "python": "3.11.9", "torch": "2.13.0"},
        command=("arlarena-bench", "eval", "--model", "tiny-sokoban", "--task", task_name),
        created="2025-01-01T12:00:00+00:00",
        shard=None,
    )
    ordered = [records[job.key] for job in jobs]
    return Run(manifest, ordered, summarize(manifest, ordered), [session(len(ordered))])


def session(episodes: int) -> dict[str, Any]:
    """A line of `sessions.jsonl`."""
    return {
        "started": "2025-01-01T12:00:00+00:00",
        "ended": "finished",
        "episodes": episodes,
        "wall_s": 40.0,
        "idle_share": 0.012,
        "requests": 2400,
        "prompt_tokens": 300_000,
        "response_tokens": 48_000,
        "concurrency": 32,
        "engine": {"kind": "transformers"},
        "versions": {},
    }


def with_error(record: EpisodeRecord) -> EpisodeRecord:
    """The same episode, ended by an engine error after two turns; it can be replayed."""
    kept = record.turns[:2]
    task = load_task(record.task)
    protocol = PanelProtocol.of(task, task.panel(record.panel))
    error = f"EngineError: the server said 500: {INJECTION}"
    totals = totals_of(protocol, task, kept, outcome=None)
    return record.model_copy(update={"turns": kept, "error": error, **asdict(totals)})
